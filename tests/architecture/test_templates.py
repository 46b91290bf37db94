"""Templates of pages load the scripts that they need."""

import re
from pathlib import Path

import pytest

TEMPLATES = Path(__file__).parents[2] / "frontend" / "templates" / "frontend"
SCRIPT = "frontend/live.js"
INCLUDED = re.compile(r'{% include "frontend/(\w+\.html)"')


def asks_first(name: str) -> bool:
    """Whether a template, or one that it includes, has a form that asks before it is sent."""
    text = (TEMPLATES / name).read_text("utf-8")
    return "data-confirm" in text or any(asks_first(one) for one in INCLUDED.findall(text))


PAGES = [path.name for path in sorted(TEMPLATES.glob("[!_]*.html")) if asks_first(path.name)]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_that_asks_before_a_form_is_sent_loads_the_script_that_asks(name: str) -> None:
    assert SCRIPT in (TEMPLATES / name).read_text("utf-8")
