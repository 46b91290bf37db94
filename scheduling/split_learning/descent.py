"""Local search over assignments: moves and swaps that take most from the helpers that end too late."""

import numpy as np

from scheduling.arrays import Ints
from scheduling.split_learning.compiled import inner, kernel
from scheduling.split_learning.helper import span
from scheduling.split_learning.one_helper import YES, can_be
from scheduling.split_learning.state import State, Times, put, take

POWER = 1.5
"""Of the slots a helper is over the target: many small excesses are better than a large one."""


def descend(state: State, target: int, work: int, turn: int = 0) -> int:
    """Change the assignment until no helper ends after `target`, or no move and no swap helps; returns work left.

    Remembers which pairs of helpers were looked at in vain, for as long as neither changes and the target is the same.
    `work`: how many schedules of a helper it may try. `turn`: a number that says where to begin.
    """
    if state.target != target:
        state.target = target
        state.seen[:] = -1
    return int(
        _descend(
            target,
            work,
            turn,
            state.times,
            state.demand,
            state.capacity,
            state.assignment,
            state.load,
            state.members,
            state.count,
            state.span,
            state.version,
            state.seen,
        )
    )


def shake(state: State, target: int, kicks: int, rng: np.random.Generator) -> None:
    """Move some clients of the helpers that end last to others that have memory and a path that fits."""
    path = np.sum(state.times, axis=0)
    for _ in range(kicks):
        late = np.flatnonzero(state.span >= state.span.max() - 1)
        i = int(rng.choice(late)) if rng.random() < 0.5 else int(rng.integers(len(state.span)))
        if not state.count[i]:
            continue
        j = int(state.members[i, rng.integers(state.count[i])])
        room = (state.load + state.demand[j] <= state.capacity) & (path[:, j] <= target)
        room[i] = False
        where = np.flatnonzero(room)
        if not len(where):
            continue
        other = int(rng.choice(where))
        take(j, state.members, state.count, state.load, state.demand, state.assignment)
        put(j, other, state.members, state.count, state.load, state.demand, state.assignment)
        for h in (i, other):
            state.version[h] = state.version.max() + 1
            state.span[h] = span(state.members[h], state.count[h], *(row[h] for row in state.times))


HARDLY = -1e-9
"""A change of the excess that is one."""
CLOSE = 16
"""A helper that is over the target by at most this part of it gets a look at other orders,"""
GLANCE = 12
"""at so many of them."""


def excess(state: State, target: int) -> float:
    """What the descent makes small: slots that helpers are over the target, to the power of POWER, summed."""
    return float((np.maximum(state.span - target, 0).astype(np.float64) ** POWER).sum())


@inner
def _excess(slots: int, target: int) -> float:
    return float(max(0, slots - target) ** POWER)


@inner
def _with(members: Ints, count: int, out: int, added: int, i: int, times: Times, target: int, room: Ints) -> int:
    """When helper i can be over without one client and with another; -1 for none."""
    n = 0
    for x in range(count):
        if members[x] != out:
            room[n] = members[x]
            n += 1
    if added >= 0:
        room[n] = added
        n += 1
    release, forward, gap, backward, tail = times
    found = span(room, n, release[i], forward[i], gap[i], backward[i], tail[i])
    # The largest path first is not always the best order; where it nearly reaches the target another one may.
    if target < found <= target + target // CLOSE and can_be(i, room[:n], times, target, GLANCE) == YES:
        return target
    return found


@inner
def _path(i: int, j: int, times: Times) -> int:
    return int(times[0][i, j] + times[1][i, j] + times[2][i, j] + times[3][i, j] + times[4][i, j])


@inner
def _least(members: Ints, count: int, out: int, added: int, i: int, times: Times) -> int:
    """Slots below which helper i cannot be over without one client and with another: all its work at one go."""
    release, forward, _, backward, tail = times
    first, last, work = np.int64(1 << 60), np.int64(1 << 60), np.int64(0)
    for x in range(-1, count):
        j = added if x < 0 else members[x]
        if j >= 0 and j != out:
            first, last = min(first, release[i, j]), min(last, tail[i, j])
            work += forward[i, j] + backward[i, j]
    return int(first + work + last)


