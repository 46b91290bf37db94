"""Names in documents and docstrings exist: Python names, files, environment variables, the steps of the picture."""

import importlib
import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from scheduling.registry import POLICIES
from tests.architecture.parsed import parsed
from tests.architecture.test_docs import DOCUMENTS, NAMED_FILE, known
from tests.architecture.test_papers import tracked
from tests.processes import ROOT

ROOMS: Final = (
    "accounts",
    "auctions",
    "benchmarks",
    "cluster",
    "config",
    "demo",
    "execution",
    "frontend",
    "scheduling",
    "studies",
    "web",
)
PYTHON_NAME: Final = re.compile(rf"`((?:tests|{'|'.join(ROOMS)})(?:\.\w+)+)[`(]")
PERMISSIONS: Final = frozenset({"cluster.change_cluster"})
"""Names of permissions, which look like names of modules."""
OUTSIDE: Final = frozenset({"CI", "DJANGO_SETTINGS_MODULE", "PATH", "PROMETHEUS_MULTIPROC_DIR", "PYTEST_CURRENT_TEST"})
"""Environment variables between this project, the system and a library, which nobody sets for this project."""


def sources() -> list[Path]:
    """Return the Python files of the rooms and the tests."""
    return [path for path in tracked() if path.suffix == ".py" and path.is_file()]


@cache
def exists(name: str) -> bool:
    """Whether a dotted name is a module, or a name in one."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


def test_what_a_docstring_says_of_a_parameter_stands_under_its_name() -> None:
    """A name that is indented like a description would be read as part of the one before it."""
    indented = re.compile(r"^( *)-{5,}\n(?:(?:\1.*)?\n)*?\1    (\w+(?:, \w+)*)\n\1        \S", re.MULTILINE)
    wrong = {
        (path.relative_to(ROOT).as_posix(), found.group(2))
        for path in sources()
        for said in parsed(path).docstrings
        if "-----" in said
        for found in indented.finditer(said)
    }
    assert wrong == set()


def test_python_names_in_documents_exist() -> None:
    names = {name for path in DOCUMENTS for name in PYTHON_NAME.findall(path.read_text(encoding="utf-8"))}
    assert len(names) > 5
    assert sorted(name for name in names - PERMISSIONS if not exists(name)) == []


def test_python_names_and_files_in_docstrings_exist() -> None:
    missing = []
    for path in sources():
        for text in parsed(path).docstrings:
            missing += [f"{path}: {name}" for name in PYTHON_NAME.findall(text) if not _is_known(name)]
            files = (match.group() for code in re.findall(r"`([^`\n]+)`", text) for match in NAMED_FILE.finditer(code))
            missing += [f"{path}: {name}" for name in files if name.endswith((".py", ".md")) and not known(name)]
    assert missing == []


def _is_known(name: str) -> bool:
    return known(name.replace(".", "/", name.count(".") - 1)) or exists(name)


READ: Final = re.compile(
    r"(?:environ(?:\.get\(|\.setdefault\(|\[)|\b(?:secret|flag|whole|number|matching|several)\()\s*\"([A-Z_]+)\""
)
"""An environment variable that Python code reads, by its name."""


def variables(*prefixes: str) -> set[str]:
    """Return the environment variables that the code in these folders reads."""
    texts = [path.read_text(encoding="utf-8") for path in sources() if str(path.relative_to(ROOT)).startswith(prefixes)]
    return {name for text in texts for name in READ.findall(text)} - OUTSIDE


def documented(page: str) -> set[str]:
    """Return the names in capital letters, in backticks, on a page."""
    return set(re.findall(r"`([A-Z][A-Z_]{3,})`", (ROOT / page).read_text(encoding="utf-8")))


def test_environment_variables_are_documented() -> None:
    read = variables(*(f"{room}/" for room in ROOMS))
    assert {"DATABASE_URL", "SHADOWPRICE_LOG"} <= read
    composed = set(re.findall(r"\$\{([A-Z_]+)", (ROOT / "docker-compose.yml").read_text(encoding="utf-8")))
    assert sorted((read | composed) - documented("docs/operators/installation.md")) == []


def test_environment_variables_of_tests_are_documented() -> None:
    read = variables("tests/") | set(re.findall(r"SHADOWPRICE_[A-Z]+", (ROOT / "Makefile").read_text(encoding="utf-8")))
    known_to_operators = documented("docs/operators/installation.md")
    assert sorted(read - known_to_operators - documented("docs/developers/tests.md")) == []


def test_every_folder_of_tests_is_described() -> None:
    page = (ROOT / "docs/developers/tests.md").read_text(encoding="utf-8")
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/__init__.py")}
    assert sorted(name for name in folders if f"`tests/{name}/`" not in page) == []


def test_the_readme_counts_the_baselines() -> None:
    numbers = ("Eight", "Nine", "Ten", "Eleven", "Twelve")
    live = sum(".baselines." in policy.__module__ for policy in POLICIES.values())
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"(\w+) baselines of the papers run live", readme) == [numbers[live - 8]]


def test_every_policy_is_in_the_table_for_operators() -> None:
    page = (ROOT / "docs/operators/policies.md").read_text(encoding="utf-8")
    first = [row.split("|")[1] for row in page.splitlines() if row.startswith("| `")]
    assert {name for names in first for name in re.findall(r"`(\w+)`", names)} == set(POLICIES)


def test_documented_environment_variables_are_read() -> None:
    everything = "\n".join(
        path.read_text(encoding="utf-8") for path in tracked() if path.suffix != ".md" and _is_text(path)
    )
    names = {
        name for page in DOCUMENTS for name in re.findall(r"SHADOWPRICE_[A-Z_]+", page.read_text(encoding="utf-8"))
    }
    former = set(re.findall(r"`(SHADOWPRICE_[A-Z_]+)`\s*\(\d+\)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")))
    names = {name.removesuffix("_FILE") for name in names - former}  # `config.environment.secret` reads files
    assert sorted(name for name in names if name not in everything) == []


def _is_text(path: Path) -> bool:
    return path.is_file() and path.suffix in (".py", ".yml", ".toml", "") and path.stat().st_size < 10**6


def test_the_picture_of_a_bid_has_the_steps_of_its_page() -> None:
    picture = (ROOT / "docs/images/path-of-a-bid.svg").read_text(encoding="utf-8")
    page = (ROOT / "docs/developers/path-of-a-bid.md").read_text(encoding="utf-8")
    drawn = re.findall(r">(\d)  [^<]+</text>", picture)
    assert drawn == re.findall(r"^(\d)\. ", page, re.M)
    words = re.findall(r"\b\w+(?:_\w+|\.py|\(\))", " ".join(re.findall(r">([^<>]+)<", picture)))
    assert [word for word in words if not any(word.strip("()") in path.read_text() for path in sources())] == []


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("scheduling.offline.best_bound", True),
        ("scheduling.model.inventory.Inventory.worker_demand", True),
        ("scheduling.model.no_such_module", False),
        ("scheduling.offline.no_such_name", False),
    ],
)
def test_a_missing_name_is_found(name: str, there: bool) -> None:
    assert exists(name) is there
