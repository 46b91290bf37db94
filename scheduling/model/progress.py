"""Exact progress of a job under any schedule: mini-batches per slot (`Stretch.rate`) and those done by a slot."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

from scheduling.model.bid import Bid
from scheduling.model.iteration_time import iteration_time
from scheduling.model.schedule import Placement, Role

Machines = tuple[tuple[Role, int, int, int], ...]
"""Role, server, type and count of all machines that a job holds at one time, sorted."""


@dataclass(frozen=True)
class Stretch:
    """An interval [start, end) in which a job holds the same machines."""

    start: int
    end: int
    workers: int
    lost: int
    """Slots at the beginning in which no work is done."""
    step: Fraction | None
    """Slots in which every worker does one mini-batch; None if the job cannot work."""

    @cached_property
    def rate(self) -> Fraction:
        """Mini-batches per slot, exact; `step` must be above 0."""
        return Fraction(self.workers) / (self.step or 1)


def stretches(bid: Bid, placements: Iterable[Placement], *, pause: int = 0) -> tuple[Stretch, ...]:
    """Return the stretches in which a job works, in order; parameters as in `work_done`."""
    rows = (
        (start, end, machines, sum(p.count for p in machines if p.role is Role.WORKER))
        for start, end, machines in constellations(placements)
    )
    return tuple(
        Stretch(start, end, workers, pause if number else 0, iteration_time(bid, machines))
        for number, (start, end, machines, workers) in enumerate(rows)
    )


def work_done(bid: Bid, placements: Iterable[Placement], *, until: int, pause: int = 0) -> Fraction:
    """Compute the exact number of mini-batches done before slot `until`; at most `bid.work`.

    Parameters
    ----------
    placements
        All placements of the job, in any order.
    until
        Slots before this one count.
    pause
        Slots without work at the beginning of every set of machines but the first: the cost to stop, move and resume.

    Examples
    --------
    >>> from scheduling.model.example import job
    >>> from scheduling.model.schedule import Placement, Role
    >>> held = [Placement(0, 2, Role.WORKER, 0, 0, 2), Placement(0, 2, Role.PS, 1, 0, 1)]
    >>> work_done(job(), held, until=1), work_done(job(), held, until=9)
    (Fraction(2, 1), Fraction(4, 1))
    """
    return done_in(bid, stretches(bid, placements, pause=pause), until=until)


def rest_of(bid: Bid, placements: Iterable[Placement], *, now: int) -> Bid:
    """Return the bid with the work that is left at slot `now`.

    The number of mini-batches stays the same and each of them is shorter, which is exact.

    Examples
    --------
    >>> from scheduling.model.example import job
    >>> from scheduling.model.schedule import Placement, Role
    >>> held = [Placement(0, 2, Role.WORKER, 0, 0, 1), Placement(0, 2, Role.PS, 1, 0, 1)]
    >>> rest_of(job(), held, now=2).worker_time
    (Fraction(1, 4),)
    """
    left = 1 - work_done(bid, placements, until=now) / bid.work
    return replace(
        bid,
        worker_time=tuple(left * time for time in bid.worker_time),
        ps_time=tuple(left * time for time in bid.ps_time),
        transfer_time=tuple(left * time for time in bid.transfer_time),
        reduce_time=left * bid.reduce_time,
    )


def done_in(bid: Bid, times: Iterable[Stretch], *, until: int) -> Fraction:
    """Compute the exact number of mini-batches done in these stretches before slot `until`; at most `bid.work`."""
    # Sums of fractions take most of the time of a baseline's event, so this one is reduced once.
    done, parts = 0, 1
    for one in times:
        useful = min(one.end, until) - one.start - one.lost
        if useful <= 0 or one.step is None:
            continue
        if one.step == 0:
            return Fraction(bid.work)
        rate, of = one.rate.numerator, one.rate.denominator
        if parts % of:
            done, parts = done * of, parts * of
        done += useful * rate * (parts // of)
    return Fraction(bid.work) if done >= bid.work * parts else Fraction(done, parts)


def constellations(placements: Iterable[Placement]) -> Iterator[tuple[int, int, tuple[Placement, ...]]]:
    """Yield the intervals [start, end) in which a job holds the same machines, in order, with these machines."""
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
