"""The import contracts hold, and fail when they should."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT

LINT = Path(sys.executable).parent / "lint-imports"
FOR_FEW = {"authlib", "joserfc", "scipy.optimize", "scipy.special"}
"""Packages for logins at a provider, solvers, and intervals of experiments."""


@pytest.mark.thorough
def test_the_contracts_hold() -> None:
    done = subprocess.run([str(LINT), "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.thorough
def test_the_core_runs_without_django() -> None:
    code = (
        "import sys, scheduling.registry, scheduling.policies.dps, scheduling.instances.dps\n"
        "sys.exit(any(name.split('.')[0] in ('django', 'celery', 'redis') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


@pytest.mark.thorough
@pytest.mark.parametrize("entry", ["config.asgi", "config.wsgi", "config.celery", "config.urls"])
def test_every_entry_point_can_be_imported_first_and_without_what_few_processes_need(entry: str) -> None:
    """Importing this takes a third of the time in which a process starts."""
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "config.settings"}
    setup = "import django; django.setup(); " if entry == "config.urls" else ""
    code = f"{setup}import sys, {entry}; sys.exit(', '.join(sorted({FOR_FEW!r} & sys.modules.keys())))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.stderr.strip() == ""
