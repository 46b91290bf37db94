"""The optimum of elastic jobs: choose completions first, then check that machines can be placed."""

import numpy as np

from scheduling.offline.elastic.feasibility import check_feasible
from scheduling.offline.elastic.machines import Cut, Machines
from scheduling.offline.elastic.master import MasterProblem
from scheduling.offline.elastic.slots import Slots
from scheduling.offline.problem import OfflineProblem
from scheduling.offline.program import Solved
from scheduling.offline.reduced_cost_fixing import Filter
from scheduling.solvers.time_limit import Left, within

NEAR = 1e-9
"""Relative tolerance of comparisons."""
CHOICES = 100
"""Largest number of sets of completions that are tried."""
HALF = 0.5
QUICK_S = 2.0
"""Seconds for one of many checks that only speed up the search."""
REPAIR_S = 10.0
"""Seconds for a search for a better schedule than the best known; one more round takes as long."""


def elastic_optimum(problem: OfflineProblem, most: int, fixing: Filter | None, left: Left) -> Solved:
    """Return the optimum, or the best bound within the time; raises TooLarge above `most` columns of the master.

    Notes
    -----
    The master problem (`master`) chooses completions as if machines were divisible. If whole machines can have these
    completions (`feasibility`), no schedule is better. If not, the master is solved again with more cuts:

    - if shares of patterns are infeasible, the cuts of their dual prices, which hold for every choice;
    - else the cut that some of these jobs, as few as possible, are not all complete by these slots.
    """
    return _Search(problem, most, fixing, left).run()


