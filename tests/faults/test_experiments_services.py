"""Experiments on PostgreSQL with workers over Redis: one is killed in the middle, and every run is there once."""

import json
import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.test_compose import SERVICES
from tests.processes import Process, manage, python_env, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.services]
ASK = """
from django.contrib.auth.models import User
from studies.experiments.asking import ask, ask_again
from studies.experiments.wish import TraceFinder, Wish
from studies.models import Trace
body = {
    "workloads": [{"generator": "dps", "setting": {"jobs": 600, "servers": 30}}],
    "policies": [{"name": "dps"}],
    "seeds": [1, 2],
    "bound": False,
}
owner = User.objects.create_user("alice")
ask_again(owner, ask(owner, Wish.from_json(body, TraceFinder(Trace.objects.all()))))
"""
READ = """
import json
from studies.models import Run
columns = ("experiment", "number", "state", "attempts", "decided", "outcome_sha256", "error")
print(json.dumps(list(Run.objects.order_by("experiment", "number").values(*columns))))
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


def read(env: dict[str, str]) -> Any:
    """Every run."""
    return json.loads(manage("shell", "--no-imports", "-c", READ, env=env))


def worker(name: str, env: dict[str, str], tmp_path: Path) -> Process:
    """The compose file's planner under a name of its own, once it is ready."""
    command = [word.replace("planner@shadowprice", f"{name}@test") for word in SERVICES["planner"]["command"]]
    process = Process([*command, "--loglevel", "INFO"], log=tmp_path / f"{name}.log", env=env)
    wait_until(lambda: "ready." in process.text() or not process.alive, what=name)
    assert process.alive, process.text()
    return process


def test_every_run_of_a_killed_worker_is_there_once_with_the_same_bytes(env: dict[str, str], tmp_path: Path) -> None:
    """The second experiment repeats the first, so that each run has a twin that another worker may have computed."""
    beat = ["celery", "-A", "config", "beat", "--pidfile=", "--schedule", str(tmp_path / "beat")]
    with ExitStack() as started:
        started.callback(Process(beat, log=tmp_path / "beat.log", env=env).end)
        victim = worker("victim", env, tmp_path)
        started.callback(victim.end)
        manage("shell", "--no-imports", "-c", ASK, env=env)
        _wait(env, lambda runs: any(run["state"] == "running" for run in runs), seconds=120)
        victim.signal_group(signal.SIGKILL)
        started.callback(worker("heir", env, tmp_path).end)
        _wait(env, lambda runs: all(run["state"] not in ("waiting", "running") for run in runs), seconds=240)
    runs = read(env)
    assert [(run["state"], run["error"]) for run in runs] == [("done", "")] * 4
    assert sorted(run["attempts"] for run in runs) == [1, 1, 1, 2], "the one that was computed when its worker died"
    first, again = ([run["outcome_sha256"] for run in half] for half in (runs[:2], runs[2:]))
    assert first == again
    assert len(set(first)) == 2


def _wait(env: dict[str, str], done: Callable[[Any], bool], *, seconds: float) -> None:
    wait_until(lambda: done(read(env)), what="the runs", seconds=seconds, every=0.3)
