"""Batches of split learning from files: bounds, a checker, simple plans, and an integer program over slots."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import floor

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from tests.scheduling.twins.documents.numbers import Document, exact, whole

Matrix = list[list[int]]
"""Whole slots, helpers x clients."""
GIGABYTE = 10**9
TIMES = ("release", "forward", "gap", "backward", "tail")


@dataclass(frozen=True)
class Batch:
    """What an instance file says, in slots and bytes."""

    release: Matrix
    forward: Matrix
    gap: Matrix
    backward: Matrix
    tail: Matrix
    demand: list[int]
    capacity: list[int]

    @property
    def helpers(self) -> range:
        return range(len(self.capacity))

    @property
    def clients(self) -> range:
        return range(len(self.demand))

    def path(self, i: int, j: int) -> int:
        """Slots of a client who never waits at a helper."""
        return sum(row[i][j] for row in (self.release, self.forward, self.gap, self.backward, self.tail))

    def work(self, i: int, j: int) -> int:
        return self.forward[i][j] + self.backward[i][j]

    def fits(self, assignment: Sequence[int]) -> bool:
        """Whether every helper has the memory of its clients."""
        return all(
            sum(self.demand[j] for j in self.clients if assignment[j] == i) <= self.capacity[i] for i in self.helpers
        )


def read(document: Document) -> Batch:
    """A demand is rounded up and a capacity down to whole bytes."""
    return Batch(
        **{name: document[name] for name in TIMES},
        demand=[whole(exact(row["demand_gb"]) * GIGABYTE) for row in document["clients"]],
        capacity=[floor(exact(row["memory_gb"]) * GIGABYTE) for row in document["helpers"]],
    )


def simple_bound(batch: Batch) -> tuple[int, str]:
    """A lower bound and its reason: a client's path at its best helper, or all work shared evenly."""
    paths = [min(batch.path(i, j) for i in batch.helpers) for j in batch.clients]
    longest = max(paths)
    first = min(batch.release[i][j] for i in batch.helpers for j in batch.clients)
    last = min(batch.tail[i][j] for i in batch.helpers for j in batch.clients)
    work = sum(min(batch.work(i, j) for i in batch.helpers) for j in batch.clients)
    shared = first + -(-work // len(batch.capacity)) + last
    if shared > longest:
        return (
            shared,
            f"{first} slots before any pass, {work} of work on {len(batch.capacity)} helpers, {last} after all",
        )
    return longest, f"client {paths.index(longest)} takes so long at its best helper, though nobody is in its way"


@dataclass(frozen=True)
class Plan:
    """The helper of each client, and the slots of its passes."""

    assignment: list[int]
    forward: list[list[int]]
    backward: list[list[int]]


def makespan(batch: Batch, plan: Plan) -> int:
    """Return the end of the last client's batch; raises ValueError for a plan that breaks a constraint."""
    if not batch.fits(plan.assignment):
        raise ValueError("a helper has less memory than its clients need")
    ends = []
    for i in batch.helpers:
        mine = [j for j in batch.clients if plan.assignment[j] == i]
        slots = [t for j in mine for t in (*plan.forward[j], *plan.backward[j])]
        if len(slots) != len(set(slots)):
            raise ValueError(f"helper {i} does two things in a slot")
        for j in mine:
            there = batch.release[i][j]
            for name, took, length in (
                ("forward", plan.forward[j], batch.forward[i][j]),
                ("backward", plan.backward[j], batch.backward[i][j]),
            ):
                if len(took) != length or any(t < there for t in took):
                    raise ValueError(f"the {name} pass of client {j} is too short, too long or too soon")
                there = max([there, *(t + 1 for t in took)]) + (batch.gap[i][j] if name == "forward" else 0)
            ends.append(there + batch.tail[i][j])
    return max(ends)


def by_remaining_path(batch: Batch, assignment: Sequence[int]) -> Plan:
    """Slot by slot, every helper runs what is there and has the longest way to go after it; it may interrupt."""
    forward: list[list[int]] = [[] for _ in batch.clients]
    backward: list[list[int]] = [[] for _ in batch.clients]
    for i in batch.helpers:
        mine = [j for j in batch.clients if assignment[j] == i]
        ready = {j: batch.release[i][j] for j in mine}
        phase = dict.fromkeys(mine, 0)
        t = min(ready.values(), default=0)
        while mine:
            for j in list(mine):
                if phase[j] == 0 and len(forward[j]) == batch.forward[i][j] and t >= ready[j]:
                    phase[j], ready[j] = 1, max(t, ready[j]) + batch.gap[i][j]
                if phase[j] == 1 and len(backward[j]) == batch.backward[i][j] and t >= ready[j]:
                    mine.remove(j)
            there = [j for j in mine if t >= ready[j]]
            if there:
                j = max(there, key=lambda j: (_after(batch, i, j, phase[j]), -j))
                (forward, backward)[phase[j]][j].append(t)
            t += 1
    return Plan(list(assignment), forward, backward)


def _after(batch: Batch, i: int, j: int, phase: int) -> int:
    tail = batch.tail[i][j]
    return tail if phase else batch.gap[i][j] + batch.backward[i][j] + tail


def inserted(batch: Batch, order: Sequence[int]) -> Plan | None:
    """Assign each client in turn to the helper that ends soonest; None if a client has no room."""
    assignment = [-1] * len(batch.demand)
    room = list(batch.capacity)
    ends = [0] * len(room)
    for j in order:
        found: list[tuple[int, int]] = []
        for i in batch.helpers:
            if room[i] >= batch.demand[j]:
                assignment[j] = i
                found.append((_end_of(batch, i, assignment), i))
        if not found:
            return None
        ends[found[0][1]], assignment[j] = min(found)
        room[assignment[j]] -= batch.demand[j]
    return by_remaining_path(batch, assignment)


def _end_of(batch: Batch, helper: int, assignment: Sequence[int]) -> int:
    """Return the end of one helper's clients."""
    mine = [j for j in batch.clients if assignment[j] == helper]
    part = Batch(
        **{name: [[getattr(batch, name)[helper][j] for j in mine]] for name in TIMES},
        demand=[0] * len(mine),
        capacity=[0],
    )
    return makespan(part, by_remaining_path(part, [0] * len(mine)))


def balanced_greedy(batch: Batch) -> int:
    """Clients in the order of the file to the helper with the fewest and room; first come, first served."""
    room, count = list(batch.capacity), [0] * len(batch.capacity)
    assignment = []
    for j in batch.clients:
        able = [i for i in batch.helpers if room[i] >= batch.demand[j]]
        if not able:
            raise ValueError(f"no helper has room for client {j}")
        chosen = min(able, key=lambda i: (count[i], i))
        room[chosen] -= batch.demand[j]
        count[chosen] += 1
        assignment.append(chosen)
    return makespan(batch, first_come(batch, assignment))


def first_come(batch: Batch, assignment: Sequence[int]) -> Plan:
    """Passes in the order in which they are there, equals in the order of clients, forward passes first."""
    forward: list[list[int]] = [[] for _ in batch.clients]
    backward: list[list[int]] = [[] for _ in batch.clients]
    for i in batch.helpers:
        there = [(batch.release[i][j], j, 0) for j in batch.clients if assignment[j] == i]
        now = 0
        while there:
            now = max(now, min(there)[0])
            ready, j, kind = min(there)
            there.remove((ready, j, kind))
            length = (batch.forward, batch.backward)[kind][i][j]
            (forward, backward)[kind][j] += range(now, now + length)
            now += length
            if kind == 0:
                there.append((now + batch.gap[i][j], j, 1))
    return Plan(list(assignment), forward, backward)


def least(batch: Batch, at_most: int) -> int:
    """The least makespan, by an integer program with a binary for each pass, helper and slot; `at_most` is known.

    Every pass takes a slot or more.
    """
    model = _Program(batch, at_most)
    for j in batch.clients:
        model.row([(model.y(i, j), 1.0) for i in batch.helpers], low=1.0, high=1.0)
    for i in batch.helpers:
        model.row([(model.y(i, j), batch.demand[j] / max(batch.capacity[i], 1)) for j in batch.clients], high=1.0)
        for t in range(at_most):
            model.row([(model.x(kind, i, j, t), 1.0) for kind in (0, 1) for j in batch.clients], high=1.0)
        for j in batch.clients:
            model.client(i, j)
    return model.solve()


class _Program:
    def __init__(self, batch: Batch, slots: int) -> None:
        self.batch, self.slots = batch, slots
        pairs = len(batch.capacity) * len(batch.demand)
        self.first_y, self.end = 2 * pairs * slots, 2 * pairs * slots + pairs
        self.cells: list[tuple[int, int, float]] = []
        self.low: list[float] = []
        self.high: list[float] = []
        self.top = np.ones(self.end + 1)
        self.top[self.end] = slots

    def x(self, kind: int, i: int, j: int, t: int) -> int:
        """Helper i works on the forward (0) or backward (1) pass of client j in slot t."""
        return ((kind * len(self.batch.capacity) + i) * len(self.batch.demand) + j) * self.slots + t

    def y(self, i: int, j: int) -> int:
        return self.first_y + i * len(self.batch.demand) + j

    def row(self, terms: Sequence[tuple[int, float]], *, low: float = -np.inf, high: float = np.inf) -> None:
        self.cells += [(len(self.low), column, value) for column, value in terms]
        self.low.append(low)
        self.high.append(high)

    def client(self, i: int, j: int) -> None:
        """One client at one helper: both passes in full, in order, and the batch over by the end."""
        batch = self.batch
        for kind, length in ((0, batch.forward[i][j]), (1, batch.backward[i][j])):
            self.row(
                [(self.x(kind, i, j, t), 1.0) for t in range(self.slots)] + [(self.y(i, j), -length)], low=0, high=0
            )
        for t in range(self.slots):
            if t < batch.release[i][j]:
                self.top[self.x(0, i, j, t)] = 0
            # Not before the whole forward pass has been over for the gap.
            before = [(self.x(0, i, j, u), -1.0) for u in range(max(0, t - batch.gap[i][j]))]
            self.row([(self.x(1, i, j, t), float(batch.forward[i][j])), *before], high=0)
            self.row([(self.end, 1.0), (self.x(1, i, j, t), -float(t + 1 + batch.tail[i][j]))], low=0)

    def solve(self) -> int:
        rows, columns, values = zip(*self.cells, strict=True)
        matrix = coo_array((values, (rows, columns)), shape=(len(self.low), self.end + 1)).tocsr()
        cost = np.zeros(self.end + 1)
        cost[self.end] = 1
        result = milp(
            cost,
            integrality=np.append(np.ones(self.end), 0),
            bounds=Bounds(np.zeros(self.end + 1), self.top),
            constraints=LinearConstraint(matrix, self.low, self.high),
            options={"mip_rel_gap": 0.0},
        )
        if result.status != 0:
            raise ArithmeticError(result.message)
        return round(result.fun)


def orders(batch: Batch) -> Iterator[list[int]]:
    """Orders in which to insert clients: by the longest path, by the most work, by the most memory."""
    paths = [min(batch.path(i, j) for i in batch.helpers) for j in batch.clients]
    works = [min(batch.work(i, j) for i in batch.helpers) for j in batch.clients]
    for keys in (paths, works, batch.demand):
        yield sorted(batch.clients, key=lambda j, keys=keys: (-keys[j], j))  # type: ignore[misc]
