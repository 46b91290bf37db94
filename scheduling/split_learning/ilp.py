"""Problem 1 as an integer program over slots, for tiny instances: what the paper gives to a solver."""

from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from scheduling.model.types import Floats, Ints
from scheduling.solvers.milp import IntegerProgram
from scheduling.solvers.time_limit import Left
from scheduling.split_learning.balanced_greedy import balanced, no_room, nowhere
from scheduling.split_learning.bounds import unavoidable
from scheduling.split_learning.columns import helpers_of
from scheduling.split_learning.first_come import first_come
from scheduling.split_learning.forward_first import forward_first
from scheduling.split_learning.insertion import insert
from scheduling.split_learning.instance import Instance
from scheduling.split_learning.method import NoPlan, Step
from scheduling.split_learning.plan import Plan, by_priority, end_of, largest_path_first, merged
from scheduling.split_learning.state import NOBODY, nobody

MOST_COLUMNS = 60_000
"""Slots of passes, on every helper; the solver gets nowhere with as many, and needs gigabytes for more."""


class TooLarge(NoPlan):
    """The program would have more than MOST_COLUMNS columns for slots of passes."""


def ilp(instance: Instance, *, left: Left, rng: np.random.Generator) -> Iterator[Step]:
    """Yield a simple plan where there is one, then what HiGHS finds and proves in the time that is left.

    Optimal if it ends in time, also where switching costs (Section VI).

    Raises
    ------
    TooLarge
        With the numbers of clients, helpers and slots.
    NoPlan
        Memory allows no assignment.

    References
    ----------
    Problem 1, (1) to (11). (2) as printed leaves the slots before l + l' free: z is 0 there. As no plan is worth
    anything that ends later than one that is known, its makespan takes the place of T.
    """
    least = unavoidable(instance)
    best = _simple(instance, left)
    program = _Program(instance, instance.horizon if best is None else best.makespan)
    yield Step(least, best, "simple plans" if best else "no plan yet")
    if best is not None and best.makespan <= least:
        return
    if not program.write(left):
        yield Step(least, best, "no time left")
        return
    answer = program.rows.solve(left)
    if not answer.feasible:
        raise nowhere(instance)
    if answer.values is not None:
        found = program.plan(answer.values)
        best = found if best is None or found.makespan < best.makespan else best
    yield Step(max(least, answer.whole_bound), best, "integer program" if answer.optimal else "no time left")


def _simple(instance: Instance, left: Left) -> Plan | None:
    """The best of some plans made in no time, whose makespan limits the program; None if no assignment is found."""
    plans = []
    for choose in (balanced, lambda one: _inserted(one, left)):
        with suppress(NoPlan):
            assignment = choose(instance)
            plans.append(first_come(instance, assignment))
            plans.append(forward_first(instance, assignment))
            if not instance.switch.any():
                plans.append(largest_path_first(instance, assignment))
    return min(plans, key=lambda plan: plan.makespan, default=None)


def _inserted(instance: Instance, left: Left) -> Ints:
    """Helper of each client, J: the client with the longest path first, each where the makespan grows least."""
    state = nobody(instance.uninterrupted())
    if not insert(state, np.argsort(-instance.path.min(axis=0), kind="stable"), left):
        raise no_room(instance, int(np.flatnonzero(state.assignment == NOBODY)[0]), instance.capacity - state.load)
    return state.assignment


