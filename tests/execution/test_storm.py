"""A storm: programs, shims, daemons, executors and the web process are killed and frozen while jobs train.

`storm.py` says what has to hold after each fault and at the end.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from execution.engines import small_slurm
from tests import draws
from tests.conftest import Tables, missing
from tests.processes import ROOT, python_env

pytestmark = [pytest.mark.slow, pytest.mark.soak, pytest.mark.clocked]

POLICIES = ("competition", "completions", "dps", "oasis", "weighted_completion", "preemptive")
FAULTS = {"local": 3, "slurm": 2}
IN_A_SOAK = 50


@pytest.mark.parametrize("engine", draws.some(FAULTS, 1))
def test_nothing_runs_twice_outside_its_slots_or_for_ever(engine: str, tmp_path: Path, make_tables: Tables) -> None:
    if engine == "slurm" and small_slurm.lacking():
        missing(f"Slurm ({small_slurm.lacking()})", install=f"{small_slurm.INSTALL}, as root")
    env = python_env(tmp_path, SHADOWPRICE_SWEEP_S="1")
    make_tables(env)
    rng, seed = draws.fresh()
    faults = IN_A_SOAK if draws.SOAK else FAULTS[engine]
    given = (str(rng.choice(POLICIES)), faults, seed, str(tmp_path / "slurm") if engine == "slurm" else "")
    command = [sys.executable, "manage.py", "shell", "-c", f"from tests.execution.storm import main; main(*{given})"]
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    print(engine, given, done.stdout.splitlines()[-1])
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["faults"] == faults
    assert figures["left"] == 0
    assert figures["steps"] > 0
