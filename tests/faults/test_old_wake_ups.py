"""Wake-ups that no worker took in time are dropped, so that none pile up; the sweep decides the bids."""

from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest
from celery.signals import before_task_publish

from auctions import tasks
from auctions.domain import waking
from auctions.engine import decision_queue
from tests.faults import crowd
from tests.faults.installation import read, start_beat, start_worker
from tests.processes import wait_until

BIDS: Final = 5
SUBMIT: Final = f"""
import json
from auctions import tasks
from tests.faults import crowd
tasks.decide_market.expires = 0.01
print(json.dumps(crowd._submit(0, {BIDS})))
"""


def test_a_message_of_a_wake_up_says_until_when_it_may_be_taken() -> None:
    sent: list[Any] = []

    def look(headers: dict[str, Any], **_: object) -> None:
        sent.append(headers)

    before_task_publish.connect(look)
    try:
        assert waking.publish(decision_queue.TASK, 1)
    finally:
        before_task_publish.disconnect(look)
    [headers] = sent
    left = datetime.fromisoformat(headers["expires"]) - datetime.now(datetime.fromisoformat(headers["expires"]).tzinfo)
    assert waking.AGAIN_S < left.total_seconds() <= tasks.WAKE_UP_S


@pytest.mark.slow
@pytest.mark.services
def test_bids_whose_wake_up_was_dropped_are_decided_by_the_sweep(env: dict[str, str], tmp_path: Path) -> None:
    crowd.call("prepare", "dps", env=env)
    sequences = read(SUBMIT, env)
    with ExitStack() as started:
        worker = start_worker("worker", env, tmp_path)
        started.callback(worker.end)
        wait_until(lambda: "Discarding revoked task: auctions.tasks.decide_market" in worker.text(), what="the drop")
        assert crowd.call("waiting", env=env) == BIDS
        started.callback(start_beat(env, tmp_path).end)
        crowd.wait_for_decisions(env)
    crowd.assert_each_bid_decided_once(env, sequences)
