"""Whether one helper can be done with its clients by some slot: exact, by branch and bound on forward due dates.

If it can, it can by static priorities: earliest due date first. Backward due dates are given (makespan less tail); a
forward pass's due date is what a search has to find. Where a pass is late, all passes of its busy block that are due
by then are too much work for the time since the block began; so some backward pass of the block has to be there
before, and its client's forward due date is brought forward.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from scheduling.model.types import Ints
from scheduling.split_learning.compiled import inner, kernel
from scheduling.split_learning.helper import FAR, PREEMPTIVE, copy, run, span
from scheduling.split_learning.instance import TIMES, Instance

YES, NO, UNKNOWN = 1, 0, -1
NODES = 5_000
"""Largest number of orders that a search visits."""
LOOKS = 50_000_000
"""Largest number of orders times the square of the number of clients, which takes some tenths of a second."""
FEW_NODES: Final[Any] = np.int64(50)
"""Few nodes, as a number of numpy: the search would be compiled again for a constant's type."""
TRIES = 4_000
"""Largest number of sets of clients, times the square of their size, that are tried to strengthen one cut."""


@dataclass(frozen=True)
class Order:
    """Forward due dates of clients of a helper by which earliest due date first is in time; slots."""

    forward: Ints


def in_time(instance: Instance, helper: int, clients: Ints, makespan: int, nodes: int = NODES) -> Order | bool | None:
    """An order in which these clients are over by `makespan`, False if there is none, None if nodes ran out.

    Of thousands of clients only a few orders are looked at.
    """
    nodes = min(nodes, max(1, LOOKS // len(clients) ** 2))
    release, forward, gap, backward, tail = np.ascontiguousarray(_rows(instance, helper)[:, clients])
    due = np.empty(len(clients), dtype=np.int64)
    answer = _search(release, forward, gap, backward, makespan - tail, due, nodes)
    if answer == YES:
        return Order(due)
    return False if answer == NO else None


def soonest(instance: Instance, helper: int, clients: Ints) -> int:
    """A slot before which a helper cannot be done with these clients: 0 for none.

    Exact where backward passes need not wait for forward ones but only for the slots these take at least: one machine
    with release dates and tails, preemptively, the largest tail first (Jackson's rule). O(n log n).
    """
    release, forward, gap, backward, tail = _rows(instance, helper)[:, clients]
    heads = np.concatenate([release, release + forward + gap])
    tails = np.concatenate([gap + backward + tail, tail])
    work, nothing = np.concatenate([forward, backward]), np.zeros(2 * len(clients), dtype=np.int64)
    return int(span(np.arange(2 * len(clients)), 2 * len(clients), heads, work, nothing, nothing, tails))


def too_much(instance: Instance, helper: int, clients: Ints, makespan: int) -> bool:
    """Whether it is certain that a helper cannot be done with these clients by `makespan`."""
    return bool(_answer(_rows(instance, helper), makespan, clients, FEW_NODES) == NO)


def cover(instance: Instance, helper: int, few: Ints, candidates: Ints, makespan: int) -> Ints:
    """Return clients of which a helper can process at most len(few) - 1 by `makespan`: `few` and others.

    A candidate joins if it is too much beside any len(few) - 1 of those who are there, as far as tries allow.
    """
    own = candidates[~np.isin(candidates, few)]
    out = np.empty(len(few) + len(own), dtype=np.int64)
    count = _cover(_rows(instance, helper), makespan, few, own, out, TRIES // len(few) ** 2)
    return out[:count]


def _rows(instance: Instance, helper: int) -> Ints:
    """Release, forward, gap, backward, tail of all clients on a helper, 5 x J slots."""
    return np.stack([getattr(instance, name)[helper] for name in TIMES])


@kernel
def can_be(i: int, clients: Ints, times: tuple[Ints, Ints, Ints, Ints, Ints], makespan: int, nodes: int) -> int:
    """Return YES if helper i can process these clients by `makespan`, NO if not, UNKNOWN after the limit of nodes."""
    own = np.empty((5, len(clients)), np.int64)
    for x in range(len(clients)):
        j = clients[x]
        own[0, x], own[1, x], own[2, x] = times[0][i, j], times[1][i, j], times[2][i, j]
        own[3, x], own[4, x] = times[3][i, j], times[4][i, j]
    due = np.empty(len(clients), np.int64)
    return _search(own[0], own[1], own[2], own[3], makespan - own[4], due, nodes)


@kernel
def _answer(rows: Ints, makespan: int, clients: Ints, nodes: int) -> int:
    """Whether these clients can be done by `makespan`."""
    times = np.empty((5, len(clients)), np.int64)
    for x in range(len(clients)):
        for row in range(5):
            times[row, x] = rows[row, clients[x]]
    due = np.empty(len(clients), np.int64)
    return _search(times[0], times[1], times[2], times[3], makespan - times[4], due, nodes)


@kernel
def _cover(rows: Ints, makespan: int, few: Ints, candidates: Ints, out: Ints, tries: int) -> int:
    size = len(few)
    copy(few, out)
    count = size
    pick = np.empty(size, np.int64)
    trial = np.empty(size, np.int64)
    for k in candidates:
        # All choices of size - 1 among those who are there, in order.
        for x in range(size - 1):
            pick[x] = x
        fits = False
        while not fits:
            tries -= 1
            if tries < 0:
                return count
            for x in range(size - 1):
                trial[x] = out[pick[x]]
            trial[size - 1] = k
            fits = _answer(rows, makespan, trial, FEW_NODES) != NO
            x = size - 2
            while x >= 0 and pick[x] == count - (size - 1) + x:
                x -= 1
            if x < 0:
                break
            pick[x] += 1
            for y in range(x + 1, size - 1):
                pick[y] = pick[y - 1] + 1
        if not fits:
            out[count] = k
            count += 1
    return count


@kernel
def _search(release: Ints, forward: Ints, gap: Ints, backward: Ints, due_back: Ints, due: Ints, nodes: int) -> int:
    """Depth first; fills the forward due dates."""
    n = len(release)
    opened = np.empty((nodes + min(n, nodes) + 1, n), np.int64)
    missing = False
    seen = np.empty((nodes, n), np.int64)
    marks = np.empty(nodes, np.int64)
    copy(due_back - backward - gap, opened[0])
    top, met = int(_hopeful(opened[0], release, forward)), 0
    ended = np.empty((2, n), np.int64)
    unwritten = np.empty((0, 4), np.int64)
    while top:
        top -= 1
        copy(opened[top], due)
        mark = _mark(due)
        if _met(due, mark, seen, marks, met):
            continue
        if met == nodes:
            return UNKNOWN
        copy(due, seen[met])
        marks[met] = mark
        met += 1
        run(release, forward, gap, backward, -due, -due_back, ended[0], ended[1], unwritten, PREEMPTIVE)
        late = _first_late(due, due_back, ended)
        if late < 0:
            return YES
        top, more = _branch(late, release, forward, gap, due, due_back, ended, opened, top, nodes - met)
        missing |= more
    return UNKNOWN if missing else NO


@inner
def _hopeful(due: Ints, release: Ints, forward: Ints) -> bool:
    return not (release + forward > due).any()


@inner
def _mark(due: Ints) -> int:
    mark = 1469598103934665603
    for j in range(len(due)):
        mark = (mark ^ int(due[j])) * 1099511628211
    return mark


@inner
def _met(due: Ints, mark: int, seen: Ints, marks: Ints, count: int) -> bool:
    """Whether these due dates were looked at before; marks only save comparisons."""
    for x in range(count):
        if marks[x] == mark:
            same = True
            for j in range(len(due)):
                if seen[x, j] != due[j]:
                    same = False
                    break
            if same:
                return True
    return False


@inner
def _first_late(due: Ints, due_back: Ints, ended: Ints) -> int:
    """The pass that is late first, backward ones counted from n on; -1 for none."""
    n = len(due)
    late, when = -1, FAR
    for k in range(2 * n):
        kind, j = k // n, k % n
        by = due_back[j] if kind else due[j]
        if ended[kind, j] > by and ended[kind, j] < when:
            late, when = k, int(ended[kind, j])
    return late


@inner
def _branch(
    late: int,
    release: Ints,
    forward: Ints,
    gap: Ints,
    due: Ints,
    due_back: Ints,
    ended: Ints,
    opened: Ints,
    top: int,
    most: int,
) -> tuple[int, bool]:
    """Open a node for each backward pass of the late one's block; the one that is there last is looked at first.

    Returns how many are open, and whether some are not, as there would be more than `most` or no room.
    """
    n = len(release)
    by = due[late] if late < n else due_back[late - n]
    end = ended[0, late] if late < n else ended[1, late - n]
    begun = end
    moved = True
    # The block reaches back while one of its passes ends after it begins and was there before.
    while moved:
        moved = False
        for k in range(2 * n):
            j = k % n
            there = release[j] if k < n else ended[0, j] + gap[j]
            ends = ended[k // n, j]
            if (due[j] if k < n else due_back[j]) > by or ends > end:
                continue
            reaches = ends > begun or (begun == end and ends == end)
            if there < begun and reaches:
                begun = there
                moved = True
    # A forward pass that comes forward has to be possible; one that does not is the node that was looked at.
    when = np.empty(n, np.int64)
    chosen = np.empty(n, np.int64)
    count = 0
    for j in range(n):
        there = ended[0, j] + gap[j]
        in_block = due_back[j] <= by and ended[1, j] <= end and there >= begun
        if in_block and release[j] + forward[j] <= begun - 1 - gap[j] < due[j]:
            chosen[count], when[count] = j, ended[0, j]
            count += 1
    kept = min(count, most)
    if top + kept > len(opened):
        return top, True
    for x in np.argsort(when[:count], kind="mergesort")[count - kept :]:
        copy(due, opened[top])
        opened[top, chosen[x]] = begun - 1 - gap[chosen[x]]
        top += 1
    return top, kept < count
