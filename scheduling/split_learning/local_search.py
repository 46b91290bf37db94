"""Local search over assignments: moves, swaps, and two clients for one, for helpers that end too late."""

from typing import Any, Final

import numpy as np

from scheduling.model.types import Ints
from scheduling.split_learning.compiled import inner, kernel
from scheduling.split_learning.helper import span
from scheduling.split_learning.one_helper import YES, can_be
from scheduling.split_learning.state import State, put, span_of, take

POWER = 1.5
"""Exponent of a helper's slots over the target: many small violations are better than a large one."""
HARDLY = -1e-9
"""Largest change of the violation that counts as an improvement."""
CLOSE = 4
"""Divisor of the target: other orders are tried for a helper that ends at most target / CLOSE after the target."""
GLANCE: Final[Any] = np.int64(12)
"""Number of other orders that are tried for such a helper."""
Pair = tuple[int, int]
"""Clients, ABSENT for none."""
ABSENT: Final[Any] = np.int64(-1)
"""A number of numpy: with a plain -1, numba would compile every function for one more type."""
NONE: Final[Pair] = (ABSENT, ABSENT)
KNOWN = 7
"""Length of a helper's summary: its work, three clients of least release, three clients of least tail."""
BEST = 6
"""A change of two helpers: clients that leave the first (-1 for none), those that come back, and the spans after it."""


def search(state: State, target: int, work: int, turn: int = 0, *, two: bool = False) -> int:
    """Change the assignment until no helper ends after `target`, or no move and no swap helps; returns work left.

    Pairs of helpers without an improving change are remembered while neither helper nor the target changes.
    `work`: largest number of helper schedules to try. `turn`: a number that selects where to begin.
    `two`: look at two clients for one, too, which takes twice as long: worth it where helpers have many.
    """
    if state.target[0] != target:
        state.target[0] = target
        state.seen[:] = -1
    return int(_search(state, target, work, turn, two))


def perturb(state: State, target: int, rng: np.random.Generator) -> None:
    """Move a client to another helper that has memory and a path that fits, often from one of those that end last."""
    late = np.flatnonzero(state.span >= state.span.max() - 1)
    i = int(rng.choice(late)) if rng.random() < 0.5 else int(rng.integers(len(state.span)))
    if not state.size[i]:
        return
    j = int(state.members[i, rng.integers(state.size[i])])
    path = np.sum([times[:, j] for times in state.times], axis=0)
    room = (state.load + state.demand[j] <= state.capacity) & (path <= target) & state.useful[:, j]
    room[i] = False
    where = np.flatnonzero(room)
    if not len(where):
        return
    other = int(rng.choice(where))
    take(state, j)
    put(state, j, other)
    for h in (i, other):
        state.version[h] = state.version.max() + 1
        state.span[h] = span_of(state, h)


def violation(state: State, target: int) -> float:
    """Return the violation that the local search minimises: the sum of (slots over the target) ** POWER over
    helpers."""
    return float((np.maximum(state.span - target, 0).astype(np.float64) ** POWER).sum())


@inner
def _violation(slots: int, target: int) -> float:
    return float(max(0, slots - target) ** POWER)


@inner
def _with(state: State, i: int, out: Pair, added: Pair, target: int, room: Ints) -> int:
    """Return the span of helper i without two clients and with two others; -1 for none."""
    n = 0
    for x in range(-2, state.size[i]):
        j = added[-x - 1] if x < 0 else state.members[i, x]
        if j >= 0 and j != out[0] and j != out[1]:
            room[n] = j
            n += 1
    release, forward, gap, backward, tail = state.times
    found = span(room, int(n), release[i], forward[i], gap[i], backward[i], tail[i])
    # The largest path first is not always the best order; where it nearly reaches the target another one may.
    if target < found <= target + target // CLOSE and can_be(i, room[:n], state.times, target, GLANCE) == YES:
        return target
    return found


@inner
def _path(state: State, i: int, j: int) -> int:
    release, forward, gap, backward, tail = state.times
    return int(release[i, j] + forward[i, j] + gap[i, j] + backward[i, j] + tail[i, j])


@inner
def _sum_up(state: State, i: int, known: Ints) -> None:
    """Fill `known` (KNOWN) with helper i's work, and its clients of the least releases and tails, -1 for none."""
    release, forward, _, backward, tail = state.times
    known[0], known[1:] = 0, -1
    for x in range(state.size[i]):
        j = state.members[i, x]
        known[0] += forward[i, j] + backward[i, j]
        for begin, times in ((1, release), (4, tail)):
            at = begin + 3
            while at > begin and (known[at - 1] < 0 or times[i, j] < times[i, known[at - 1]]):
                at -= 1
                if at < begin + 2:
                    known[at + 1] = known[at]
                known[at] = j


