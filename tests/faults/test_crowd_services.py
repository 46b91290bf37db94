"""A thousand bids by eight clients at once, on PostgreSQL with two Celery workers over Redis, one of them killed."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.faults import crowd
from tests.faults.test_crowd_embedded import check, wait_for_decisions
from tests.processes import Process, answers, free_port, manage, python_env, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.services]


@pytest.fixture
def env(tmp_path: Path, postgres_url: str, redis_url: str) -> dict[str, str]:
    """The environment of one process of the larger installation."""
    environment = python_env(
        tmp_path, DATABASE_URL=postgres_url, REDIS_URL=redis_url, SHADOWPRICE_SECRET_KEY="only for this test"
    )
    manage("migrate", "-v0", env=environment)
    manage("flush", "--no-input", "-v0", env=environment)  # the database outlives a test
    return environment


@pytest.fixture
def address(env: dict[str, str], tmp_path: Path) -> Iterator[str]:
    """The web process, once it listens."""
    port = free_port()
    web = Process(["uvicorn", "config.asgi:application", "--port", str(port)], log=tmp_path / "web.log", env=env)
    try:
        wait_until(lambda: answers(port) or not web.alive, what="the web process")
        assert web.alive, web.text()
        yield f"http://127.0.0.1:{port}"
    finally:
        web.end()


def worker(name: str, env: dict[str, str], tmp_path: Path) -> Process:
    """A Celery worker with one child process, once it is ready."""
    command = ["celery", "-A", "config", "worker", "--concurrency", "1", "-n", f"{name}@test", "--loglevel", "INFO"]
    process = Process(command, log=tmp_path / f"{name}.log", env=env)
    wait_until(lambda: "ready." in process.text() or not process.alive, what=name)
    assert process.alive, process.text()
    return process


@pytest.mark.parametrize("policy", crowd.POLICIES)
def test_a_worker_killed_half_way_changes_nothing_for_any_bid(
    policy: str, env: dict[str, str], address: str, tmp_path: Path
) -> None:
    tokens = crowd.call("prepare", policy, env=env)
    half, values = crowd.BIDS // 2, policy == "dps"
    with ExitStack() as started:
        victim, heir = (worker(name, env, tmp_path) for name in ("victim", "heir"))
        for process in (victim, heir):
            started.callback(process.end)
        # An unacknowledged task comes back after an hour; the sweep must find its bids long before.
        beat = Process(
            ["celery", "-A", "config", "beat", "--pidfile=", "--schedule", str(tmp_path / "beat")],
            log=tmp_path / "beat.log",
            env=env,
        )
        started.callback(beat.end)
        sequences = crowd.post_all(address, tokens, count=half, states_value=values)
        victim.signal_group(signal.SIGKILL)
        sequences += crowd.post_all(address, tokens, count=half, first=half // len(tokens), states_value=values)
        wait_for_decisions(env)
        assert not victim.alive
        assert heir.alive, heir.text()
    check(crowd.verdict(env), sequences)
