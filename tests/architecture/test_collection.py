"""The tests carry their own data; a larger collection adds to it, and the end of a run says which data there was."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.collection import ROOT, VARIABLE, files, larger, own_files
from tests.forks import UNBUFFERED, libraries

FILE = "tests/architecture/test_collection.py"
TEST = "test_a_collection_says_what_it_is"
WORKERS = ("-n", "2")
"""What is counted and said once is so however many workers there are."""


def run(collection: Path | str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run one test of this file with this as the larger collection."""
    command = [sys.executable, "-m", "pytest", "-n", "0", f"{FILE}::{TEST}", *options]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return libraries().complete(command, env=env | UNBUFFERED | {VARIABLE: str(collection)}, seconds=120)


@pytest.mark.parametrize("path", files("README.md"))
def test_a_collection_says_what_it_is(path: Path) -> None:
    assert path.read_text().startswith("# ")


def test_own_files_are_in_tests() -> None:
    assert own_files("README.md") == [ROOT / "tests" / "data" / "README.md"]


def test_a_pattern_without_a_file_is_an_error_not_a_test_without_data() -> None:
    with pytest.raises(FileNotFoundError, match="no file cases/nothing"):
        own_files("cases/nothing/*.json")
    with pytest.raises(FileNotFoundError, match="no file cases/nothing"):
        files("cases/nothing/*.json")


def test_without_a_collection_beside_the_repository_there_is_none(tmp_path: Path) -> None:
    assert larger({}, beside=tmp_path / "missing") is None
    assert larger({}, beside=tmp_path) is None, "a directory that is something else"
    (tmp_path / "cases").mkdir()
    assert larger({}, beside=tmp_path) == tmp_path
    assert larger({VARIABLE: ""}, beside=tmp_path) is None


@pytest.mark.thorough
def test_a_variable_that_names_no_collection_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(pytest.UsageError, match=VARIABLE):
        larger({VARIABLE: str(tmp_path / "missing")})
    done = run(tmp_path / "missing")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"{VARIABLE}: {tmp_path}/missing is not a directory" in done.stdout + done.stderr


@pytest.mark.thorough
def test_the_end_of_a_run_says_once_that_there_was_no_larger_collection() -> None:
    done = run("")
    assert done.stdout.count("there was no larger collection") == 1
    assert done.returncode == 0


@pytest.mark.thorough
def test_the_end_of_a_run_counts_the_tests_on_the_larger_collection(tmp_path: Path) -> None:
    (tmp_path / "cases").mkdir()
    (tmp_path / "README.md").write_text("# More\n")
    for options, added in ((WORKERS, 1), (("--deselect", f"{FILE}::{TEST}[collection-README]"), 0)):
        done = run(tmp_path, *options)
        assert done.stdout.count(f"the larger collection in {tmp_path} (tests added: {added})") == 1
        assert done.returncode == 0


@pytest.mark.thorough
def test_the_same_test_fails_on_a_file_of_the_larger_collection(tmp_path: Path) -> None:
    (tmp_path / "cases").mkdir()
    (tmp_path / "README.md").write_text("no title\n")
    done = run(tmp_path)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "test_a_collection_says_what_it_is[collection-README]" in done.stdout
