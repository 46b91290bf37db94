"""Balanced-greedy with the slip of the code released with the paper, and FCFS a slot at a time."""

from scheduling.split_learning.instance import Instance


def balanced_literal(instance: Instance) -> list[int] | None:
    """Helper of each client; memory is not charged where a single helper has room. None if nobody has."""
    room = instance.capacity.tolist()
    count = [0] * len(room)
    assignment = []
    for demand in instance.demand.tolist():
        able = [i for i, free in enumerate(room) if free >= demand]
        if not able:
            return None
        least = min(count[i] for i in able)
        chosen = next(i for i in able if count[i] == least)
        if len(able) > 1:
            room[chosen] -= demand
        count[chosen] += 1
        assignment.append(chosen)
    return assignment


def overbooked(instance: Instance, assignment: list[int]) -> bool:
    """Whether some helper holds more than it has."""
    taken = [0] * len(instance.helpers)
    for demand, i in zip(instance.demand.tolist(), assignment, strict=True):
        taken[i] += demand
    return any(used > there for used, there in zip(taken, instance.capacity.tolist(), strict=True))


def fcfs_by_slots(instance: Instance, assignment: list[int]) -> tuple[list[list[int]], list[list[int]]]:
    """Slots in which each client's passes run, forward and backward; every pass has at least one slot."""
    runs: tuple[list[list[int]], list[list[int]]] = ([[] for _ in assignment], [[] for _ in assignment])
    for i in range(len(instance.helpers)):
        twice = 2 * int(instance.switch[i])
        there = {(int(instance.release[i, j]), j, 0) for j, helper in enumerate(assignment) if helper == i}
        left = 0
        t = 0
        while there or left:
            if not left:
                able = [one for one in there if one[0] <= t]
                if not able:
                    t += 1
                    continue
                first = min(able)
                there.remove(first)
                _, j, kind = first
                left = int((instance.forward, instance.backward)[kind][i, j])
            runs[kind][j].append(t)
            t += 1
            left -= 1
            if not left and kind == 0:
                there.add((t + twice + int(instance.gap[i, j]), j, 1))
    return runs
