"""Redis hangs: it accepts connections and answers nothing. Whatever is submitted is stored at once and done later."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest
import requests

from auctions.domain import waking
from studies.experiments.api.examples import EXPERIMENTS, TRACES
from studies.split_learning.api.examples import PLANS
from tests.faults import crowd
from tests.faults.installation import start_beat, start_web, start_worker
from tests.processes import Server, children, free_port, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.services]

LONGEST_S: Final = 3.0
"""A second until the broker is given up, and a busy machine."""
ACKNOWLEDGES_S: Final = 5.0
"""Time in which a worker tries to acknowledge a task, unless it already waits for an answer of Redis."""
WITHOUT_PAUSE: Final = 3
"""Submissions in a row: only the first tries the broker."""


@pytest.fixture
def address(env: dict[str, str], tmp_path: Path) -> Iterator[str]:
    """The web process, which has spoken to no broker yet."""
    port = free_port()
    web = start_web(port, env, tmp_path / "web.log")
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        web.end()


def seconds_of(session: requests.Session, url: str, body: Any) -> float:
    """Return the duration of an accepted submission."""
    began = time.monotonic()
    answer = session.post(url, json=body, timeout=60)
    assert answer.status_code in (201, 202), answer.text
    return time.monotonic() - began


def _signal(processes: list[int], number: signal.Signals) -> None:
    for process in processes:
        os.kill(process, number)


def test_submissions_are_answered_while_redis_hangs_and_bids_are_decided_afterwards(
    env: dict[str, str], address: str, tmp_path: Path, redis_server: Server
) -> None:
    tokens = crowd.call("prepare", "dps", env=env)
    bids = f"{address}/api/v1/clusters/{crowd.CLUSTER}/bids"
    with requests.Session() as session:
        session.trust_env = False
        session.headers["Authorization"] = f"Token {tokens[0]}"
        seconds_of(session, bids, crowd.body_of(0, 0))  # a connection to the broker is open
        with redis_server.hung():
            took = {f"bid {i}": seconds_of(session, bids, crowd.body_of(0, i)) for i in range(1, 1 + WITHOUT_PAUSE)}
            many = {"bids": [crowd.body_of(0, i) for i in range(10, 15)]}
            took["many bids"] = seconds_of(session, f"{bids}/bulk", many)
            plan, trace, experiment = (next(iter(bodies.values())) for bodies in (PLANS, TRACES, EXPERIMENTS))
            took["plan"] = seconds_of(session, f"{address}/api/v1/plans", plan)
            took["trace"] = seconds_of(session, f"{address}/api/v1/traces", trace)
            took["experiment"] = seconds_of(session, f"{address}/api/v1/experiments", experiment)
    assert {name: seconds for name, seconds in took.items() if seconds > LONGEST_S} == {}
    with ExitStack() as started:
        for process in (start_worker("worker", env, tmp_path), start_beat(env, tmp_path)):
            started.callback(process.end)
        crowd.wait_for_decisions(env)
    found = crowd.verdict(env)
    assert (found.submitted, found.decided, found.in_order, found.broken) == (9, 9, True, {})


def test_a_worker_goes_on_after_redis_hung_when_a_task_ended(
    env: dict[str, str], address: str, tmp_path: Path, redis_server: Server
) -> None:
    tokens = crowd.call("prepare", "dps", env=env)
    url = f"{address}/api/v1/clusters/{crowd.CLUSTER}/bids"
    worker = start_worker("worker", env, tmp_path)
    try:
        with requests.Session() as session:
            session.trust_env = False
            session.headers["Authorization"] = f"Token {tokens[0]}"
            deciding = children(worker.pid)
            _signal(deciding, signal.SIGSTOP)  # so the task ends after Redis has hung, however long that takes
            seconds_of(session, url, crowd.body_of(0, 0))
            wait_until(lambda: "decide_market[" in worker.text(), what="the task")  # the list of tasks is there before
            with redis_server.hung():
                _signal(deciding, signal.SIGCONT)
                crowd.wait_for_decisions(env)
                time.sleep(ACKNOWLEDGES_S)
            time.sleep(waking.BROKER_REST_S + 1)  # the web process may have given the broker up
            seconds_of(session, url, crowd.body_of(0, 1))  # no beat sweeps: its wake-up alone brings a decision
            crowd.wait_for_decisions(env)
    finally:
        worker.end()