class _Search:
    def __init__(self, problem: OfflineProblem, most: int, fixing: Filter | None, left: Left) -> None:
        self._problem, self._left = problem, left
        self._machines = Machines(problem)
        self._master = MasterProblem(self._machines, most, fixing)
        self._slots = Slots(self._machines)
        self._cuts: list[Cut] = []
        """Cuts that the master problem does not have yet."""
        self._ruled_out: set[frozenset[tuple[int, int]]] = set()
        """Jobs with completions that cuts exclude."""
        self._best = -np.inf if fixing is None else fixing.incumbent
        self._found: float | None = None
        self._kept: list[dict[int, int]] = []
        self._missed: list[dict[int, int]] = []
        """Jobs, with slots by which they can all be complete, or cannot."""
        self._open: dict[frozenset[tuple[int, int]], float] = {}
        """Sets of completions that were not decided, with the seconds that were spent."""

    def run(self) -> Solved:
        """Choose until a choice can be kept."""
        program = self._master.program
        if not program.rows.columns:
            return program.better(0.0, 0.0, optimal=True)
        bound = np.inf
        for _ in range(CHOICES):
            if self._left() <= 0.0:
                break
            solution = self._master.solve(self._left)
            bound = min(bound, -solution.bound)
            if not solution.optimal:
                break
            if solution.values is None or self._is_known(program.total(solution.values)):
                # Nothing is left that is better than what is known.
                return program.better(self._best, self._found, optimal=True)
            jobs = {self._machines.runs[r].job: end for r, end in self._master.chosen(solution.values).items()}
            if self._missed_later(jobs):
                continue
            verdict = self._can_be(jobs, self._left())
            if verdict:
                value = program.total(solution.values)
                return program.better(value, value, optimal=True)
            self._repair(jobs)
            if verdict is None:
                break
            self._add_cuts(jobs)
        return program.better(bound, self._found, optimal=False)

    def _is_known(self, value: float) -> bool:
        return value <= self._best + NEAR * abs(self._best)

    def _can_be(self, jobs: dict[int, int], seconds: float) -> bool | None:
        """Return whether whole machines can complete these jobs by these slots; None if undecided in time."""
        if any(_asks_no_more(jobs, kept) for kept in self._kept):
            return True
        if any(_asks_no_more(missed, jobs) for missed in self._missed):
            return False
        same = frozenset(jobs.items())
        if seconds <= self._open.get(same, 0.0):
            return None
        found = self._ask(jobs, seconds)
        if found is None:
            self._open[same] = seconds
        else:
            (self._kept if found else self._missed).append(jobs)
        return found

    def _ask(self, jobs: dict[int, int], seconds: float) -> bool | None:
        kept = check_feasible(self._slots, jobs, within(seconds, self._left))
        self._cuts += kept.cuts
        if kept.cuts:
            self._ruled_out.add(frozenset(jobs.items()))
        return kept.verdict

    def _add_cuts(self, jobs: dict[int, int]) -> None:
        """Add the cut that these jobs cannot all be complete in time, and all other cuts found so far."""
        same = frozenset(jobs.items())
        if same not in self._ruled_out:
            self._master.forbid(self._fewest(jobs))
        # If they are chosen again, the cuts are weaker than the solver's tolerance.
        self._ruled_out.discard(same)
        for rule in self._cuts:
            self._master.add(rule)
        self._cuts = []

    def _missed_later(self, jobs: dict[int, int]) -> bool:
        """Return whether the jobs cannot be complete even somewhat later; if so, the master gets the cuts.

        If they can, that is the new incumbent, and sooner completions are tried: each time half of the difference.
        """
        share = HALF
        while share < 1.0 and self._left() > 0.0:
            late = self._later(jobs, share)
            if late == jobs:
                break
            verdict = self._can_be(late, min(REPAIR_S, self._left()))
            if verdict is False:
                self._repair(late)
                self._add_cuts(late)
                return True
            if verdict is None:
                # Later completions are easier to decide.
                share += HALF * HALF
            else:
                self._keep(self._master.program.value_of(late))
        return False

    def _later(self, jobs: dict[int, int], share: float) -> dict[int, int]:
        """The same jobs, as late as this share of the value beyond the best known schedule allows."""
        value_of = self._master.program.value_of
        value = value_of(jobs)
        beyond = value - self._best if np.isfinite(self._best) else 0.0
        while True:
            others = [{**jobs, i: end + 1} for i, end in jobs.items() if end < self._problem.slots]
            best = max(others, key=value_of, default=None)
            if best is None or value_of(best) < value - share * beyond:
                return jobs
            jobs = best

    def _keep(self, value: float) -> None:
        """A schedule was found, better than the best known."""
        self._best = self._found = value
        self._master.only_better(value)

    def _repair(self, jobs: dict[int, int]) -> None:
        """A schedule without one of the jobs, or with it a slot later: the first that can be is kept."""
        program = self._master.program
        others = [{i: end for i, end in jobs.items() if i != out} for out in jobs] if self._problem.most else []
        others += [{**jobs, late: jobs[late] + 1} for late in jobs if jobs[late] < self._problem.slots]
        for other in sorted(others, key=program.value_of, reverse=True):
            value = program.value_of(other)
            if value <= self._best or self._left() <= 0.0:
                break
            if self._can_be(other, min(REPAIR_S, self._left())):
                self._keep(value)
                break

    def _fewest(self, jobs: dict[int, int]) -> dict[int, int]:
        """Return a minimal set of these completions, each as late as possible, that is infeasible."""
        for i in sorted(jobs, key=jobs.__getitem__, reverse=True):
            fewer = {j: end for j, end in jobs.items() if j != i}
            if self._cannot_be(fewer):
                jobs = fewer
        for i in jobs:
            # The latest slot at which they still cannot: known at `low`, not at `high`.
            low, high = jobs[i], self._problem.slots + 1
            middle = high - 1
            while low < middle:
                if self._cannot_be({**jobs, i: middle}):
                    low = middle
                else:
                    high = middle
                middle = (low + high) // 2
            jobs = {**jobs, i: low}
        return jobs

    def _cannot_be(self, jobs: dict[int, int]) -> bool:
        return self._can_be(jobs, min(QUICK_S, self._left())) is False


def _asks_no_more(jobs: dict[int, int], others: dict[int, int]) -> bool:
    """Whether the others are these jobs or more of them, complete no later."""
    return all(i in others and others[i] <= end for i, end in jobs.items())