@inner
def _better_move(
    i: int,
    k: int,
    target: int,
    work: int,
    times: Times,
    demand: Ints,
    capacity: Ints,
    load: Ints,
    members: Ints,
    count: Ints,
    spans: Ints,
    without: Ints,
    best: Ints,
    room: Ints,
) -> tuple[bool, int]:
    """Whether a client of helper i that goes to k makes the excess smaller, and work left.

    Fills best with the best: client, -1, and the two helpers' spans. `without`: spans of i without each of its clients.
    """
    both = _excess(spans[i], target) + _excess(spans[k], target)
    found = HARDLY
    for x in range(count[i]):
        j = members[i, x]
        low = _excess(without[x], target) - both
        if load[k] + demand[j] > capacity[k] or low + _excess(_path(k, j, times), target) >= found:
            continue
        if low + _excess(_least(members[k], count[k], -1, j, k, times), target) >= found:
            continue
        then = _with(members[k], count[k], -1, j, k, times, target, room)
        work -= 1
        if low + _excess(then, target) < found:
            found = low + _excess(then, target)
            best[0], best[1], best[2], best[3] = j, -1, without[x], then
    return found < HARDLY, work


@inner
def _better_swap(
    i: int,
    k: int,
    target: int,
    work: int,
    times: Times,
    demand: Ints,
    capacity: Ints,
    load: Ints,
    members: Ints,
    count: Ints,
    spans: Ints,
    without: Ints,
    best: Ints,
    room: Ints,
) -> tuple[bool, int]:
    """Whether the first client of helper i that can change places with one of k makes the excess smaller; work left.

    Fills best with the best such change of that client: client, the one that comes back, and the two helpers' spans.
    """
    both = _excess(spans[i], target) + _excess(spans[k], target)
    for x in range(count[i]):
        j = members[i, x]
        found = HARDLY
        if _excess(without[x], target) + _excess(_path(k, j, times), target) - both >= found or work <= 0:
            continue
        for y in range(count[k]):
            back = members[k, y]
            if load[i] - demand[j] + demand[back] > capacity[i] or load[k] - demand[back] + demand[j] > capacity[k]:
                continue
            left = _excess(max(_path(i, back, times), _least(members[i], count[i], j, back, i, times)), target)
            right = _excess(_least(members[k], count[k], back, j, k, times), target)
            if left + right - both >= found:
                continue
            mine = _with(members[i], count[i], j, back, i, times, target, room)
            work -= 1
            if _excess(mine, target) + right - both >= found:
                continue
            other = _with(members[k], count[k], back, j, k, times, target, room)
            work -= 1
            if _excess(mine, target) + _excess(other, target) - both < found:
                found = _excess(mine, target) + _excess(other, target) - both
                best[0], best[1], best[2], best[3] = j, back, mine, other
        if found < HARDLY:
            return True, work
    return False, work


@inner
def _better_of(
    i: int,
    target: int,
    work: int,
    turn: int,
    times: Times,
    demand: Ints,
    capacity: Ints,
    load: Ints,
    members: Ints,
    count: Ints,
    spans: Ints,
    version: Ints,
    seen: Ints,
    best: Ints,
) -> tuple[int, int]:
    """The first other helper with which helper i makes the excess smaller, or -1; and work left."""
    room = np.empty(len(demand) + 1, np.int64)
    without = np.empty(count[i], np.int64)
    for x in range(count[i]):
        without[x] = -1
    for y in range(len(capacity)):
        k = (y + turn) % len(capacity)
        if k == i or (seen[i, k, 0] == version[i] and seen[i, k, 1] == version[k]):
            continue
        if work <= 0:
            break
        if count[i] and without[0] < 0:
            for x in range(count[i]):
                without[x] = _with(members[i], count[i], members[i, x], -1, i, times, target, room)
            work -= count[i]
        found, work = _better_move(
            i, k, target, work, times, demand, capacity, load, members, count, spans, without, best, room
        )
        if not found:
            found, work = _better_swap(
                i, k, target, work, times, demand, capacity, load, members, count, spans, without, best, room
            )
        if found:
            return k, work
        if work > 0:
            seen[i, k, 0], seen[i, k, 1] = version[i], version[k]
    return -1, work


@kernel
def _descend(
    target: int,
    work: int,
    turn: int,
    times: Times,
    demand: Ints,
    capacity: Ints,
    assignment: Ints,
    load: Ints,
    members: Ints,
    count: Ints,
    spans: Ints,
    version: Ints,
    seen: Ints,
) -> int:
    best = np.empty(4, np.int64)
    newest = version.max()
    while work > 0:
        better = False
        for i in np.argsort(-spans):
            if spans[i] <= target or work <= 0:
                break
            turn = (turn * 1103515245 + 12345) % 2147483648
            k, work = _better_of(
                i, target, work, turn, times, demand, capacity, load, members, count, spans, version, seen, best
            )
            if k >= 0:
                j, back = best[0], best[1]
                take(j, members, count, load, demand, assignment)
                if back >= 0:
                    take(back, members, count, load, demand, assignment)
                    put(back, i, members, count, load, demand, assignment)
                put(j, k, members, count, load, demand, assignment)
                spans[i], spans[k] = best[2], best[3]
                version[i], version[k] = newest + 1, newest + 2
                newest += 2
                better = True
                break
        if not better:
            break
    return work