class _Program:
    """Columns y, x, z and the makespan, and the rows (1) to (9). Slots that cannot be in a plan have no column."""

    def __init__(self, instance: Instance, slots: int) -> None:
        self.instance = instance
        self.slots = slots
        self.rows = IntegerProgram()
        self.twice = (2 * instance.switch).tolist()
        times = (instance.release, instance.forward, instance.gap, instance.backward, instance.tail)
        self.times = [
            [tuple(int(time[i, j]) for time in times) for j in range(len(instance.clients))] for i in self.helpers
        ]
        self.pairs = [
            (i, j)
            for j in range(len(instance.clients))
            for i in self.helpers
            if instance.fits[i, j] and self._in_time(i, j)
        ]
        self.windows = {(kind, i, j): self._window(kind, i, j) for i, j in self.pairs for kind in (0, 1)}
        wanted = sum(len(window) for window in self.windows.values())
        if wanted > MOST_COLUMNS:
            raise TooLarge(
                f"{len(instance.clients)} clients, {len(instance.helpers)} helpers and {slots} slots make an integer"
                f" program of {wanted} columns; at most {MOST_COLUMNS} are tried"
            )

    @property
    def helpers(self) -> range:
        """Their numbers."""
        return range(len(self.instance.helpers))

    def write(self, left: Left) -> bool:
        """Add all columns and rows; False if time ran out, which writing alone may take."""
        rows = self.rows
        self.makespan = rows.column(0, self.slots, cost=1)
        self.y = {pair: rows.column() for pair in self.pairs}
        self.x = {key: {t: rows.column() for t in window} for key, window in self.windows.items()}
        for j in range(len(self.instance.clients)):
            if left() <= 0:
                return False
            mine = [i for i, other in self.pairs if other == j]
            rows.row([(self.y[i, j], 1) for i in mine], 1, 1)  # (4)
            if self.instance.switch.any():
                self._charged(j, mine)
            else:
                self._free_of_charge(j, mine)
        demand, capacity = self.instance.demand.tolist(), self.instance.capacity.tolist()
        for i in self.helpers:
            if left() <= 0:
                return False
            mine = [j for other, j in self.pairs if other == i]
            rows.capacity_row([(self.y[i, j], demand[j]) for j in mine], capacity[i])  # (5)
            self._one_at_a_time(i, mine)
        for (kind, i, j), columns in self.x.items():  # (6), (7)
            wanted = self.times[i][j][3 if kind else 1]
            rows.row([*((column, 1) for column in columns.values()), (self.y[i, j], -wanted)], 0, 0)
        return left() > 0

    def _one_at_a_time(self, i: int, mine: list[int]) -> None:
        """(3), in slots that some pass may have: where slots are short, next to none of all that there are."""
        able: dict[int, list[tuple[int, int]]] = {}
        for j in mine:
            for kind in (0, 1):
                for t, column in self.x[kind, i, j].items():
                    able.setdefault(t, []).append((column, 1))
        for t in sorted(able):
            self.rows.row(able[t], high=1)

    def plan(self, values: Floats) -> Plan:
        """The plan a solution stands for, with the ends of passes as due dates for helpers."""
        assignment = helpers_of(values, self.y)
        passes = [
            tuple(
                merged([(t, t + 1) for t, column in self.x[kind, i, j].items() if values[column] > 0.5])
                for j, i in enumerate(assignment.tolist())
            )
            for kind in (0, 1)
        ]
        keys = [np.array([-end_of(row) for row in rows], dtype=np.int64) for rows in passes]
        if self.instance.switch.any():
            return Plan(self.instance, assignment, passes[0], passes[1], keys[0], keys[1], preemptive=True)
        # Earliest due date first ends no pass later than its due date.
        return by_priority(self.instance, assignment, keys[0], keys[1])

    def _in_time(self, i: int, j: int) -> bool:
        return int(self.instance.path[i, j]) <= self.slots

    def _window(self, kind: int, i: int, j: int) -> range:
        """Slots in which a pass may run: (1), (2), and early enough for what comes after it."""
        release, forward, gap, backward, tail = self.times[i][j]
        once = self.twice[i]
        if kind == 0:
            return range(release, self.slots - once - gap - backward - once - tail if forward else release)
        return range(release + forward + once + gap, self.slots - once - tail) if backward else range(0)

    def _free_of_charge(self, j: int, mine: list[int]) -> None:
        """(2) as printed, and (8) with (9) by slot: one helper alone has a client's passes."""
        rows = self.rows
        over: dict[int, list[tuple[int, int]]] = {}
        rows.row([(self.makespan, 1), *((self.y[i, j], -int(self.instance.path[i, j])) for i in mine)], low=0)
        for i in mine:
            release, forward, gap, backward, tail = self.times[i][j]
            before = self.x[0, i, j]
            done = self._done(i, j)
            for t, column in self.x[1, i, j].items():
                over.setdefault(t, []).append((column, -(t + 1 + tail)))
                if forward:
                    rows.row(
                        [(done[min(t - gap - 1, len(done) - 1 + release) - release], 1), (column, -forward)], low=0
                    )
            if not backward:
                for t, column in before.items():
                    over.setdefault(t, []).append((column, -(t + 1 + gap + tail)))
        for terms in over.values():
            rows.row([(self.makespan, 1), *terms], low=0)

    def _done(self, i: int, j: int) -> list[int]:
        """Columns that count a forward pass's slots up to each of its window, so that rows have few terms."""
        done: list[int] = []
        for column in self.x[0, i, j].values():
            done.append(self.rows.column(0, self.times[i][j][1], whole=False))
            self.rows.row([(done[-1], 1), (column, -1), *([(done[-2], -1)] if len(done) > 1 else [])], 0, 0)
        return done

    def _charged(self, j: int, mine: list[int]) -> None:
        """(2), (8) and (9) with 2 mu for each piece (Section VI); the backward pass is there at slot `there`."""
        rows = self.rows
        there = rows.column(0, self.slots)
        pieces = {(kind, i): self._pieces(kind, i, j) for kind in (0, 1) for i in mine}
        switching = [[(pieces[kind, i], self.twice[i]) for i in mine] for kind in (0, 1)]
        after = [[(self.y[i, j], self.times[i][j][part]) for i in mine] for part in (2, 4)]
        soonest = [(self.y[i, j], -self.times[i][j][0]) for i in mine if not self.times[i][j][1]]
        ends = [*self._ends(0, j, mine), *([soonest] if soonest else [])]
        for end in ends:
            rows.row([(there, 1), *end, *_less(switching[0]), *_less(after[0])], low=0)
        later = [*self._ends(1, j, mine), [(there, -1)]]
        for end in later:
            rows.row([(self.makespan, 1), *end, *_less(switching[1]), *_less(after[1])], low=0)
        for t in sorted({t for i in mine for t in self.x[1, i, j]}):
            able = [(self.x[1, i, j][t], self.slots - t) for i in mine if t in self.x[1, i, j]]
            rows.row([(there, 1), *able], high=self.slots)

    def _ends(self, kind: int, j: int, mine: list[int]) -> Iterator[list[tuple[int, int]]]:
        """Minus the end of each slot in which the pass may run, by slot."""
        for t in sorted({t for i in mine for t in self.x[kind, i, j]}):
            yield [(self.x[kind, i, j][t], -(t + 1)) for i in mine if t in self.x[kind, i, j]]

    def _pieces(self, kind: int, i: int, j: int) -> int:
        """A column that counts the pieces of a pass, one where it has no slots."""
        rows = self.rows
        window = self.x[kind, i, j]
        starts = {t: rows.column() for t in window}
        for t, start in starts.items():
            rows.row([(start, 1), (window[t], -1), *([(window[t - 1], 1)] if t - 1 in window else [])], low=0)
        count = rows.column(0, max(1, len(window)))
        rows.row([(count, 1), *((start, -1) for start in starts.values())], low=0)
        rows.row([(count, 1), (self.y[i, j], -1)], low=0)
        return count


def _less(terms: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [(column, -value) for column, value in terms]
