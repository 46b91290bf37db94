"""Each bid is decided once: hundreds of bids by eight clients, on SQLite, and a server with its own worker.

`crowd.assert_each_bid_decided_once` counts the decision events, the receipts and the decisions of the replay. Each
count must equal the number of bids, so a second decision of any bid fails these tests. One test kills the server
while it decides. `test_each_bid_is_decided_once_services.py` tests the larger installation.
"""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Tables
from tests.draws import some
from tests.faults import crowd
from tests.faults.installation import start_web
from tests.processes import Process, free_port, python_env

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


@pytest.fixture
def service(env: dict[str, str], port: int, tmp_path: Path) -> Iterator[Process]:
    """The service, ended with the test."""
    process = start_web(port, env, tmp_path / "serve.log")
    yield process
    process.end()


def test_every_bid_of_a_crowd_is_decided_once_and_in_order(env: dict[str, str], service: Process, port: int) -> None:
    tokens = crowd.call("prepare", "dps", env=env)
    sequences = crowd.post_all(f"http://127.0.0.1:{port}", tokens)
    crowd.wait_for_decisions(env)
    service.signal_group(signal.SIGINT)
    assert service.popen.wait(20) == 0, service.text()
    crowd.assert_each_bid_decided_once(env, sequences)


@pytest.mark.parametrize("policy", some(crowd.POLICIES, 1))
def test_a_service_killed_half_way_leaves_nothing_half_done(
    policy: str, env: dict[str, str], port: int, tmp_path: Path
) -> None:
    crowd.call("prepare", policy, env=env)
    victim = start_web(port, env, tmp_path / "victim.log")
    try:
        sequences = crowd.submit_all(env, count=120)
        victim.signal_group(signal.SIGKILL)
    finally:
        victim.end()
    heir = start_web(port, env, tmp_path / "heir.log")
    try:
        sequences += list(crowd.call("submit", "0", "25", env=env))
        crowd.wait_for_decisions(env)
    finally:
        heir.end()
    crowd.assert_each_bid_decided_once(env, sequences)
