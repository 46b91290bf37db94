"""Names of the parts of a page by which a screen reader lists them."""

import re
from pathlib import Path

import frontend

TEMPLATES = Path(frontend.__file__).parent / "templates"


def test_no_table_that_scrolls_has_the_name_of_a_section_of_its_page() -> None:
    both, tables = [], 0
    for path in sorted(TEMPLATES.rglob("*.html")):
        text = path.read_text()
        headings = dict(re.findall(r'<h[23] id="([^"]+)"[^>]*>([^<]+)<', text))
        sections = {headings.get(key) for key in re.findall(r'<section[^>]*aria-labelledby="([^"]+)"', text)}
        scrolling = re.findall(r'role="region"[^>]*aria-label="([^"]+)"', text)
        tables += len(scrolling)
        both += [f"{path.name}: {name}" for name in scrolling if name in sections]
    assert tables > 20
    assert both == []
