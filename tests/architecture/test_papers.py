"""What the repository says about itself: commands that exist, pins without addresses, words that stay out."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.architecture.parsed import parsed
from tests.processes import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PIN = re.compile(r"^[a-z0-9][a-z0-9.-]*==[0-9][0-9a-z.]*$")


def tracked() -> list[Path]:
    """Every file of the project: as git knows it, or without a repository all that git would not ignore."""
    if not (ROOT / ".git").exists():
        return unpacked(ROOT)
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in names.split("\0") if name and (ROOT / name).is_file()]


def unpacked(root: Path) -> list[Path]:
    """Every file below `root` but those that its `.gitignore` names."""
    ignored = [line.rstrip("/") for line in (root / ".gitignore").read_text().splitlines()]
    found: list[Path] = []
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if not any(fnmatch(name, pattern) for pattern in ignored))
        found += [
            Path(folder) / name for name in sorted(files) if not any(fnmatch(name, pattern) for pattern in ignored)
        ]
    return found


@pytest.mark.skipif(
    not (ROOT / ".git").exists(), reason="An unpacked archive has no list of its files to compare with."
)
def test_without_a_repository_the_same_files_are_found() -> None:
    assert set(tracked()) <= set(unpacked(ROOT))


def canonical(requirement: str) -> str:
    """A distribution's name without extras, versions and case."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=!~; ]", requirement)[0]).lower()


def pins(name: str) -> dict[str, str]:
    """Distribution to version, of one requirements file."""
    lines = (ROOT / name).read_text().splitlines()
    return dict(line.split("==") for line in lines)


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-traces.txt", "requirements-dev.txt"])
def test_requirements_are_exact_pins_and_nothing_else(name: str) -> None:
    lines = (ROOT / name).read_text().splitlines()
    assert [line for line in lines if not PIN.match(line)] == []


def test_every_dependency_is_pinned() -> None:
    assert {canonical(r) for r in PROJECT["dependencies"]} <= set(pins("requirements.txt"))
    for extra, names in PROJECT["optional-dependencies"].items():
        assert {canonical(r) for r in names} <= set(pins(f"requirements-{extra}.txt"))


def test_all_files_pin_the_same_versions() -> None:
    runtime, traces, dev = (pins(f"requirements{extra}.txt") for extra in ("", "-traces", "-dev"))
    assert {name: traces.get(name) for name in runtime} == runtime
    assert {name: dev.get(name) for name in traces} == traces


def test_every_dependency_is_argued_for_and_no_other() -> None:
    argued = set(re.findall(r"^\| `([^`]+)` \|", (ROOT / "docs/developers/dependencies.md").read_text(), re.M))
    wanted = [
        *PROJECT["dependencies"],
        *(name for extra in PROJECT["optional-dependencies"].values() for name in extra),
    ]
    assert argued == {canonical(requirement) for requirement in wanted}


@pytest.mark.thorough
def test_every_package_that_is_imported_is_a_dependency_or_a_part_of_one() -> None:
    """A package that only another one brings may be gone with the next version of that one."""
    distributions = packages_distributions()
    to_run = {canonical(one) for one in PROJECT["dependencies"]}
    optional = {extra: {canonical(one) for one in names} for extra, names in PROJECT["optional-dependencies"].items()}
    missing = set()
    for path in (path for path in tracked() if path.suffix == ".py"):
        room = path.relative_to(ROOT).parts[0]
        allowed = to_run | optional["traces"] | (optional["dev"] if room in ("tests", "benchmarks") else set())
        for name in set(imported(path)) - set(sys.stdlib_module_names):
            brought_by = {canonical(one) for one in distributions.get(name, ())}
            if brought_by and not brought_by & allowed:
                missing.add((room, name))
    assert not missing


def imported(path: Path) -> Iterator[str]:
    """Top-level names that a module imports."""
    for node in parsed(path).imports:
        match node:
            case ast.Import(names=names):
                yield from (one.name.partition(".")[0] for one in names)
            case ast.ImportFrom(module=str() as module, level=0):
                yield module.partition(".")[0]


@pytest.mark.thorough
def test_no_file_names_a_package_registry_or_a_path_of_one_machine() -> None:
    forbidden = re.compile(r"index-url|//pypi\.|//files\.pythonhosted|(?<![\w.])/(?:work|root|home/\w+)/")
    here = Path(__file__).resolve()
    for path in tracked():
        if path.resolve() == here or path.suffix in (".png", ".woff2", ".js") or path.name == "Makefile":
            continue
        found = forbidden.search(path.read_text(errors="replace"))
        assert found is None, f"{path.relative_to(ROOT)}: {found and found.group()}"


def test_the_readme_shows_both_commands_and_both_pictures() -> None:
    text = (ROOT / "README.md").read_text()
    for wanted in ("make demo", "make test", "docs/images/overview.png", "docs/images/path-of-a-bid.svg"):
        assert wanted in text


def test_the_changelog_is_newest_first() -> None:
    headings = re.findall(r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert headings
    assert headings[0] == "Unreleased"


def test_the_build_runs_make_test() -> None:
    assert "test" in (ROOT / ".ci/run").read_text().splitlines()[-1].split()
    assert (ROOT / ".ci/run").stat().st_mode & 0o111
