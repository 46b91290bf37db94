"""Local search over assignments: moves and swaps that take most from the helpers that end too late."""

import numpy as np

from scheduling.arrays import Ints
from scheduling.split_learning.compiled import inner, kernel
from scheduling.split_learning.helper import span
from scheduling.split_learning.one_helper import YES, can_be
from scheduling.split_learning.state import State, put, span_of, take

POWER = 1.5
"""Of the slots a helper is over the target: many small excesses are better than a large one."""
HARDLY = -1e-9
"""A change of the excess that is one."""
CLOSE = 4
"""A helper that is over the target by at most this part of it gets a look at other orders,"""
GLANCE = 12
"""at so many of them."""


def descend(state: State, target: int, work: int, turn: int = 0) -> int:
    """Change the assignment until no helper ends after `target`, or no move and no swap helps; returns work left.

    Remembers which pairs of helpers were looked at in vain, for as long as neither changes and the target is the same.
    `work`: how many schedules of a helper it may try. `turn`: a number that says where to begin.
    """
    if state.target[0] != target:
        state.target[0] = target
        state.seen[:] = -1
    return int(_descend(state, target, work, turn))


def shake(state: State, target: int, rng: np.random.Generator) -> None:
    """Move a client to another helper that has memory and a path that fits, often from one of those that end last."""
    late = np.flatnonzero(state.span >= state.span.max() - 1)
    i = int(rng.choice(late)) if rng.random() < 0.5 else int(rng.integers(len(state.span)))
    if not state.size[i]:
        return
    j = int(state.members[i, rng.integers(state.size[i])])
    path = np.sum([times[:, j] for times in state.times], axis=0)
    room = (state.load + state.demand[j] <= state.capacity) & (path <= target) & state.worth[:, j]
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


def excess(state: State, target: int) -> float:
    """What the descent makes small: slots that helpers are over the target, to the power of POWER, summed."""
    return float((np.maximum(state.span - target, 0).astype(np.float64) ** POWER).sum())


@inner
def _excess(slots: int, target: int) -> float:
    return float(max(0, slots - target) ** POWER)


@inner
def _with(state: State, i: int, out: int, added: int, target: int, room: Ints) -> int:
    """When helper i can be over without one client and with another; -1 for none."""
    n = 0
    for x in range(state.size[i]):
        if state.members[i, x] != out:
            room[n] = state.members[i, x]
            n += 1
    if added >= 0:
        room[n] = added
        n += 1
    release, forward, gap, backward, tail = state.times
    found = span(room, n, release[i], forward[i], gap[i], backward[i], tail[i])
    # The largest path first is not always the best order; where it nearly reaches the target another one may.
    if target < found <= target + target // CLOSE and can_be(i, room[:n], state.times, target, GLANCE) == YES:
        return target
    return found


@inner
def _path(state: State, i: int, j: int) -> int:
    release, forward, gap, backward, tail = state.times
    return int(release[i, j] + forward[i, j] + gap[i, j] + backward[i, j] + tail[i, j])


@inner
def _least(state: State, i: int, out: int, added: int) -> int:
    """Slots below which helper i cannot be over without one client and with another: all its work at one go."""
    release, forward, _, backward, tail = state.times
    first, last, work = np.int64(1 << 60), np.int64(1 << 60), np.int64(0)
    for x in range(-1, state.size[i]):
        j = added if x < 0 else state.members[i, x]
        if j >= 0 and j != out:
            first, last = min(first, release[i, j]), min(last, tail[i, j])
            work += forward[i, j] + backward[i, j]
    return int(first + work + last)


