"""The demo's market of OASiS: jobs of its stream change their number of workers while they run."""

from collections import defaultdict
from itertools import pairwise

import pytest

from auctions.models import Commitment
from cluster.models import MachineRole
from tests.demo.stream import decided_stream


@pytest.mark.django_db
def test_some_jobs_get_another_number_of_workers_in_the_next_slot() -> None:
    market, _ = decided_stream("oasis", bids=30)
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
