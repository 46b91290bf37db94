"""Compiled search for the elastic best response over all completions. Private: arrays only, modified in place.

Every completion has a lower bound of its cost, that of the convex relaxation. The most promising completion is solved
exactly, until no bound can beat the best schedule. The least cost never rises with later completion, so a bound of one
completion is valid for all earlier ones.
"""

from typing import NamedTuple

import numpy as np

from scheduling.best_response.base import LATEST, PAYOFF, RATIO
from scheduling.best_response.elastic.base import make_base
from scheduling.best_response.elastic.close import close
from scheduling.best_response.elastic.compiled import Counts, Flags, borrowing, copy, inlined, inner, kernel
from scheduling.best_response.elastic.curves import Curves, Job, relevant_slots
from scheduling.best_response.elastic.relaxed import FAR, relax, relaxed_costs
from scheduling.model.types import Ints

WORST = -np.inf


class Best(NamedTuple):
    """The best schedule so far; completion -1 while there is none."""

    score: float
    completion: int
    cost: int


@kernel
def search(
    curves: Curves, row: Counts, job: Job, follows: Flags, first: int, mode: int, above: float
) -> tuple[float, int, Counts]:
    """Return score, completion and workers by slot (T) of the best schedule that starts at `first` or later.

    Completion is -1 when none scores above the threshold. `curves` has a row for each slot (T) as of `make_curves`;
    `follows` is that of `relevant_slots`.
    """
    counts = np.zeros(len(row), np.int32)
    latest = mode == LATEST
    sought = PAYOFF if latest else mode
    # A later start leaves fewer schedules, so the starts with a payoff above the threshold are the first ones: the last
    # one of them is sought by bisection, and then its best schedule.
    low, high = first, len(row) - 1 if latest else first
    while True:
        start, any_will_do = (low + high + 1) // 2 if low < high else low, low < high
        # At one place: the search becomes part of this kernel.
        best = _search_relevant(curves, row, job, follows, start, sought, above, any_will_do, counts)
        if not any_will_do:
            break
        if best.completion >= 0:
            low = _first_start(counts, start)
        else:
            high = start - 1
    return float(low) if latest else best.score, best.completion, counts


@borrowing
def _first_start(counts: Counts, start: int) -> int:
    """Return the first slot from `start` on with a worker."""
    while counts[start] == 0:
        start += 1
    return start


@inlined
def _search_relevant(
    curves: Curves,
    row: Counts,
    job: Job,
    follows: Flags,
    first: int,
    mode: int,
    above: float,
    any_will_do: bool,
    counts: Counts,
) -> Best:
    """Run `_search` on the relevant slots only: in a long horizon, they are few."""
    kept = _with_room(curves, row, relevant_slots(job.values, follows, job.wanted, first, above))
    size, width = len(kept), curves.cost.shape[1]
    short = Curves(
        np.empty((size, width), np.int64),
        np.empty(size, np.int32),
        np.empty((size, width), np.int32),
        np.empty(size, np.int32),
    )
    values = np.zeros(size + 1)
    for i in range(size):
        r = row[kept[i]]
        short.most[i], short.size[i], values[i + 1] = curves.most[r], curves.size[r], job.values[kept[i] + 1]
        copy(curves.cost[r, : curves.most[r] + 1], short.cost[i])
        copy(curves.vertex[r, : curves.size[r]], short.vertex[i])
    few = np.zeros(size, np.int32)
    shorter = Job(job.wanted, job.pss, job.usable, values, job.scale, job.limit)
    best = _search(short, shorter, 0, mode, above, any_will_do, few)
    if best.completion < 0:
        return best
    counts[:] = 0
    for i in range(size):
        counts[kept[i]] = few[i]
    return Best(best.score, int(kept[best.completion - 1]) + 1, best.cost)