@inner
def _better_move(
    state: State, i: int, k: int, target: int, work: int, without: Ints, best: Ints, room: Ints
) -> tuple[bool, int]:
    """Whether a client of helper i that goes to k makes the excess smaller, and work left.

    Fills best with the best: client, -1, and the two helpers' spans. `without`: spans of i without each of its clients.
    """
    both = _excess(state.span[i], target) + _excess(state.span[k], target)
    found = HARDLY
    for x in range(state.size[i]):
        j = state.members[i, x]
        low = _excess(without[x], target) - both
        if not state.worth[k, j]:
            continue
        if state.load[k] + state.demand[j] > state.capacity[k] or low + _excess(_path(state, k, j), target) >= found:
            continue
        if low + _excess(_least(state, k, -1, j), target) >= found:
            continue
        then = _with(state, k, -1, j, target, room)
        work -= 1
        if low + _excess(then, target) < found:
            found = low + _excess(then, target)
            best[0], best[1], best[2], best[3] = j, -1, without[x], then
    return found < HARDLY, work


@inner
def _better_swap(
    state: State, i: int, k: int, target: int, work: int, without: Ints, best: Ints, room: Ints
) -> tuple[bool, int]:
    """Whether the first client of helper i that can change places with one of k makes the excess smaller; work left.

    Fills best with the best such change of that client: client, the one that comes back, and the two helpers' spans.
    """
    both = _excess(state.span[i], target) + _excess(state.span[k], target)
    for x in range(state.size[i]):
        j = state.members[i, x]
        found = HARDLY
        alone = _excess(without[x], target) + _excess(_path(state, k, j), target) - both
        if not state.worth[k, j] or alone >= found or work <= 0:
            continue
        for y in range(state.size[k]):
            back = state.members[k, y]
            if not _can_change(state, j, back):
                continue
            left = _excess(
                max(_path(state, i, back), _least(state, i, j, back)),
                target,
            )
            right = _excess(_least(state, k, back, j), target)
            if left + right - both >= found:
                continue
            mine = _with(state, i, j, back, target, room)
            work -= 1
            if _excess(mine, target) + right - both >= found:
                continue
            other = _with(state, k, back, j, target, room)
            work -= 1
            if _excess(mine, target) + _excess(other, target) - both < found:
                found = _excess(mine, target) + _excess(other, target) - both
                best[0], best[1], best[2], best[3] = j, back, mine, other
        if found < HARDLY:
            return True, work
    return False, work


@inner
def _can_change(state: State, j: int, back: int) -> bool:
    """Whether client j may have the place of another, and that one j's."""
    i, k = state.assignment[j], state.assignment[back]
    more = state.demand[j] - state.demand[back]
    room = state.load[i] - more <= state.capacity[i] and state.load[k] + more <= state.capacity[k]
    return bool(room and state.worth[i, back])


@inner
def _better_of(state: State, i: int, target: int, work: int, turn: int, best: Ints) -> tuple[int, int]:
    """The first other helper with which helper i makes the excess smaller, or -1; and work left."""
    room = np.empty(len(state.demand) + 1, np.int64)
    without = np.empty(state.size[i], np.int64)
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
                without[x] = _with(state, i, state.members[i, x], -1, target, room)
            work -= state.size[i]
        found, work = _better_move(state, i, k, target, work, without, best, room)
        if not found:
            found, work = _better_swap(state, i, k, target, work, without, best, room)
        if found:
            return k, work
        if work > 0:
            state.seen[i, k, 0], state.seen[i, k, 1] = state.version[i], state.version[k]
    return -1, work


@kernel
def _descend(state: State, target: int, work: int, turn: int) -> int:
    best = np.empty(4, np.int64)
    newest = state.version.max()
    while work > 0:
        better = False
        for i in np.argsort(-state.span):
            if state.span[i] <= target or work <= 0:
                break
            turn = (turn * 1103515245 + 12345) % 2147483648
            k, work = _better_of(state, i, target, work, turn, best)
            if k >= 0:
                j, back = best[0], best[1]
                take(state, j)
                if back >= 0:
                    take(state, back)
                    put(state, back, i)
                put(state, j, k)
                state.span[i], state.span[k] = best[2], best[3]
                state.version[i], state.version[k] = newest + 1, newest + 2
                newest += 2
                better = True
                break
        if not better:
            break
    return work
