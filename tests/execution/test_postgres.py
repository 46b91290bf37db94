"""The executor on PostgreSQL."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT, Server, fresh_database, python_env

pytestmark = [pytest.mark.slow, pytest.mark.services]


@pytest.mark.parametrize("main", ["main", "lose_connection"])
def test_a_job_runs_through_while_another_executor_takes_over_or_a_connection_ends(
    postgres_server: Server, tmp_path: Path, main: str
) -> None:
    env = python_env(tmp_path, DATABASE_URL=fresh_database(postgres_server))
    command = [sys.executable, "manage.py", "shell", "-c", f"from tests.execution.postgres import {main}; {main}()"]
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines()[-1:] == ["done"], done.stderr
