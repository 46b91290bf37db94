"""What the commands of the Makefile give to the processes that they start."""

import os
import subprocess

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
