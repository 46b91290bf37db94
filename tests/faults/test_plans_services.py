"""Plans on PostgreSQL with planners over Redis: one is killed in the middle of a plan, and another begins it again."""

import json
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.test_compose import SERVICES
from tests.processes import Process, manage, python_env, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.services]
ASK = """
from django.contrib.auth.models import User
from studies.plans.asking import ask
from studies.plans.wish import Wish
from tests.studies.plans.conftest import large
owner = User.objects.create_user("alice")
plan = ask(owner, Wish.from_json({**large(), "seconds": 10}))
"""
READ = """
import json
from studies.models import Plan
print(json.dumps(list(Plan.objects.values("state", "attempts", "makespan", "lower_bound", "error"))))
"""


@pytest.fixture
def env(tmp_path: Path, postgres_url: str, redis_url: str) -> dict[str, str]:
    """The environment of one process of the larger installation."""
    environment = python_env(
        tmp_path, DATABASE_URL=postgres_url, REDIS_URL=redis_url, SHADOWPRICE_SECRET_KEY="only for this test"
    )
    manage("migrate", "-v0", env=environment)
    manage("flush", "--no-input", "-v0", env=environment)
    return environment


def shell(code: str, env: dict[str, str]) -> str:
    return manage("shell", "--no-imports", "-c", code, env=env)


def read(env: dict[str, str]) -> Any:
    """The one plan there is."""
    (plan,) = json.loads(shell(READ, env))
    return plan


def planner(name: str, env: dict[str, str], tmp_path: Path) -> Process:
    """The compose file's planner under a name of its own, once it is ready."""
    command = [word.replace("planner@shadowprice", f"{name}@test") for word in SERVICES["planner"]["command"]]
    process = Process([*command, "--loglevel", "INFO"], log=tmp_path / f"{name}.log", env=env)
    wait_until(lambda: "ready." in process.text() or not process.alive, what=name)
    assert process.alive, process.text()
    return process


def test_a_plan_of_a_killed_planner_is_begun_again_by_another(env: dict[str, str], tmp_path: Path) -> None:
    beat = ["celery", "-A", "config", "beat", "--pidfile=", "--schedule", str(tmp_path / "beat")]
    with ExitStack() as started:
        started.callback(Process(beat, log=tmp_path / "beat.log", env=env).end)
        victim = planner("victim", env, tmp_path)
        started.callback(victim.end)
        shell(ASK, env)
        wait_until(lambda: read(env)["makespan"] is not None, what="a first plan", seconds=90, every=0.5)
        victim.signal_group(signal.SIGKILL)
        assert read(env)["state"] == "running"
        started.callback(planner("heir", env, tmp_path).end)
        wait_until(lambda: read(env)["state"] not in ("waiting", "running"), what="the plan", seconds=180, every=1)
    plan = read(env)
    assert (plan["state"], plan["attempts"], plan["error"]) == ("done", 2, "")
    assert plan["lower_bound"] <= plan["makespan"]
