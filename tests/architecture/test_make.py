"""What the commands of the Makefile give to the processes that they start."""

import os
import subprocess
from pathlib import Path

from tests.processes import ROOT


def test_processes_keep_bytecode_even_where_the_environment_forbids_it() -> None:
    env = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    command = ["make", "--no-print-directory", "--eval", "show: ; @env", "show"]
    shown = subprocess.run(
        command, env=env | {"PYTHONDONTWRITEBYTECODE": "1"}, cwd=ROOT, capture_output=True, text=True, check=True
    )
    names = {line.partition("=")[0] for line in shown.stdout.splitlines()}
    assert "PATH" in names
    assert "PYTHONDONTWRITEBYTECODE" not in names


def test_files_of_clocked_tests_are_found_by_the_text_of_the_marker() -> None:
    """Wherever else it was set, `make test` would not run these tests."""
    word = "clocked"
    named = [path for path in (ROOT / "tests").rglob("*.py") if word in path.read_text() and path != Path(__file__)]
    assert named
    for path in named:
        assert path.name.startswith("test_"), path
        assert path.read_text().count(word) == path.read_text().count(f"pytest.mark.{word}"), path
