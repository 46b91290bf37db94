"""The exact method: bounds and plans that meet.

Bounds: the longest unavoidable path or all work shared evenly, then the linear program over assignments, then the
integer program, in which each helper's clients are checked exactly and sets that a helper cannot finish in time are
forbidden by cuts. Plans: insertion, the rounded linear program, local search towards the bound, and the solutions of
the integer program.
"""

from collections.abc import Iterator
from math import exp, inf

import numpy as np

from scheduling.model.types import Ints
from scheduling.solvers.time_limit import Left
from scheduling.split_learning.balanced_greedy import nowhere
from scheduling.split_learning.bounds import unavoidable
from scheduling.split_learning.cuts import Cut, cuts_for
from scheduling.split_learning.insertion import insert, orders
from scheduling.split_learning.instance import Instance
from scheduling.split_learning.local_search import perturb, search, violation
from scheduling.split_learning.method import NoPlan, Step
from scheduling.split_learning.one_helper import Order, in_time
from scheduling.split_learning.plan import Plan, by_priority, largest_path_first
from scheduling.split_learning.pricing import Bounded, Prices, mostly
from scheduling.split_learning.relaxation import Relaxation
from scheduling.split_learning.state import State, assigned, nobody
from scheduling.split_learning.switching import charged

WORK = 200_000
"""Largest number of helper schedules that one local search may try."""
STRETCH = 3_000_000
"""Clients scheduled between two checks of the clock, about half a second."""
MOST_TOGETHER = 500
"""Largest mean number of clients of a helper for a local search: with more, a single move takes too long."""
FIRST_SLICE = 0.1
"""Seconds of the first time slice of the search."""
SLICE_GROWTH = 1.5
NEARLY = 1.03
"""Exact orders are only computed for an assignment within this factor of the best makespan."""
FIRST_LIMIT_S = 0.8
"""Seconds of the first attempt of the integer program, which often suffice."""
LIMIT_GROWTH = 2.0
SOLVER_SHARE = 0.33
"""Largest share of the elapsed time that the integer program may use before it is solved again."""
PATIENCE = 300
"""Local searches without a new least violation, after which the search restarts at the best assignment."""
MOST_CHOICES = 10_000
"""Largest helpers x clients for the integer program; it solves nothing larger in time."""
WARMTH = 0.3
"""Mean increase of the violation, in slots, that the search sometimes accepts."""
NEAR = 3
"""Largest distance of the target below the best makespan, slots."""
FIRST = 0.2
"""Share of the time that is left for insertion by schedules (then insertion goes by sums), and for the first local
search."""
RISE = 0.5
"""Share of the time that is left for the linear program."""