@inner
def _least(state: State, i: int, known: Ints, out: Pair, added: Pair) -> int:
    """Return a lower bound on helper i's span without two clients and with two others: its work without a pause."""
    release, forward, _, backward, tail = state.times
    work, first, last = known[0], np.int64(1 << 60), np.int64(1 << 60)
    for j in out:
        if j >= 0:
            work -= forward[i, j] + backward[i, j]
    for j in added:
        if j >= 0:
            work += forward[i, j] + backward[i, j]
            first, last = min(first, release[i, j]), min(last, tail[i, j])
    for j in known[1:4]:
        if j >= 0 and j != out[0] and j != out[1]:
            first = min(first, release[i, j])
            break
    for j in known[4:]:
        if j >= 0 and j != out[0] and j != out[1]:
            last = min(last, tail[i, j])
            break
    return int(first + work + last)


@inner
def _better_move(
    state: State, i: int, k: int, target: int, work: int, without: Ints, known: Ints, best: Ints, room: Ints
) -> tuple[bool, int]:
    """Whether a client of helper i that goes to k reduces the violation, and work left.

    Fills best (BEST) with the best. `without`: spans of i without each of its clients.
    """
    both = _violation(state.span[i], target) + _violation(state.span[k], target)
    found = HARDLY
    for x in range(state.size[i]):
        j = state.members[i, x]
        low = _violation(without[x], target) - both
        if not state.useful[k, j]:
            continue
        if state.load[k] + state.demand[j] > state.capacity[k] or low + _violation(_path(state, k, j), target) >= found:
            continue
        if low + _violation(_least(state, k, known[1], NONE, (j, ABSENT)), target) >= found:
            continue
        then = _with(state, k, NONE, (j, ABSENT), target, room)
        work -= 1
        if low + _violation(then, target) < found:
            found = low + _violation(then, target)
            _write(best, (j, ABSENT), NONE, without[x], then)
    return found < HARDLY, work


@inner
def _better_swap(
    state: State, i: int, k: int, target: int, work: int, without: Ints, known: Ints, best: Ints, room: Ints
) -> tuple[bool, int]:
    """Whether the first client of helper i that can change places with one of k reduces the violation; work left.

    Fills best (BEST) with the best such change of that client.
    """
    both = _violation(state.span[i], target) + _violation(state.span[k], target)
    for x in range(state.size[i]):
        j = state.members[i, x]
        found = HARDLY
        alone = _violation(without[x], target) + _violation(_path(state, k, j), target) - both
        if not state.useful[k, j] or alone >= found or work <= 0:
            continue
        for y in range(state.size[k]):
            back = state.members[k, y]
            if not _can_change(state, j, back):
                continue
            left = _violation(
                max(_path(state, i, back), _least(state, i, known[0], (j, ABSENT), (back, ABSENT))), target
            )
            right = _violation(_least(state, k, known[1], (back, ABSENT), (j, ABSENT)), target)
            if left + right - both >= found:
                continue
            mine = _with(state, i, (j, ABSENT), (back, ABSENT), target, room)
            work -= 1
            if _violation(mine, target) + right - both >= found:
                continue
            other = _with(state, k, (back, ABSENT), (j, ABSENT), target, room)
            work -= 1
            if _violation(mine, target) + _violation(other, target) - both < found:
                found = _violation(mine, target) + _violation(other, target) - both
                _write(best, (j, ABSENT), (back, ABSENT), mine, other)
        if found < HARDLY:
            return True, work
    return False, work


@inner
def _better_two(
    state: State, i: int, k: int, target: int, work: int, known: Ints, best: Ints, room: Ints
) -> tuple[bool, int]:
    """Whether two clients of helper i for one of k reduce the violation, and work left.

    Fills best (BEST) with the first such change.
    """
    both = _violation(state.span[i], target) + _violation(state.span[k], target)
    for x in range(state.size[i]):
        j = state.members[i, x]
        if not state.useful[k, j] or _violation(_path(state, k, j), target) >= both:
            continue
        for y in range(x):
            two = (j, state.members[i, y])
            if not state.useful[k, two[1]] or _violation(_path(state, k, two[1]), target) >= both:
                continue
            for z in range(state.size[k]):
                if not _two_fit(state, two, state.members[k, z]):
                    continue
                found, work = _less(
                    state, i, k, two, (state.members[k, z], ABSENT), both, target, work, known, best, room
                )
                if found or work <= 0:
                    return found, work
    return False, work


