"""The least makespan of tiny instances, by trying every assignment and whatever may run in each slot."""

from functools import cache
from itertools import product

from scheduling.split_learning.instance import Instance

State = tuple[int, int, int, int, int]
"""State of a client: remaining forward slots, its pieces, arrival of the backward pass (-1: not known), remaining
backward slots, its pieces (-1: over, and the third number is the end)."""


def least_makespan(instance: Instance) -> int | None:
    """Problem 1 with the costs of Section VI; None if memory allows no assignment."""
    clients = range(len(instance.clients))
    best = None
    alone: dict[tuple[int, tuple[int, ...]], int] = {}
    for assignment in product(range(len(instance.helpers)), repeat=len(instance.clients)):
        groups = [tuple(j for j in clients if assignment[j] == i) for i in range(len(instance.helpers))]
        if any(sum(instance.demand[j] for j in group) > instance.capacity[i] for i, group in enumerate(groups)):
            continue
        for i, group in enumerate(groups):
            if (i, group) not in alone:
                alone[i, group] = least_of_one(instance, i, group)
        makespan = max(alone[i, group] for i, group in enumerate(groups))
        best = makespan if best is None else min(best, makespan)
    return best


def least_of_one(instance: Instance, i: int, group: tuple[int, ...]) -> int:
    """The least makespan of these clients on one helper; 0 for none."""
    makespan = max((int(instance.path[i, j]) for j in group), default=0)
    while not OneHelper(instance, i, group, makespan).possible():
        makespan += 1
    return makespan


class OneHelper:
    """Whether these clients can be over by a slot, slot by slot; it may also idle."""

    def __init__(self, instance: Instance, i: int, group: tuple[int, ...], makespan: int) -> None:
        self.twice = 2 * int(instance.switch[i])
        names = ("release", "gap", "tail", "forward", "backward")
        self.rows = [[int(getattr(instance, name)[i, j]) for name in names] for j in group]
        self.makespan = makespan
        self.after = cache(self._after)

    def possible(self) -> bool:
        states: list[State] = []
        for release, gap, _, forward, backward in self.rows:
            states.append((forward, 0, -1 if forward else release + self.twice + gap, backward, 0))
        return self.after(0, tuple(states), -1)

    def _after(self, t: int, states: tuple[State, ...], last: int) -> bool:
        """`last` is 2 client + kind of what ran before slot t."""
        if any(self._soonest(j, t, state) > self.makespan for j, state in enumerate(states)):
            return False
        unfinished = [j for j, state in enumerate(states) if state[0] or state[3]]
        if not unfinished:
            return True
        # One pass runs at a time, and the last client still has its tail.
        left = sum(states[j][0] + states[j][3] for j in unfinished)
        if t + left + min(self.rows[j][2] for j in unfinished) > self.makespan:
            return False
        for j, (forward, _, ready, backward, _) in enumerate(states):
            able = t >= self.rows[j][0] if forward else bool(backward) and t >= ready
            if able:
                kind = 0 if forward else 1
                new = self._run(j, t, states[j], last != 2 * j + kind)
                runs = 2 * j + kind if self.twice else -1
                if self.after(t + 1, (*states[:j], new, *states[j + 1 :]), runs):
                    return True
        return self.after(t + 1, states, -1)

    def _run(self, j: int, t: int, state: State, starts: bool) -> State:
        forward, first, ready, backward, second = state
        more = int(starts and self.twice > 0)
        if not forward:
            # Of a pass that is over the costs are in when it ended.
            over = t + 1 + self.twice * max(1, second + more)
            return (0, 0, over if backward == 1 else ready, backward - 1, second + more if backward > 1 else -1)
        arrives = t + 1 + self.twice * max(1, first + more) + self.rows[j][1]
        return (forward - 1, first + more if forward > 1 else 0, arrives if forward == 1 else -1, backward, 0)

    def _soonest(self, j: int, t: int, state: State) -> int:
        """No earlier than this is the client over."""
        forward, first, ready, backward, second = state
        release, gap, tail, _, _ = self.rows[j]
        if second == -1:
            return ready + tail
        if forward:
            ready = max(t, release) + forward + self.twice * max(1, first) + gap
        if not backward:
            return ready + self.twice + tail
        return max(t, ready) + backward + self.twice * max(1, second) + tail
