"""Forecast completions if jobs began in order on one server with the total capacity; RRH uses it."""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from operator import add, eq, is_, le, sub
from typing import NamedTuple

from scheduling.model.bid import Bid
from scheduling.policies.baselines.priority import Ranked


class Forecast(NamedTuple):
    """Forecast completions, and the state when each job began. It is immutable."""

    of: object
    """The policy and the slot of the forecast."""
    bids: list[Bid]
    """Bids in order."""
    slots: list[int]
    """Remaining slots of each."""
    completions: list[int]
    begins: list[int]
    """Slot in which there was room for each; from then on it waits for its upload."""
    gone: list[int]
    """Number of jobs that had ended by then."""
    ended: list[int]
    """Places of the jobs that ended, in that order."""


def forecast(
    of: tuple[object, int],
    prospects: Sequence[Ranked],
    total: list[int],
    kept: Sequence[Forecast],
) -> Forecast:
    """Forecast completions: each job begins when its gang has room and it is uploaded, never before the job ahead.

    Parameters
    ----------
    of
        The policy and the slot of the forecast.
    prospects
        In order.
    total
        Units of each resource there are, R numbers.
    kept
        Earlier forecasts. A common prefix of jobs with one of the same policy and slot is reused.

    Notes
    -----
    O(n log n); a reused job costs one comparison.
    """
    bids, slots = [one.job.bid for one in prospects], [one.slots for one in prospects]
    known, common = _nearest([one for one in kept if one.of == of], bids, slots)
    if known is not None and common == len(bids) == len(known.bids):
        return known
    now, free = of[1], [*total]
    completions: list[int] = []
    begins: list[int] = []
    gone: list[int] = []
    ended: list[int] = []
    ends: list[tuple[int, int, Sequence[int]]] = []
    if known is not None and common:
        now, ended = known.begins[common - 1], known.ended[: known.gone[common - 1]]
        completions, begins, gone = known.completions[:common], known.begins[:common], known.gone[:common]
        over = set(ended)
        ends = [(completions[n], n, prospects[n].demand) for n in range(common) if n not in over]
        heapify(ends)
        columns = zip(*(units for _, _, units in ends), strict=True)
        free = [have - sum(column) for have, column in zip(total, columns, strict=True)]
    for number in range(common, len(bids)):
        units = prospects[number].demand
        while not all(map(le, units, free)):
            now, other, back = heappop(ends)
            ended.append(other)
            free = [*map(add, free, back)]
        end = max(now, prospects[number].upload) + slots[number]
        free = [*map(sub, free, units)]
        heappush(ends, (end, number, units))
        completions.append(end)
        begins.append(now)
        gone.append(len(ended))
    return Forecast(of, bids, slots, completions, begins, gone, ended)


def _nearest(kept: list[Forecast], bids: list[Bid], slots: list[int]) -> tuple[Forecast | None, int]:
    """Return the forecast with the longest common prefix of jobs, and the length of the prefix."""
    best: tuple[Forecast | None, int] = (None, 0)
    for one in kept:
        alike = zip(map(is_, one.bids, bids), map(eq, one.slots, slots), strict=True)
        common = next((n for n, both in enumerate(alike) if both != (True, True)), min(len(bids), len(one.bids)))
        if best[0] is None or common > best[1]:
            best = one, common
    return best
