"""A policy and its slow twin side by side, among random jobs, in a book that others use, too."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scheduling.book.ledger import Ledger
from scheduling.book.running import RunningBook
from scheduling.book.state import Job
from scheduling.model.bid import Architecture, Bid
from scheduling.model.decision import canonical
from scheduling.model.errors import OverCapacity
from scheduling.model.inventory import Inventory
from scheduling.model.schedule import Placement, Role, Schedule
from scheduling.policies.base import Policy
from scheduling.policies.simulation import Simulation
from tests.scheduling.worlds import SLOTS, world


def check_alike(quick: Policy, slow: Policy, seed: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = world(seed, bids=14, servers=int(rng.integers(1, 4)), architectures=frozenset(Architecture))
    arrivals = np.sort(rng.integers(0, 9, len(drawn.bids))).tolist()
    prompt = rng.random() < 0.5
    bids = [
        replace(bid, arrival=slot, delay=tuple(0 if prompt else d for d in bid.delay))
        for bid, slot in zip(drawn.bids, arrivals, strict=True)
    ]
    others = _reserve(drawn.inventory, rng) if rng.random() < 0.5 else []
    cancelled = int(rng.integers(0, 20))
    here, there = (_run(policy, bids, drawn.inventory, others, cancelled) for policy in (quick, slow))
    assert [canonical(d.to_json()) for d in here.decisions] == [canonical(d.to_json()) for d in there.decisions]
    assert here.moves == there.moves
    assert here.done == there.done


def _reserve(inventory: Inventory, rng: np.random.Generator) -> list[Placement]:
    """What jobs that are bound hold now, or from a later slot on."""
    starts = rng.integers(0, SLOTS - 1, 4).tolist()
    servers = rng.integers(0, len(inventory.servers), 4).tolist()
    return [Placement(start, SLOTS, Role.WORKER, server, 0, 1) for start, server in zip(starts, servers, strict=True)]


def _run(
    policy: Policy, bids: Sequence[Bid], inventory: Inventory, others: Sequence[Placement], cancelled: int
) -> Simulation:
    """Bids arrive, slots pass, and in one of them the first job in the book is cancelled."""
    ledger, promised = Ledger(inventory, start=0, slots=SLOTS), {}
    for i, one in enumerate(others):
        try:
            ledger.commit(Schedule(one.start, one.end, (one,)))
        except OverCapacity:
            continue
        promised[f"other-{i}"] = Job(replace(bids[0], id=f"other-{i}"), (one,), one.end, bound=True)
    going = Simulation(policy, RunningBook(ledger, jobs=promised))
    waiting = list(bids)
    for slot in range(120):
        going.advance(slot)
        while waiting and waiting[0].arrival == slot:
            going.arrive(waiting.pop(0))
        left = [name for name, job in going.book.jobs.items() if not job.bound]
        if slot == cancelled and left:
            going.cancel(left[0])
    return going
