"""Celery's processes of the larger installation, and what they wrote."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.conf import settings

from tests.architecture.test_compose import SERVICES
from tests.forks import project
from tests.processes import Process, answers, wait_until

UNTIL = """
from time import sleep
from studies.models import Plan, Run
while not ({}):
    sleep(0.1)
"""


def start_web(port: int, env: dict[str, str], log: Path) -> Process:
    """The web process, once it listens."""
    command = ["python", "manage.py", "serve", "--port", str(port)]
    process = Process(command, log=log, env=env, parent=project(env))
    try:
        wait_until(lambda: answers(port) or not process.alive, what="the web process")
        assert process.alive, process.text()
    except BaseException:
        process.end()
        raise
    return process


def start_worker(name: str, env: dict[str, str], directory: Path) -> Process:
    """A worker with one child process, once it is ready."""
    command = ["celery", "-A", "config", "worker", "--concurrency", "1", "-n", f"{name}@test"]
    return _ready(command, name, env, directory)


def start_worker_of_everything(name: str, env: dict[str, str], directory: Path) -> Process:
    """A worker with one child process that takes tasks of all queues, once it is ready."""
    queues = ",".join(settings.QUEUES)
    command = ["celery", "-A", "config", "worker", "--concurrency", "1", "-n", f"{name}@test", "--queues", queues]
    return _ready(command, name, env, directory)


def start_planner(name: str, env: dict[str, str], directory: Path) -> Process:
    """The compose file's planner under a name of its own, once it is ready."""
    command = [word.replace("planner@shadowprice", f"{name}@test") for word in SERVICES["planner"]["command"]]
    return _ready(command, name, env, directory)


def start_beat(env: dict[str, str], directory: Path) -> Process:
    """What sweeps for work that nobody does."""
    command = ["celery", "-A", "config", "beat", "--pidfile=", "--schedule", str(directory / "beat")]
    return Process(command, log=directory / "beat.log", env=env, parent=project(env))


def shell(code: str, env: dict[str, str]) -> str:
    """What a piece of code prints in a process of the installation."""
    return project(env).run(["python", "-c", code], env=env, seconds=120)


def read(code: str, env: dict[str, str]) -> Any:
    """The same, read as JSON."""
    return json.loads(shell(code, env))


def until(condition: str, env: dict[str, str], *, seconds: float) -> None:
    """Wait for a condition on plans or runs, in one process: one for each look would take a core from the workers."""
    project(env).run(["python", "-c", UNTIL.format(condition)], env=env, seconds=seconds)


def _ready(command: Sequence[str], name: str, env: dict[str, str], directory: Path) -> Process:
    command = [*command, "--loglevel", "INFO"]
    process = Process(command, log=directory / f"{name}.log", env=env, parent=project(env))
    wait_until(lambda: "ready." in process.text() or not process.alive, what=name)
    assert process.alive, process.text()
    return process