@inlined
def _with_room(curves: Curves, row: Counts, relevant: Flags) -> Counts:
    """Return the relevant slots with room for a worker, in order."""
    kept, size = np.empty(len(row), np.int32), 0
    for t in range(len(row)):
        if relevant[t] and row[t] >= 0 and curves.most[row[t]] > 0:
            kept[size] = t
            size += 1
    return kept[:size]


@inner
def _search(curves: Curves, job: Job, first: int, mode: int, above: float, any_will_do: bool, counts: Counts) -> Best:
    """Return the best schedule from `first` on, or the first one found above the threshold, with `counts` (T)."""
    slots = len(curves.most)
    # No completion is negative, so the threshold itself does not win a tie.
    best = Best(above if mode == PAYOFF else WORST, -1, 0)
    bounds, solved = relaxed_costs(curves, job.wanted, first), np.zeros(slots + 1, np.bool_)
    taken, trial = np.zeros(slots, np.int32), np.zeros(slots, np.int32)
    misses = 0
    while True:
        alive, top = _promising(job, mode, bounds, solved, best)
        if len(alive) == 0:
            return best
        end = _next_completion(alive, top, misses)
        rise, run = relax(curves, job.wanted, first, end, taken)
        solved[end] = True
        # The value is greatest at the first completion: solved up to that cost, this one bounds all earlier ones.
        most = _most(job, mode, best, alive[0] if misses > 0 else end)
        cost = close(curves, make_base(curves, job.wanted, first, end, taken, rise, run), most, trial)
        misses += cost > bounds[end]
        for e in range(first, end + 1):
            bounds[e] = max(bounds[e], min(cost, most + 1))
        if cost <= most:
            completion = _completion(trial, first, end)
            if _wins(job, mode, best, completion, cost):
                best = Best(_score(job, mode, completion, cost), completion, cost)
                copy(trial, counts)
                if any_will_do:
                    return best


@borrowing
def _completion(counts: Counts, first: int, end: int) -> int:
    while end > first and counts[end - 1] == 0:
        end -= 1
    return end


@borrowing
def _score(job: Job, mode: int, completion: int, cost: int) -> float:
    """Return the score that the search maximises; it never rises with cost."""
    value = job.values[completion]
    if mode == RATIO:
        return -(cost / job.scale) / value if value > 0.0 else WORST
    return float(value - cost / job.scale)


@borrowing
def _wins(job: Job, mode: int, best: Best, completion: int, cost: int) -> bool:
    if cost > job.limit:
        return False
    score = _score(job, mode, completion, cost)
    return score > best.score or (score == best.score and completion < best.completion)


@borrowing
def _most(job: Job, mode: int, best: Best, completion: int) -> int:
    """Return the greatest cost at which this completion would beat the best schedule."""
    low, high = -1, job.limit
    while low < high:
        middle = (low + high + 1) // 2
        if _wins(job, mode, best, completion, middle):
            low = middle
        else:
            high = middle - 1
    return low


@inner
def _promising(job: Job, mode: int, bounds: Ints, solved: Flags, best: Best) -> tuple[Ints, int]:
    """Return the completions that can still be optimal, in order, and the most promising one."""
    alive, size = np.empty(len(bounds), np.int64), 0
    top, highest = -1, WORST
    for e in range(len(bounds)):
        if not solved[e] and bounds[e] < FAR and _wins(job, mode, best, e, bounds[e]):
            alive[size] = e
            size += 1
            score = _score(job, mode, e, bounds[e])
            if score > highest:
                top, highest = e, score
    return alive[:size], top


@borrowing
def _next_completion(alive: Ints, top: int, misses: int) -> int:
    """Return the completion to solve next.

    This is the most promising one while exact costs equal their bounds. After the first miss it is the last one, and
    then the middle one and the most promising one take turns: many completions may be about as good.
    """
    if misses == 1:
        return int(alive[-1])
    return int(alive[len(alive) // 2]) if misses % 2 == 0 and misses > 0 else top
