"""The benchmark of the executor's loop: it runs, with few jobs."""

import subprocess
import sys

import pytest

from tests.processes import ROOT


@pytest.mark.slow
def test_it_prints_what_a_loop_costs() -> None:
    command = [sys.executable, "-m", "benchmarks.execution_loop", "--jobs", "3", "--loops", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "3 jobs run" in done.stdout
