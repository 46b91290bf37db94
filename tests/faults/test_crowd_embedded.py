"""Hundreds of bids by eight clients at once, on SQLite with the worker inside the web process."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Tables
from tests.faults import crowd
from tests.processes import Process, answers, free_port, python_env, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.soak]


@pytest.fixture
def env(tmp_path: Path, make_tables: Tables) -> dict[str, str]:
    """A data directory of their own."""
    environment = python_env(tmp_path)
    make_tables(environment)
    return environment


@pytest.fixture
def port() -> int:
    return free_port()


def serve(env: dict[str, str], port: int, log: Path) -> Process:
    """The service, once it listens."""
    command = ["python", "manage.py", "serve", "--port", str(port)]
    process = Process(command, log=log, env=env)
    wait_until(lambda: answers(port) or not process.alive, what="the service")
    assert process.alive, process.text()
    return process


@pytest.fixture
def service(env: dict[str, str], port: int, tmp_path: Path) -> Iterator[Process]:
    """The service, ended with the test."""
    process = serve(env, port, tmp_path / "serve.log")
    yield process
    process.end()


def check(verdict: crowd.Verdict, sequences: list[int]) -> None:
    """Each decided once, in queue order, none over capacity, the same again when replayed."""
    assert sorted(sequences) == list(range(1, len(sequences) + 1))
    assert verdict == crowd.Verdict(
        submitted=len(sequences),
        waiting=0,
        decided=len(sequences),
        decisions=len(sequences),
        in_order=True,
        replayed=len(sequences),
        mismatches=0,
        broken={},
    )


def wait_for_decisions(env: dict[str, str]) -> None:
    assert crowd.call("settle", env=env) == 0


def test_every_bid_of_a_crowd_is_decided_once_and_in_order(env: dict[str, str], service: Process, port: int) -> None:
    tokens = crowd.call("prepare", "dps", env=env)
    sequences = crowd.post_all(f"http://127.0.0.1:{port}", tokens)
    wait_for_decisions(env)
    service.signal_group(signal.SIGINT)
    assert service.popen.wait(20) == 0, service.text()
    check(crowd.verdict(env), sequences)


@pytest.mark.parametrize("policy", crowd.POLICIES)
def test_a_service_killed_half_way_leaves_nothing_half_done(
    policy: str, env: dict[str, str], port: int, tmp_path: Path
) -> None:
    crowd.call("prepare", policy, env=env)
    victim = serve(env, port, tmp_path / "victim.log")
    try:
        sequences = crowd.submit_all(env, count=200)
        victim.signal_group(signal.SIGKILL)
    finally:
        victim.end()
    heir = serve(env, port, tmp_path / "heir.log")
    try:
        sequences += list(crowd.call("submit", "0", "25", env=env))
        wait_for_decisions(env)
    finally:
        heir.end()
    check(crowd.verdict(env), sequences)
