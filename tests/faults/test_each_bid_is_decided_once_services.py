"""Each bid is decided once: hundreds of bids by eight clients, on PostgreSQL with two Celery workers over Redis.

One worker is killed while it decides. `crowd.assert_each_bid_decided_once` counts the decision events, the receipts
and the decisions of the replay. Each count must equal the number of bids, so a second decision of any bid fails.

The policy is drawn in each run, and a soak has both. With a server of its own each run has both:
`test_each_bid_is_decided_once_embedded.py`.
"""

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.draws import some
from tests.faults import crowd
from tests.faults.installation import start_beat, start_worker
from tests.forks import project
from tests.processes import Process, answers, free_port, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.services, pytest.mark.soak]


@pytest.fixture
def address(env: dict[str, str], tmp_path: Path) -> Iterator[str]:
    """The web process, once it listens."""
    port = free_port()
    command = ["uvicorn", "config.asgi:application", "--port", str(port)]
    web = Process(command, log=tmp_path / "web.log", env=env, parent=project(env))
    try:
        wait_until(lambda: answers(port) or not web.alive, what="the web process")
        assert web.alive, web.text()
        yield f"http://127.0.0.1:{port}"
    finally:
        web.end()


@pytest.mark.parametrize("policy", some(crowd.POLICIES, 1))
def test_a_worker_killed_half_way_changes_nothing_for_any_bid(
    policy: str, env: dict[str, str], address: str, tmp_path: Path
) -> None:
    tokens = crowd.call("prepare", policy, env=env)
    half, values = crowd.BIDS // 2, policy == "dps"
    with ExitStack() as started:
        victim, heir = (start_worker(name, env, tmp_path) for name in ("victim", "heir"))
        for process in (victim, heir):
            started.callback(process.end)
        # An unacknowledged task comes back after an hour; the sweep must find its bids long before.
        started.callback(start_beat(env, tmp_path).end)
        sequences = crowd.post_all(address, tokens, count=half, states_value=values)
        victim.signal_group(signal.SIGKILL)
        sequences += crowd.post_all(address, tokens, count=half, first=half // len(tokens), states_value=values)
        crowd.wait_for_decisions(env)
        assert not victim.alive
        assert heir.alive, heir.text()
    crowd.assert_each_bid_decided_once(env, sequences)
