"""Local search over a plan: other turns and other machines for its first jobs. Private: arrays only.

A draft is a list of turns, and for each job the option that it has to use, if any, and whether it takes the first or
the last servers with room. Jobs are placed one by one, each with its earliest completion under its draft. So jobs that
come later fill what is left, and what a job costs the next ones is counted.
"""

from typing import NamedTuple

import numpy as np

from scheduling.batch.capacity import FAR, CapacityTables, restore
from scheduling.batch.compiled import borrowing, inlined, kernel
from scheduling.batch.kernel import Batch, BatchPlan, Within, place
from scheduling.best_response.rigid.compiled import Flags
from scheduling.model.types import Floats, Ints

ANY = -1
"""A job that may use any of its options."""
OF_PLACING = 4
"""Slots of the tables that a job's place costs, in the count of the effort."""
LEAST_GAIN = 1e-9
"""Share of the total that a change must save."""


class Draft(NamedTuple):
    """Turns and machines of jobs, which the search changes in place."""

    turns: Ints
    """Jobs in the order in which they are placed, Q."""
    option: Ints
    """The option of each job, J; ANY."""
    group: Ints
    """The group of that option, J."""
    last: Flags
    """Whether each job takes the last servers, J."""


class Terms(NamedTuple):
    """Terms of the total that is minimised, and the effort that is left."""

    weights: Floats
    """Weight of each job, J."""
    soonest: Floats
    """A lower bound on the completion of each job, J."""
    window: Ints
    """First slot, latest completion, and the slot before which the tables differ from their base."""
    effort: Ints
    """Cells of the tables that may still be read or written, one number."""


@kernel
def improve(
    tables: CapacityTables, base: CapacityTables, batch: Batch, terms: Terms, starts: Ints, draft: Draft, out: BatchPlan
) -> float:
    """Find the best draft by local search from each row of `starts`, S x Q turns; place the jobs by it.

    `base` are tables of the same free capacity, in which nothing was held. Return the total of weight x completion.
    """
    least = np.inf
    kept = Draft(draft.turns.copy(), draft.option.copy(), draft.group.copy(), draft.last.copy())
    for row in range(len(starts)):
        for q in range(len(draft.turns)):
            draft.turns[q] = starts[row, q]
        draft.option[:] = ANY
        draft.last[:] = False
        total = _descend(tables, base, batch, terms, draft, out)
        if total < least * (1 - LEAST_GAIN):
            least = total
            _copy(draft, kept)
    _copy(kept, draft)
    return _total(tables, base, batch, terms, draft, np.inf, out)


@borrowing
def _copy(draft: Draft, into: Draft) -> None:
    """Copy a draft; assigning to slices would take a second longer to compile."""
    for q in range(len(draft.turns)):
        into.turns[q] = draft.turns[q]
    for j in range(len(draft.option)):
        into.option[j], into.group[j], into.last[j] = draft.option[j], draft.group[j], draft.last[j]


@inlined
def _descend(
    tables: CapacityTables, base: CapacityTables, batch: Batch, terms: Terms, draft: Draft, out: BatchPlan
) -> float:
    """Change the draft while that lowers the total, which is returned."""
    best = _total(tables, base, batch, terms, draft, np.inf, out)
    before = np.inf
    while best < before and terms.effort[0] > 0:
        before = best
        for q in range(len(draft.turns)):
            best = _other_machines(tables, base, batch, terms, draft, draft.turns[q], best, out)
            best = _other_turn(tables, base, batch, terms, draft, q, best, out)
    return best


@inlined
def _other_machines(
    tables: CapacityTables,
    base: CapacityTables,
    batch: Batch,
    terms: Terms,
    draft: Draft,
    j: int,
    best: float,
    out: BatchPlan,
) -> float:
    """Try every option of a job, on the first and on the last servers; keep the best and return its total."""
    first = batch.options.first
    for i in range(batch.begin[j] - 1, batch.end[j]):
        low, high = (first[i], first[i + 1]) if i >= batch.begin[j] else (ANY, ANY + 1)
        for f in range(low, high):
            for last in (False, True):
                option, group, side = draft.option[j], draft.group[j], draft.last[j]
                if (f == option and last == side) or terms.effort[0] <= 0:
                    continue
                draft.option[j], draft.group[j], draft.last[j] = f, i, last
                total = _total(tables, base, batch, terms, draft, best, out)
                if total < best * (1 - LEAST_GAIN):
                    best = total
                else:
                    draft.option[j], draft.group[j], draft.last[j] = option, group, side
    return best


@inlined
def _other_turn(
    tables: CapacityTables,
    base: CapacityTables,
    batch: Batch,
    terms: Terms,
    draft: Draft,
    q: int,
    best: float,
    out: BatchPlan,
) -> float:
    """Try every other place for the job of turn q, and every swap; keep the first that is better."""
    for p in range(len(draft.turns)):
        for swap in (False, True):
            if p == q or (swap and abs(p - q) == 1) or terms.effort[0] <= 0:
                continue
            _move(draft.turns, q, p, swap)
            total = _total(tables, base, batch, terms, draft, best, out)
            if total < best * (1 - LEAST_GAIN):
                return total
            _move(draft.turns, p, q, swap)
    return best


@borrowing
def _move(turns: Ints, q: int, p: int, swap: bool) -> None:
    """Move the job of turn q to turn p; `swap`: and the other way round."""
    j = turns[q]
    if swap:
        turns[q] = turns[p]
    else:
        step = 1 if p > q else -1
        for i in range(q, p, step):
            turns[i] = turns[i + step]
    turns[p] = j


@borrowing
def _total(
    tables: CapacityTables,
    base: CapacityTables,
    batch: Batch,
    terms: Terms,
    draft: Draft,
    limit: float,
    out: BatchPlan,
) -> float:
    """Place the jobs and return their weight x completion.

    It is infinite if it cannot be less than `limit`, or if a job has no place: all have one in the first draft.
    """
    window, weights, soonest = terms.window, terms.weights, terms.soonest
    restore(tables, base, window[2])
    window[2] = 0
    total = 0.0
    for q in range(len(draft.turns)):
        total += weights[draft.turns[q]] * soonest[draft.turns[q]]
    for q in range(len(draft.turns)):
        j = draft.turns[q]
        low, high = batch.begin[j], batch.end[j]
        if draft.option[j] != ANY:
            low, high = draft.group[j], draft.group[j] + 1
        batch.complete[low:high] = 0
        out.worker[j] = -1
        place(tables, batch, j, Within(low, high, draft.option[j], draft.last[j], window[0], FAR, window[1]), out)
        out.turn[j] = q
        if out.worker[j] < 0:
            total = np.inf
            break
        window[2] = max(window[2], out.end[j])
        total += weights[j] * (out.end[j] - soonest[j])
        if total >= limit:
            total = np.inf
            break
    machines, _, counts = tables.sums.shape
    # The cells of all tables, though only the changed ones are restored: so the limit does not depend on how.
    cells = tables.free.shape[1] * (tables.free.shape[2] + 2 * machines) + 2 * machines * counts
    terms.effort[0] -= (OF_PLACING * len(draft.turns) + window[2]) * cells
    return total
