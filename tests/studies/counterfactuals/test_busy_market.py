"""Replay of a market's record while others write to the same SQLite file, and while the database is busy."""

from pathlib import Path

import pytest

from tests.conftest import Tables
from tests.faults import crowd
from tests.faults.installation import read, shell
from tests.processes import python_env

pytestmark = pytest.mark.slow

BIDS = 520
"""Their decisions fill more than a page of events."""
DECIDE_AND_ASK = f"""
from django.contrib.auth.models import User
from auctions.engine import decision_queue
from auctions.models import Market
from auctions.engine.submission import submit_bids
from scheduling.registry import make_policy
from studies.counterfactuals.requests import CounterfactualRequest, create
market, alice = Market.objects.get(), User.objects.first()
body = {{"model": "ResNet-50", "epochs": 1, "utility": {{"form": "constant", "value": 1e-6}}}}
submit_bids(cluster=market.cluster, owner=alice, bodies=[body] * {BIDS})
decision_queue.process_pending(market.pk)
create(alice, market, CounterfactualRequest(make_policy("fifo", {{}}), 1))
"""
TELL_WHILE_OTHERS_COMMIT = """
import json
import logging
from threading import Event, Thread
from cluster.models import Cluster
from scheduling import kernels
from studies.counterfactuals import computing
from studies.models import Counterfactual
from studies.background import loading

stop, commits = Event(), []
def commit():
    while not stop.wait(0.002):
        commits.append(Cluster.objects.update(note=f"{len(commits)}"))
left_out = []
logging.getLogger("studies.background.states").warning = lambda *said: left_out.append(said)
loading._loaded.update(kernels.GROUPS.values())
computing.EVERY_S = 0.0
writer = Thread(target=commit)
writer.start()
attempts = 0
while computing.compute_next():
    attempts += 1
stop.set()
writer.join()
found = Counterfactual.objects.get()
print(json.dumps([found.state, found.error, found.decided, attempts, len(left_out), len(commits) > 20]))
"""


def test_it_is_replayed_at_the_first_attempt_while_others_commit(tmp_path: Path, make_tables: Tables) -> None:
    env = python_env(tmp_path)
    make_tables(env)
    crowd.call("prepare", "dps", env=env)
    shell(DECIDE_AND_ASK, env)
    assert read(TELL_WHILE_OTHERS_COMMIT, env) == ["completed", "", BIDS, 1, 0, True]
