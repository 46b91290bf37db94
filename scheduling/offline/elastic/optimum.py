"""The optimum of elastic jobs: choose completions first, then check that machines can be placed."""

import numpy as np

from scheduling.offline.elastic.feasibility import check_feasible
from scheduling.offline.elastic.machines import Cut, Machines
from scheduling.offline.elastic.master import MasterProblem
from scheduling.offline.elastic.slots import Slots
from scheduling.offline.program import Solved
from scheduling.offline.question import Question
from scheduling.offline.reduced_cost_fixing import Filter
from scheduling.solvers.time_limit import Left, within

NEAR = 1e-9
"""Of what is compared."""
CHOICES = 100
"""Of completions that are tried."""
HALF = 0.5
QUICK_S = 2.0
"""For one of many questions that only help."""
REPAIR_S = 10.0
"""For a schedule that would be better than the best known: one more round takes as long."""


def elastic_optimum(question: Question, most: int, fixing: Filter | None, left: Left) -> Solved:
    """The optimum, or the best bound there is time for; raises TooLarge if the master has more than `most` columns.

    Notes
    -----
    The master problem (`master`) chooses completions as if machines were divisible. If whole machines can have these
    completions (`feasibility`), no schedule is better. If not, the master is solved again with more cuts:

    - if shares of patterns are infeasible, the cuts of their dual prices, which hold for every choice;
    - else the cut that some of these jobs, as few as possible, are not all complete by these slots.
    """
    return _Search(question, most, fixing, left).run()


class _Search:
    def __init__(self, question: Question, most: int, fixing: Filter | None, left: Left) -> None:
        self._question, self._left = question, left
        self._machines = Machines(question)
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
        """Those of which that was not found out, in so many seconds."""

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
                worth = program.total(solution.values)
                return program.better(worth, worth, optimal=True)
            self._repair(jobs)
            if verdict is None:
                break
            self._add_cuts(jobs)
        return program.better(bound, self._found, optimal=False)

    def _is_known(self, worth: float) -> bool:
        return worth <= self._best + NEAR * abs(self._best)

    def _can_be(self, jobs: dict[int, int], seconds: float) -> bool | None:
        """Whether whole machines can have these jobs complete by these slots; None: not found out in time."""
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
                self._keep(self._master.program.worth_of(late))
        return False

    def _later(self, jobs: dict[int, int], share: float) -> dict[int, int]:
        """The same jobs, as late as this share of what they are worth beyond the best known pays for."""
        worth_of = self._master.program.worth_of
        worth = worth_of(jobs)
        beyond = worth - self._best if np.isfinite(self._best) else 0.0
        while True:
            others = [{**jobs, i: end + 1} for i, end in jobs.items() if end < self._question.slots]
            best = max(others, key=worth_of, default=None)
            if best is None or worth_of(best) < worth - share * beyond:
                return jobs
            jobs = best

    def _keep(self, worth: float) -> None:
        """A schedule was found, better than the best known."""
        self._best = self._found = worth
        self._master.only_better(worth)

    def _repair(self, jobs: dict[int, int]) -> None:
        """A schedule without one of the jobs, or with it a slot later: the first that can be is kept."""
        program = self._master.program
        others = [{i: end for i, end in jobs.items() if i != out} for out in jobs] if self._question.most else []
        others += [{**jobs, late: jobs[late] + 1} for late in jobs if jobs[late] < self._question.slots]
        for other in sorted(others, key=program.worth_of, reverse=True):
            worth = program.worth_of(other)
            if worth <= self._best or self._left() <= 0.0:
                break
            if self._can_be(other, min(REPAIR_S, self._left())):
                self._keep(worth)
                break

    def _fewest(self, jobs: dict[int, int]) -> dict[int, int]:
        """As few of these jobs, as late, as still cannot all be complete in time."""
        for i in sorted(jobs, key=jobs.__getitem__, reverse=True):
            fewer = {j: end for j, end in jobs.items() if j != i}
            if self._cannot_be(fewer):
                jobs = fewer
        for i in jobs:
            # The latest slot at which they still cannot: known at `low`, not at `high`.
            low, high = jobs[i], self._question.slots + 1
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
