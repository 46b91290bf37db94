"""How far machines bring a job: exact progress of any schedule, rigid, ring or elastic."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

from scheduling.model.bid import Architecture, Bid
from scheduling.model.schedule import Placement, Role

Machines = tuple[tuple[Role, int, int, int], ...]
"""Role, server, type and count of all that a job holds at one time, sorted."""


def iteration_time(bid: Bid, machines: Iterable[Placement]) -> Fraction | None:
    """Slots in which every worker does one mini-batch, exact.

    Parameters
    ----------
    machines
        All that the job holds at one time.

    Returns
    -------
    Fraction or None
        None if it cannot work: there is no worker, or no parameter server for a job that needs one. The slowest
        machine sets the pace (DPS, eq. 1; weighted completion, eq. 1 and 14).
    """
    held = tuple(machines)
    workers = [p for p in held if p.role is Role.WORKER]
    if not workers:
        return None
    spread = len({p.server for p in held}) > 1
    step = max(bid.worker_time[p.type] for p in workers)
    transfer = max(bid.transfer_time[p.type] for p in workers) if spread else Fraction(0)
    if bid.architecture is Architecture.RING:
        count = sum(p.count for p in workers)
        return step + (bid.reduce_time + transfer) * Fraction(count - 1, count)
    pss = [p for p in held if p.role is Role.PS]
    if not pss:
        return None
    return step + max(bid.ps_time[p.type] for p in pss) + transfer


@dataclass(frozen=True)
class Stretch:
    """A time in which a job holds the same machines."""

    start: int
    end: int
    workers: int
    lost: int
    """Slots at its beginning in which nothing is done."""
    step: Fraction | None
    """Slots in which every worker does one mini-batch; None if it cannot work."""

    @cached_property
    def rate(self) -> Fraction:
        """Mini-batches in a slot, exact; there has to be a step above 0."""
        return Fraction(self.workers) / (self.step or 1)


def stretches(bid: Bid, placements: Iterable[Placement], *, pause: int = 0) -> tuple[Stretch, ...]:
    """How a job works on all it holds, in order; parameters as of `work_done`."""
    rows = (
        (start, end, machines, sum(p.count for p in machines if p.role is Role.WORKER))
        for start, end, machines in constellations(placements)
    )
    return tuple(
        Stretch(start, end, workers, pause if number else 0, iteration_time(bid, machines))
        for number, (start, end, machines, workers) in enumerate(rows)
    )


def work_done(bid: Bid, placements: Iterable[Placement], *, until: int, pause: int = 0) -> Fraction:
    """Mini-batches done in slots before `until`, exact; at most `bid.work`.

    Parameters
    ----------
    placements
        Everything the job holds, in any order.
    until
        Slots before this one count.
    pause
        Slots at the beginning of every constellation of machines but the first in which nothing is done: what it
        costs to stop, move and resume.
    """
    return done_in(bid, stretches(bid, placements, pause=pause), until=until)


def rest_of(bid: Bid, placements: Iterable[Placement], *, now: int) -> Bid:
    """The bid with what is left to do at slot `now`: as many mini-batches, each as much shorter, which is exact."""
    left = 1 - work_done(bid, placements, until=now) / bid.work
    return replace(
        bid,
        worker_time=tuple(left * time for time in bid.worker_time),
        ps_time=tuple(left * time for time in bid.ps_time),
        transfer_time=tuple(left * time for time in bid.transfer_time),
        reduce_time=left * bid.reduce_time,
    )


def done_in(bid: Bid, times: Iterable[Stretch], *, until: int) -> Fraction:
    """Mini-batches done in slots before `until`, exact; at most `bid.work`."""
    done = Fraction(0)
    for one in times:
        useful = min(one.end, until) - one.start - one.lost
        if useful <= 0 or one.step is None:
            continue
        if one.step == 0:
            return Fraction(bid.work)
        done += useful * one.rate
    return min(done, Fraction(bid.work))


def constellations(placements: Iterable[Placement]) -> Iterator[tuple[int, int, tuple[Placement, ...]]]:
    """Stretches [start, end) in which a job holds the same machines, in order, with these machines."""
    held = sorted(p for p in placements if p.end > p.start)
    cuts = sorted({slot for p in held for slot in (p.start, p.end)})
    last: tuple[int, int, tuple[Placement, ...]] | None = None
    for start, end in pairwise(cuts):
        now = tuple(p for p in held if p.start <= start and p.end >= end)
        if last is not None and last[1] == start and _same(last[2], now):
            last = (last[0], end, last[2])
            continue
        if last is not None and last[2]:
            yield last
        last = (start, end, now)
    if last is not None and last[2]:
        yield last


def _same(these: tuple[Placement, ...], those: tuple[Placement, ...]) -> bool:
    return _machines(these) == _machines(those)


def _machines(placements: tuple[Placement, ...]) -> Machines:
    total: dict[tuple[Role, int, int], int] = {}
    for p in placements:
        key = (p.role, p.server, p.type)
        total[key] = total.get(key, 0) + p.count
    return tuple(sorted((*key, count) for key, count in total.items()))
