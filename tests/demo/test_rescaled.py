"""The demo's market of OASiS: jobs of its stream change their number of workers while they run."""

from collections import defaultdict
from itertools import islice, pairwise
from pathlib import Path

import pytest

from auctions.engine import decision_queue
from auctions.engine.slots import pass_slots
from auctions.engine.submission import submit_bid
from auctions.models import Commitment
from cluster.clock import set_clock
from cluster.models import MachineRole
from demo.jobs import machines_of
from demo.scenarios import TRAINING
from demo.training import let_execute
from demo.world import market_of
from tests.auctions.worlds import make_user


@pytest.mark.django_db
def test_some_jobs_get_another_number_of_workers_in_the_next_slot() -> None:
    (scenario,) = (one for one in TRAINING if one.policy == "oasis")
    market = market_of(scenario, seed=1)
    cluster, owner = market.cluster, make_user()
    let_execute(cluster, root=Path())
    set_clock(cluster, running=False)
    for offer in islice(scenario.offers(machines_of(cluster), seed=1, number=1, from_s=0.0), 30):
        set_clock(cluster, at_s=offer.at_s)
        pass_slots(market.pk)
        submit_bid(cluster=cluster, owner=owner, body=offer.body)
        decision_queue.process_pending(market.pk)
    workers: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for held in Commitment.objects.filter(bid__market=market, machine_type__role=MachineRole.WORKER):
        for slot in range(held.start, held.end):
            workers[held.bid_id][slot] += held.count
    rescaled = [
        bid
        for bid, of in workers.items()
        if any(of[before] != of[after] for before, after in pairwise(sorted(of)) if after == before + 1)
    ]
    assert len(rescaled) >= 10