@inner
def _two_fit(state: State, two: Pair, back: int) -> bool:
    """Return whether two clients of one helper can be exchanged for one client of another helper."""
    a, b = state.assignment[two[0]], state.assignment[back]
    more = state.demand[two[0]] + state.demand[two[1]] - state.demand[back]
    room = state.load[a] - more <= state.capacity[a] and state.load[b] + more <= state.capacity[b]
    return bool(room and state.useful[a, back])


@inner
def _less(
    state: State,
    a: int,
    b: int,
    two: Pair,
    one: Pair,
    both: float,
    target: int,
    work: int,
    known: Ints,
    best: Ints,
    room: Ints,
) -> tuple[bool, int]:
    """Return whether this exchange between a and b brings the violation below `both`, and work left; fills best."""
    left = _violation(max(_path(state, a, one[0]), _least(state, a, known[0], two, one)), target)
    if left - both >= HARDLY:
        return False, work
    right = _violation(_least(state, b, known[1], one, two), target)
    if left + right - both >= HARDLY:
        return False, work
    mine = _with(state, a, two, one, target, room)
    if _violation(mine, target) + right - both >= HARDLY:
        return False, work - 1
    other = _with(state, b, one, two, target, room)
    _write(best, two, one, mine, other)
    return bool(_violation(mine, target) + _violation(other, target) - both < HARDLY), work - 2


@inner
def _write(best: Ints, out: Pair, back: Pair, mine: int, other: int) -> None:
    best[0], best[1], best[2], best[3], best[4], best[5] = out[0], out[1], back[0], back[1], mine, other


@inner
def _can_change(state: State, j: int, back: int) -> bool:
    """Return whether client j and another client can be exchanged."""
    i, k = state.assignment[j], state.assignment[back]
    more = state.demand[j] - state.demand[back]
    room = state.load[i] - more <= state.capacity[i] and state.load[k] + more <= state.capacity[k]
    return bool(room and state.useful[i, back])


@inner
def _better_with(
    state: State, i: int, k: int, target: int, work: int, two: bool, without: Ints, known: Ints, best: Ints, room: Ints
) -> tuple[bool, int]:
    """Whether any change between helpers i and k reduces the violation, and work left; fills best (BEST)."""
    found, work = _better_move(state, i, k, target, work, without, known, best, room)
    if not found:
        found, work = _better_swap(state, i, k, target, work, without, known, best, room)
    if two and not found and work > 0:
        found, work = _better_two(state, i, k, target, work, known, best, room)
    return found, work


@inner
def _better_of(state: State, i: int, target: int, work: int, turn: int, two: bool, best: Ints) -> tuple[int, int]:
    """The first other helper with which helper i reduces the violation, or -1; and work left."""
    room = np.empty(len(state.demand) + 2, np.int64)
    without = np.empty(state.size[i], np.int64)
    known = np.empty((2, KNOWN), np.int64)
    _sum_up(state, i, known[0])
    for x in range(state.size[i]):
        without[x] = -1
    for y in range(len(state.capacity)):
        k = (y + turn) % len(state.capacity)
        if k == i or (state.seen[i, k, 0] == state.version[i] and state.seen[i, k, 1] == state.version[k]):
            continue
        if work <= 0:
            break
        if state.size[i] and without[0] < 0:
            for x in range(state.size[i]):
                without[x] = _with(state, i, (state.members[i, x], ABSENT), NONE, target, room)
            work -= state.size[i]
        _sum_up(state, k, known[1])
        found, work = _better_with(state, i, k, target, work, two, without, known, best, room)
        if found:
            return k, work
        if work > 0:
            state.seen[i, k, 0], state.seen[i, k, 1] = state.version[i], state.version[k]
    return -1, work


@kernel
def _search(state: State, target: int, work: int, turn: int, two: bool) -> int:
    best = np.empty(BEST, np.int64)
    newest = state.version.max()
    while work > 0:
        better = False
        for i in np.argsort(-state.span):
            if state.span[i] <= target or work <= 0:
                break
            turn = (turn * 1103515245 + 12345) % 2147483648
            k, work = _better_of(state, i, target, work, turn, two, best)
            if k >= 0:
                for j in best[:4]:
                    if j >= 0:
                        take(state, j)
                for x in range(4):
                    if best[x] >= 0:
                        put(state, best[x], k if x < 2 else i)
                state.span[i], state.span[k] = best[4], best[5]
                state.version[i], state.version[k] = newest + 1, newest + 2
                newest += 2
                better = True
                break
        if not better:
            break
    return work