class Exact:
    """The best plan and the best bound of one instance while the method improves both."""

    def __init__(self, instance: Instance, *, left: Left, rng: np.random.Generator) -> None:
        self.original = instance
        self.instance = instance.uninterrupted()
        self.left = left
        self.rng = rng
        self.relaxation = Relaxation(self.instance)
        self.low = unavoidable(self.instance)
        self.plan: Plan | None = None
        self._state: State | None = None
        self._current: State | None = None
        self._useful = self.instance.fits
        """Helpers that the local search tries for each client, I x J."""
        self._target = 0
        self._stuck = 0
        self._least = inf
        self._cuts: list[tuple[int, Cut]] = []
        """Sets of clients that some helpers cannot finish by a makespan, and so not by an earlier one."""

    def steps(self) -> Iterator[Step]:
        """Yield steps until the plan is optimal or time is up; raises NoPlan if the clients do not fit together."""
        self._insert()
        if self._state is None:
            self._from_whole()
        yield self._step("insertion")
        if self._open:
            self._restart(self.low, self.left() * (1 - FIRST))
            yield self._step("local search")
        if self._open:
            yield from self._rise()
        begun = self.left()
        seconds, limit, used = FIRST_SLICE, FIRST_LIMIT_S, 0.0
        while self._open and not self._crowded:
            yield from self._search(seconds)
            seconds *= SLICE_GROWTH
            if self._open and self._is_small and used <= SOLVER_SHARE * (begun - self.left()):
                before = self.left()
                yield from self._solve_integer(self.low, limit)
                used += before - self.left()
                limit *= LIMIT_GROWTH
        yield self._step("done")

    @property
    def best(self) -> int:
        """Slots of the best plan."""
        if self.plan is None:
            raise RuntimeError("no plan yet")
        return self.plan.makespan

    @property
    def _open(self) -> bool:
        return self.low < self.best and self.left() > 0

    def _step(self, note: str) -> Step:
        return Step(min(self.low, self.best), self.plan, note)

    def _insert(self) -> None:
        everyone = np.arange(len(self.instance.clients))
        empty = nobody(self.instance)
        until = self.left() * (1 - FIRST)
        for order in orders(empty, everyone):
            if self.plan is not None and self.left() <= until:
                break
            state = empty.copy()
            if insert(state, order, lambda: self.left() - until):
                self._offer(state)

    def _from_whole(self) -> None:
        """Let the solver find any assignment, since memory is too tight for insertion."""
        path = int(np.where(self.instance.fits, self.instance.path, 0).max())
        until = min(0.0, self.left() - 1.0)
        found = self.relaxation.whole(self.instance.horizon + path, [], lambda: self.left() - until)
        if found is None:
            raise nowhere(self.instance)
        if isinstance(found, bool):
            raise NoPlan("no division of the clients among the helpers within memory was found in time")
        self._offer(assigned(self.instance, found))

    def _offer(self, state: State) -> bool:
        """Keep an assignment if it is better; return whether it is."""
        return self._keep(largest_path_first(self.instance, state.assignment.copy()), state)

    def _keep(self, plan: Plan, state: State) -> bool:
        plan = charged(plan, self.original)
        if self.plan is not None and plan.makespan >= self.plan.makespan:
            return False
        self.plan, self._state = plan, state.copy()
        return True

    @property
    def _is_small(self) -> bool:
        return self.instance.release.size <= MOST_CHOICES and not self._crowded

    @property
    def _crowded(self) -> bool:
        return len(self.instance.clients) > MOST_TOGETHER * len(self.instance.helpers)

    def _rise(self) -> Iterator[Step]:
        """Raise the bound by the linear program; then round its solution."""
        if self._state is None:
            return
        prices = Prices(self.relaxation, self._state.assignment)
        until = self.left() * (1 - RISE)
        found = None
        for found in prices.rise(self.low, self.best - 1, lambda: self.left() - until):
            self.low = max(self.low, found.low)
            yield self._step("linear program")
            if not self._open:
                return
        self.low = max(self.low, prices.low)
        if found is not None and self.low < self.best:
            self._round(found)
            yield self._step("linear program, rounded")

    def _round(self, found: Bounded) -> None:
        """Round: assign each client where its share is largest and memory allows; the local search continues from the
        best."""
        state = assigned(self.instance, mostly(self.instance, found.share))
        if not insert(state, np.flatnonzero(state.assignment < 0), self.left):
            return
        self._state, self._useful = state, found.useful
        self._restart(self._next_target())

    def _search(self, seconds: float) -> Iterator[Step]:
        """Perturb and search locally towards a target; accept if the violation is not larger, or sometimes a little
        larger.

        The target is the bound, or, if the search is stuck, another makespan that would be better than the best.
        """
        until = self.left() - seconds
        while self._open and self.left() > until:
            current, target = self._current, self._target
            if current is None or not self.low <= target < self.best:
                self._restart(self._next_target())
                continue
            state = current.copy()
            perturb(state, self.best, self.rng)
            self._local_search(state, target, turn=int(self.rng.integers(1 << 30)))
            if self._better(state):
                yield self._step("local search")
            over = violation(state, target)
            change = over - violation(current, target)
            if change <= 0 or self.rng.random() < exp(-change / WARMTH):
                self._current = state
            self._stuck = 0 if over < self._least else self._stuck + 1
            self._least = min(self._least, over)
            if self._stuck == PATIENCE:
                self._current = None

    def _next_target(self) -> int:
        """Return a random makespan a little below the best one; for large instances the next smaller one."""
        near = NEAR if self._is_small else 1
        return int(self.rng.integers(max(self.low, self.best - near), self.best))

    def _restart(self, target: int, until: float = 0.0) -> None:
        """Restart at the best assignment with another target; at least `until` seconds must be left."""
        if self._state is None:
            return
        self._current, self._target, self._stuck = self._state.copy()._replace(useful=self._useful), target, 0
        self._local_search(self._current, target, until=until)
        self._least = violation(self._current, target)
        self._better(self._current)

    def _local_search(self, state: State, target: int, *, work: int = WORK, turn: int = 0, until: float = 0.0) -> None:
        """Search locally until no time is left, unless helpers have too many clients to check the clock in time."""
        most = int(state.size.max())
        while work > 0 and most <= MOST_TOGETHER and self.left() > until:
            each = min(work, STRETCH // most)
            over = search(state, target, each, turn, two=not self._is_small)
            work -= each
            if over > 0:
                break

    def _better(self, state: State) -> bool:
        return (state.makespan < self.best and self._offer(state)) or self._reoptimise(state)

    def _reoptimise(self, state: State) -> bool:
        """Return whether exact orders on the helpers make an assignment better than the best."""
        if state.makespan > self.best * NEARLY:
            return False
        certain, cuts = self._check_helpers(state.assignment, min(state.makespan, self.best - 1), learn=False)
        return certain and not cuts

    def _solve_integer(self, makespan: int, seconds: float) -> Iterator[Step]:
        """Solve the integer program for a plan that ends by the makespan, or later if there is none.

        Stops after `seconds` without progress.
        """
        until = self.left() - seconds

        def left() -> float:
            return min(self.left(), self.left() - until)

        while self._open and left() > 0:
            known = [cut for at, cut in self._cuts if at >= makespan]
            found = self.relaxation.whole(makespan, known, left)
            if found is None:
                self.low = max(self.low, makespan + 1)
                makespan, until = self.low, self.left() - seconds
                yield self._step("integer program")
                continue
            if isinstance(found, bool):
                return
            if self._repair(found, makespan):
                yield self._step("integer program, repaired")
            if self.relaxation.add_broken(found, makespan):
                continue
            certain, cuts = self._check_helpers(found, makespan)
            self._cuts += [(makespan, cut) for cut in cuts]
            if not cuts:
                if certain:
                    yield self._step("integer program")
                return

    def _repair(self, assignment: Ints, makespan: int) -> bool:
        """Repair an assignment that some helpers cannot finish in time; return whether it becomes better than the
        best."""
        state = assigned(self.instance, assignment)
        self._local_search(state, makespan, work=WORK // 10)
        return self._better(state)

    def _check_helpers(self, assignment: Ints, makespan: int, *, learn: bool = True) -> tuple[bool, list[Cut]]:
        """Return whether every helper was decided, and cuts for sets of clients that a helper cannot finish in time."""
        certain = True
        cuts: list[Cut] = []
        due = np.zeros(len(assignment), dtype=np.int64)
        for i in range(len(self.instance.helpers)):
            members = np.flatnonzero(assignment == i)
            if not len(members):
                continue
            answer = in_time(self.instance, i, members, makespan)
            if isinstance(answer, Order):
                due[members] = answer.forward
            elif answer is False:
                if not learn:
                    return False, cuts
                cuts += cuts_for(self.instance, i, members, makespan, self.rng)
            else:
                certain = False
        if certain and not cuts:
            tail = self.instance.tail[assignment, np.arange(len(assignment))]
            plan = by_priority(self.instance, assignment, -due, tail - makespan)
            self._keep(plan, assigned(self.instance, assignment))
        return certain, cuts


def exact(instance: Instance, *, left: Left, rng: np.random.Generator) -> Iterator[Step]:
    """Improve bounds and plans of an instance until they meet or no time is left.

    Parameters
    ----------
    instance
        Clients, helpers, times in slots and memory in bytes.
    left
        Returns the seconds that are left.
    rng
        Source of all random choices.

    Yields
    ------
    Step
        The lower bound and the best plan so far. Bounds never fall and makespans never rise.

    Raises
    ------
    NoPlan
        If the clients cannot be divided among the helpers within memory, or no division was found in time.

    References
    ----------
    Parallel split learning, Section IV: the makespan problem (10) with constraints (1) to (9).

    Examples
    --------
    >>> import numpy as np
    >>> from scheduling.split_learning.document import read_split_learning
    >>> instance = read_split_learning({
    ...     "helpers": [{"memory_gb": 2}],
    ...     "clients": [{"demand_gb": 1}, {"demand_gb": 1}],
    ...     "release": [[1, 2]], "forward": [[2, 2]], "gap": [[1, 1]], "backward": [[3, 3]], "tail": [[1, 1]],
    ... })
    >>> *_, last = exact(instance, left=lambda: 5.0, rng=np.random.default_rng(0))
    >>> last.plan.makespan, last.lower_bound
    (12, 12)
    """
    yield from Exact(instance, left=left, rng=rng).steps()
