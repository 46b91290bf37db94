"""The documents are true: links, anchors, commands and file names in them exist, and their lines are short."""

import importlib.util
import re
from functools import cache
from pathlib import Path

import pytest
from django.core.management import get_commands

from frontend.urls import urlpatterns
from tests.architecture.test_papers import tracked
from tests.architecture.test_rooms import ROOMS
from tests.processes import ROOT

DOCUMENTS = [ROOT / "README.md", ROOT / "SECURITY.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = [str(path.relative_to(ROOT)) for path in DOCUMENTS]
LONGEST = 120
LINK = re.compile(r"\]\(([^()\s]*)\)|^\[[^\]]+\]: (\S+)$", re.M)
FENCE = re.compile(r"^```.*?^```", re.M | re.S)
CODE = re.compile(r"`([^`\n]+)`")
NAMED_FILE = re.compile(r"(?<![\w/.*<-])([\w.-]+/)*[\w-]+\.(?:py|md|html|js|toml|yml|svg|png|txt)\b(?!/)")

WRITTEN_BY_READERS = {"flat.py", "job.py", "INSTANCE.json"}
"""Names that stand for files of the reader's own."""


@cache
def rooms() -> frozenset[str]:
    return frozenset(path.name for path in ROOT.iterdir() if path.is_dir() and (path / "__init__.py").exists())


@cache
def files() -> frozenset[str]:
    return frozenset(str(path.relative_to(ROOT)) for path in tracked())


@cache
def anchors(path: Path) -> frozenset[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    lines = FENCE.sub("", path.read_text()).splitlines()
    headings = [line.lstrip("#").strip() for line in lines if re.match(r"#{1,6} ", line)]
    return frozenset(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)


def links(path: Path) -> list[str]:
    found = [inline or reference for inline, reference in LINK.findall(FENCE.sub("", path.read_text()))]
    return [target for target in found if "://" not in target]


@pytest.mark.parametrize("name", NAMES)
def test_every_link_leads_to_a_file_and_every_anchor_to_a_heading(name: str) -> None:
    path = ROOT / name
    for target in links(path):
        file, _, anchor = target.partition("#")
        page = (path.parent / file).resolve() if file else path
        assert page.exists(), target
        assert not anchor or anchor in anchors(page), f"{target}: {sorted(anchors(page))}"


@pytest.mark.parametrize("name", NAMES)
def test_no_line_is_longer_than_120_characters(name: str) -> None:
    lines = enumerate((ROOT / name).read_text().splitlines(), 1)
    assert [(number, len(line)) for number, line in lines if len(line) > LONGEST] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_command_exists(name: str) -> None:
    text = (ROOT / name).read_text()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    assert set(re.findall(r"(?:^ {4}|^|`)make ([a-z-]+)", text, re.M)) <= targets
    assert set(re.findall(r"manage\.py ([a-z_]+)", text)) <= set(get_commands())
    for module in set(re.findall(r"python -m ([a-z][\w.]*\w)", text)):
        assert importlib.util.find_spec(module), module


@pytest.mark.parametrize("name", [name for name in NAMES if name != "CHANGELOG.md"])
def test_every_file_that_is_named_exists(name: str) -> None:
    missing = []
    for code in CODE.findall(FENCE.sub("", (ROOT / name).read_text())):
        named = [match.group() for match in NAMED_FILE.finditer(code)]
        folders = [code] if re.fullmatch(r"[\w.-]+(/[\w.-]+)*/", code) and code.split("/")[0] in rooms() else []
        missing += [file for file in named if not known(file)] + [one for one in folders if not (ROOT / one).is_dir()]
    assert missing == []


def known(named: str) -> bool:
    """Whether a file of the project has this path, or ends with it."""
    return named in WRITTEN_BY_READERS or any(file == named or file.endswith(f"/{named}") for file in files())


def test_every_page_can_be_reached_from_the_index() -> None:
    seen: set[Path] = set()
    waiting = [ROOT / "docs/README.md"]
    while waiting:
        page = waiting.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        waiting += [(page.parent / target.partition("#")[0]).resolve() for target in links(page) if target[0] != "#"]
    assert {path for path in DOCUMENTS if (ROOT / "docs") in path.parents} <= seen


def test_the_list_of_pages_names_every_file_that_they_offer() -> None:
    listed = (ROOT / "docs/users/pages.md").read_text()
    offered = {str(one.pattern).rsplit("/", 1)[-1] for one in urlpatterns}
    files = {name for name in offered if name.endswith((".csv", ".txt")) and "<" not in name}
    assert "holdings.csv" in files
    assert [name for name in sorted(files) if name not in listed] == []


def test_a_missing_file_and_a_missing_anchor_are_found() -> None:
    assert not known("scheduling/no_such_module.py")
    assert known("engine/decide.py")
    assert anchors(ROOT / "docs/README.md") >= {"the-documentation-by-reader"}


@pytest.mark.parametrize("room", ROOMS)
def test_the_map_of_the_code_has_every_module_of_a_room_and_every_command(room: str) -> None:
    text = (ROOT / "docs/developers/house.md").read_text()
    named = {name for code in CODE.findall(text) for name in code.strip("/").split("/")}
    top = {path.name for path in (ROOT / room).iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    commands = {path.stem for path in (ROOT / room / "management/commands").glob("*.py")}
    assert (top | commands) - named <= {"__init__.py", "__init__", "apps.py", "migrations"}
