"""The master problem of OASiS's offline problem: completions are binary, machines are divisible."""

from math import ceil

from scheduling.model.types import Floats
from scheduling.offline.elastic.machines import Cut, Machines
from scheduling.offline.program import Program
from scheduling.offline.reduced_cost_fixing import Filter
from scheduling.solvers.milp import Solution
from scheduling.solvers.time_limit import Left


class MasterProblem:
    """All completions of all jobs with divisible machines. Raises TooLarge above `most` columns.

    The optimum is a bound on every elastic schedule.

    Notes
    -----
    For run r of job i: y_rc binary, is it complete at slot c; n_rt, workers in slot t. The sum of n_rt before c is at
    least W_r sum_{c' <= c} y_rc' (OASiS, constraint 2), and n_rt <= N_r sum_{c > t} y_rc: nothing runs once it is
    complete. A completion whose value is no more than the next slot's is left out, since the later one allows more.
    """

    def __init__(self, machines: Machines, most: int, fixing: Filter | None) -> None:
        self._machines = machines
        self.program = Program(machines.problem, most, fixing)
        slots, runs = machines.problem.slots, machines.runs
        for i in range(len(machines.problem.bids)):
            self.program.open_job(i)
        self._ends = [
            {
                end: self.program.completion(run.job, end)
                for end in range(run.first + ceil(run.way.worker_slots / run.most), slots + 1)
                if self.program.loses_by_waiting(run.job, end) and self.program.may_complete(run.job, end)
            }
            for run in runs
        ]
        self._counts: list[dict[int, int]] = [{} for _ in runs]
        self._added: set[tuple[bytes, float, frozenset[int]]] = set()
        for t in range(slots):
            going = {r: [(y, 1.0) for end, y in ends.items() if end > t] for r, ends in enumerate(self._ends)}
            running = {r: terms for r, terms in going.items() if terms and runs[r].first <= t}
            columns = machines.add_slot(self.program.rows, self.program.column, t, running)
            for r, column in zip(running, columns, strict=True):
                self._counts[r][t] = column
        for run, ends, counts in zip(runs, self._ends, self._counts, strict=True):
            for end in ends:
                done = [(column, 1.0) for t, column in counts.items() if t < end]
                due = [(y, -float(run.way.worker_slots)) for at, y in ends.items() if at <= end]
                self.program.rows.row(done + due, low=0.0)
        self.program.close()

    def solve(self, left: Left) -> Solution:
        """Return the best completions that no cut excludes, or the best found in time."""
        return self.program.run(left)

    def only_better(self, known: float) -> None:
        """Exclude the completions that no schedule better than a known one has."""
        program = self.program
        program.only_better(known)
        for run, ends in zip(self._machines.runs, self._ends, strict=True):
            for end, y in ends.items():
                if not program.may_complete(run.job, end):
                    program.rows.row([(y, 1.0)], high=0.0)

    def chosen(self, values: Floats) -> dict[int, int]:
        """Return the runs of a solution with their completions."""
        return {r: end for r, ends in enumerate(self._ends) for end, y in ends.items() if values[y] > 0.5}

    def add(self, found: Cut) -> None:
        """Add a cut in its slots, unless it was added before."""
        key = found.weights.tobytes(), found.most, found.slots
        if key in self._added:
            return
        self._added.add(key)
        for t in found.slots:
            terms = [
                (counts[t], float(weight))
                for counts, weight in zip(self._counts, found.weights, strict=True)
                if weight and t in counts
            ]
            if terms:
                self.program.rows.row(terms, high=found.most)

    def forbid(self, ends: dict[int, int]) -> None:
        """Add the cut that not all these jobs are complete by these slots."""
        terms = [
            (y, 1.0)
            for run, columns in zip(self._machines.runs, self._ends, strict=True)
            for end, y in columns.items()
            if run.job in ends and end <= ends[run.job]
        ]
        self.program.rows.row(terms, high=len(ends) - 1.0)
