"""The greedy of Jain et al. for jobs with values and deadlines, a comparison for A_maxweight."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from scheduling.book.ledger import Ledger, empty_like
from scheduling.model.bid import Bid
from scheduling.model.inventory import Inventory
from scheduling.model.schedule import Placement, Schedule
from scheduling.model.types import Ints
from scheduling.policies.baselines.gang import Gang, ideal_gang, machines_in, room_for
from scheduling.policies.baselines.shares import dominant_share


def pack_right_to_left(
    bids: Sequence[Bid], ledger: Ledger, windows: Iterable[tuple[int, int]], *, freed: Sequence[Placement] = ()
) -> dict[str, Schedule]:
    """Place jobs one by one, greatest value per demand first, each as late as its deadline allows.

    In window after window `[first, end)`, in which `end` is the deadline of all, with the jobs that the windows before
    left over:

    1. Jobs are taken in order of weight over demand, the greatest first, equals as given. A job's demand is what it
       asks of the cluster's capacity: worker-slots on one server x the dominant share of a worker, exact.
    2. A job runs as a gang of its ideal types (`gang.ideal_gang`) with the same machines from start to end. It begins
       in the latest slot from which it is complete by the deadline and in which it has a place: on one server, else
       spread (`gang.machines_in`). Servers count from the slot on in which its upload is over.
    3. It has N workers, all it can use (`most_workers`); N is halved (rounded down) while there is no such slot. A job
       that has none with one worker is left over.

    Parameters
    ----------
    ledger
        Reservations of other jobs. It is not changed.
    freed
        Placements in the ledger that count as free.

    Returns
    -------
    dict
        Schedules of the placed bids, by bid id.

    Notes
    -----
    The original gives a job any number of servers up to its bound in each slot, from the deadline backwards, and moves
    what it placed earlier where that makes room. Here gangs are fixed and nothing is moved, as a job of A_maxweight
    keeps its machines.

    References
    ----------
    Jain, Menache, Naor, Yaniv, Near-optimal scheduling mechanisms for deadline-sensitive jobs in large computing
    clusters, SPAA 2012 (greedy, right to left). Weighted completion, Section 7.2, Fig. 8.
    """
    ledger = ledger.without(freed)
    placed: dict[str, Schedule] = {}
    gangs = in_order_of_value(bids, ledger.inventory)
    for first, end in windows:
        for gang in gangs:
            if gang.bid.id in placed:
                continue
            schedule = latest(gang, ledger, first=max(first, ledger.start), end=min(end, ledger.end))
            if schedule is not None:
                ledger.commit(schedule)
                placed[gang.bid.id] = schedule
        if len(placed) == len(gangs):
            break
    return placed


def fits_alone(bid: Bid, ledger: Ledger) -> bool:
    """Whether the greedy would find a place for a job on the empty cluster, within the horizon."""
    empty = empty_like(ledger)
    return any(
        latest(gang, empty, first=empty.start, end=empty.end) for gang in in_order_of_value([bid], ledger.inventory)
    )


def in_order_of_value(bids: Iterable[Bid], inventory: Inventory) -> list[Gang]:
    """Return the gangs of jobs in order of weight over demand, without jobs that no server can host."""
    gangs = [gang for gang in (most_workers(bid, inventory) for bid in bids) if gang is not None]
    capacity = inventory.capacity.sum(axis=0)

    def merit(gang: Gang) -> Fraction:
        share = dominant_share(inventory.worker_demand[gang.worker], capacity)
        demand = gang.bid.work * gang.pace(spread=False) * share
        return Fraction(gang.bid.utility.value) / max(demand, share)

    return sorted(gangs, key=merit, reverse=True)


def most_workers(bid: Bid, inventory: Inventory) -> Gang | None:
    """Return a gang of min(D, workers of the ideal type that fit on all servers) workers; None if that is 0."""
    gang = ideal_gang(bid, inventory, 1)
    if gang is None:
        return None
    room = int(room_for(inventory.capacity, inventory.worker_demand[gang.worker]).sum())
    return replace(gang, count=min(bid.chunks, room))


def latest(gang: Gang, ledger: Ledger, *, first: int, end: int) -> Schedule | None:
    """Return the latest schedule in slots `[first, end)`, with all its workers, or half as many, and so on."""
    while gang.count:
        found = next(_from_the_right(gang, ledger, first, end), None)
        if found is not None:
            return found
        gang = replace(gang, count=gang.count // 2)
    return None


def _from_the_right(gang: Gang, ledger: Ledger, first: int, end: int) -> Iterator[Schedule]:
    """Yield a schedule for every start at which the gang fits, latest first; on one server before spread."""
    work = Fraction(gang.bid.work)
    lengths = {spread: gang.duration(work, spread=spread) for spread in (False, True)}
    usable_from = gang.bid.arrival + np.array(gang.bid.delay, dtype=np.int64)
    for start in range(end - lengths[False], first - 1, -1):
        for spread, slots in lengths.items():
            if start + slots > end:
                continue
            free = _free(ledger, start, start + slots)
            free[usable_from > start] = -1
            machines = machines_in(free, gang, ledger.inventory, spread=spread)
            if machines is not None:
                held = tuple(sorted(Placement(start, start + slots, *machine) for machine in machines))
                yield Schedule(start=start, completion=start + slots, placements=held)


def _free(ledger: Ledger, start: int, end: int) -> Ints:
    """Return the units that are free in all of these slots, S x R; a copy."""
    free: Ints = ledger.inventory.capacity - ledger.used[start - ledger.start : end - ledger.start].max(axis=0)
    return free
