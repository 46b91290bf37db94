"""A plan: a helper for each client, the slots of each pass, and the priorities that helpers follow."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from scheduling.model.types import Ints
from scheduling.split_learning.helper import run
from scheduling.split_learning.instance import Instance

Pieces = tuple[tuple[int, int], ...]
"""Slots [start, end) in which a pass runs, in order, none touching the next."""


@dataclass(frozen=True, eq=False)
class Plan:
    """A plan for an instance; nothing here is checked, `check.violations` does that."""

    instance: Instance
    assignment: Ints
    """Helper of each client, J."""
    forward: tuple[Pieces, ...]
    """J."""
    backward: tuple[Pieces, ...]
    """J."""
    key_forward: Ints
    """Priorities that helpers are sent: among the passes that are there the greatest key runs, J."""
    key_backward: Ints
    preemptive: bool
    """Whether a pass that arrives interrupts one with a smaller key."""

    @cached_property
    def completion(self) -> Ints:
        """Slot at which each client's batch is over (9), with the costs of switching of Section VI, J."""
        clients = np.arange(len(self.assignment))
        tail = self.instance.tail[self.assignment, clients]
        switch = self.instance.switch[self.assignment]
        ended = np.array([end_of(row) for row in self.backward], dtype=np.int64)
        released = self.released
        ended = np.where([bool(row) for row in self.backward], ended, released)
        starts = np.array([len(row) for row in self.backward], dtype=np.int64)
        return ended + 2 * switch * np.maximum(starts, 1) + tail

    @cached_property
    def released(self) -> Ints:
        """Slot at which each client's backward pass is at its helper (2), with the costs of switching, J."""
        clients = np.arange(len(self.assignment))
        ended = np.array([end_of(row) for row in self.forward], dtype=np.int64)
        ended = np.where([bool(row) for row in self.forward], ended, self.instance.release[self.assignment, clients])
        starts = np.array([len(row) for row in self.forward], dtype=np.int64)
        switch = self.instance.switch[self.assignment]
        return ended + 2 * switch * np.maximum(starts, 1) + self.instance.gap[self.assignment, clients]

    @property
    def makespan(self) -> int:
        """Slots until the slowest client's batch is over."""
        return int(self.completion.max())

    @property
    def slack(self) -> Ints:
        """Slots by which each client is earlier than the slowest, J."""
        return self.makespan - self.completion

    @property
    def waiting(self) -> Ints:
        """Slots each client's passes waited or were interrupted, and what interruptions cost, J."""
        return self.completion - self.instance.path[self.assignment, np.arange(len(self.assignment))]

    @property
    def interruptions(self) -> int:
        """Number of interruptions of passes."""
        return sum(max(0, len(row) - 1) for row in (*self.forward, *self.backward))


def end_of(row: Pieces) -> int:
    """Slot at which the last piece ends; 0 if there is none."""
    return row[-1][1] if row else 0


def by_priority(
    instance: Instance, assignment: Ints, key_forward: Ints, key_backward: Ints, *, preemptive: bool = True
) -> Plan:
    """The plan that static priorities give, where switching costs nothing; keys and assignment J."""
    passes: tuple[list[Pieces], list[Pieces]] = ([()] * len(assignment), [()] * len(assignment))
    for i in range(len(instance.helpers)):
        members = np.flatnonzero(assignment == i)
        rows = np.empty((4 * len(members), 4), dtype=np.int64)
        ended = np.empty((2, len(members)), dtype=np.int64)
        release, forward, gap, backward = (
            getattr(instance, name)[i, members] for name in ("release", "forward", "gap", "backward")
        )
        keys = key_forward[members], key_backward[members]
        count = run(release, forward, gap, backward, *keys, ended[0], ended[1], rows, preemptive)
        for client, kind, start, end in rows[:count].tolist():
            passes[kind][members[client]] += ((start, end),)
    return Plan(instance, assignment, tuple(passes[0]), tuple(passes[1]), key_forward, key_backward, preemptive)


def largest_path_first(instance: Instance, assignment: Ints) -> Plan:
    """The plan in which every helper runs the pass with the largest path before it."""
    clients = np.arange(len(assignment))
    tail = instance.tail[assignment, clients]
    first = instance.gap[assignment, clients] + instance.backward[assignment, clients] + tail
    return by_priority(instance, assignment, first, tail)


def best_by_helper(candidates: Sequence[Plan]) -> Plan:
    """Return the plan in which each helper runs as in the candidate in which its clients end first.

    The candidates have the same instance, assignment and keys. The result is preemptive if any pass is interrupted.
    """
    first = candidates[0]
    forward, backward = list(first.forward), list(first.backward)
    for i in np.unique(first.assignment):
        members = np.flatnonzero(first.assignment == i)
        best = min(candidates, key=lambda plan: int(plan.completion[members].max()))
        for j in members:
            forward[j], backward[j] = best.forward[j], best.backward[j]
    found = replace(first, forward=tuple(forward), backward=tuple(backward))
    return replace(found, preemptive=found.interruptions > 0)


def merged(slots: Sequence[tuple[int, int]]) -> Pieces:
    """Pieces in order of time, those that touch joined and empty ones left out."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(slots):
        if start == end:
            continue
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return tuple(joined)
