"""A check that what ran when and where is what a bid held."""

from collections import Counter
from collections.abc import Iterable

import numpy as np

from auctions.models import Bid, Commitment
from auctions.readings import queues
from execution.engines import shim
from execution.models import Ending, Execution, Process
from execution.steps import Machines
from execution.wanted import Held

START: float = 0.6
"""Longest time until the processes run on machines that a bid has just got, slots."""
LATE: float = 0.1
"""Longest time for which a process may be there after its machines are given back, slots."""
INSTANTS: int = 20
"""Instants of each slot at which what runs is compared with what is held."""

Places = Counter[tuple[str, int, int]]
"""Numbers of machines by role, server and machine type."""


def assert_ran_as_held(bid: Bid) -> None:
    """Compare the processes of a bid with its commitments, or with its chunks at the heads of queues, in each slot.

    At every instant no other machine has a process than those that are held, or were held `LATE` before, and none has
    two. While a job runs every machine has its process, but in these times: `START` after its machines changed; the
    grace, with two looks of a shim, before they change; after its program ended; between a failure and the start of the
    next generation.
    """
    execution = Execution.objects.get(cluster=bid.market.cluster)
    stop = (execution.grace_s + 2 * shim.POLL_S) / bid.market.cluster.slot_seconds
    held = held_by(bid)
    ran = list(Process.objects.filter(generation__training__bid=bid).select_related("generation"))
    edges = {edge for one in held for edge in (one.start, one.end) if _at(held, edge) != _at(held, edge - 1e-6)}
    pauses = list(_pauses(bid))
    compared = 0
    for slot in range(int(min(edges)), int(max(edges)) + 2):
        for at in slot + (np.arange(INSTANTS) + 0.5) / INSTANTS:
            now, may = _at(held, at), _at(held, at) | _at(held, at - LATE)
            there = Counter(_place(one) for one in ran if _start(one) <= at < _end(one))
            assert there <= may, f"{bid} at {at:.2f}: expected at most {may}, got {there}"
            if any(begin <= at < end for begin, end in pauses):
                continue
            if not any(edge - stop < at < edge + START for edge in edges):
                assert there == now, f"{bid} at {at:.2f}: expected {now}, got {there}"
                compared += now.total()
    assert compared > 0, f"{bid}: it never ran for long enough"


def assert_nothing_ran_elsewhere(bid: Bid, *, late: float) -> None:
    """Compare what ran with what was held, at every instant: nothing else ran, or only for `late` slots more."""
    held = held_by(bid)
    ran = [one for one in Process.objects.filter(generation__training__bid=bid) if one.started_slot is not None]
    for at in np.arange(min(map(_start, ran), default=0.0), max(map(_end, ran), default=0.0), 1 / INSTANTS):
        there = Counter(_place(one) for one in ran if _start(one) <= at < _end(one))
        may: Places = Counter()
        for earlier in np.arange(at - late, at, 1 / INSTANTS):
            may |= _at(held, earlier)
        may |= _at(held, at)
        assert there <= may, f"{bid} at {at:.2f}: expected at most {may}, got {there}"


def held_by(bid: Bid) -> list[Held]:
    """All machines that a bid held, in the past as in the future."""
    rows = Commitment.objects.filter(bid=bid, end__gt=0).select_related("machine_type")
    found = [
        Held(bid.pk, Machines(row.machine_type.role, row.server_id, row.machine_type_id, row.count), row.start, row.end)
        for row in rows
        if row.end > row.start
    ]
    heads = queues.stretches(bid.market, start=0, end=bid.market.now + bid.market.cluster.horizon_slots)
    found += [
        Held(bid.pk, Machines("worker", head.server_id, head.machine_type_id, head.count), head.start, head.end)
        for head in heads
        if head.sequence == bid.sequence
    ]
    found += [
        Held(bid.pk, Machines("ps", ps.server_id, ps.machine_type_id, 1), ps.start, ps.end)
        for ps in queues.ps_assignments(bid.market, start=0, end=bid.market.now + 1)
        if ps.sequence == bid.sequence
    ]
    return found


def _at(held: Iterable[Held], at: float) -> Places:
    places: Places = Counter()
    for one in held:
        if one.start <= at < one.end:
            role, server, kind, number = one.machines
            places[role, server, kind] += number
    return places


def _pauses(bid: Bid) -> Iterable[tuple[float, float]]:
    """Times in which a job need not run: after a failure until it runs again, and after its program ended, slots."""
    for generation in bid.training.generations.all():
        if generation.ending in (Ending.FAULT, Ending.LOST, Ending.FINISHED):
            of_next = Process.objects.filter(
                generation__training=bid.training, generation__number=generation.number + 1
            )
            first = min(_end(one) for one in generation.processes.all())
            yield first, max((_start(one) for one in of_next), default=float("inf"))


def _place(one: Process) -> tuple[str, int, int]:
    return one.role, one.server_id, one.machine_type_id


def _start(one: Process) -> float:
    return float("inf") if one.started_slot is None else one.started_slot


def _end(one: Process) -> float:
    return float("inf") if one.ended_slot is None else one.ended_slot
