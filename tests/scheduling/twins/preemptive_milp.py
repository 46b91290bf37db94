"""The least total time of jobs if chunks never move: a MILP over whole slots, for tiny instances in whole numbers."""

from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array, lil_array


def optimum(document: dict[str, Any], horizon: int) -> float:
    """Sum of completion - arrival, at least; `horizon` is a slot by which some best schedule is complete.

    Chunks of a job are dealt to workers and the cloud; a worker does one thing in a slot. Preempting at whole slots
    is enough: given completions, whether a worker keeps them is a matter of whole numbers.
    """
    model = _Model(document, horizon)
    result = milp(
        model.cost,
        constraints=LinearConstraint(model.matrix(), model.low, model.high),
        integrality=model.integral,
        bounds=Bounds(np.zeros(len(model.cost)), model.top),
    )
    if result.status != 0:
        raise ArithmeticError(result.message)
    return float(result.fun) - sum(int(job["r"]) for job in document["jobs"])


class _Model:
    """Variables by name, rows one by one."""

    def __init__(self, document: dict[str, Any], horizon: int) -> None:
        self.document, self.horizon = document, horizon
        self.workers = [(s, kind) for s, row in enumerate(document["servers"]) for kind in row["workers"]]
        self.names: dict[tuple[Any, ...], int] = {}
        self.tops: list[float] = []
        self.rows: list[dict[int, float]] = []
        self.low: list[float] = []
        self.high: list[float] = []
        for j, job in enumerate(document["jobs"]):
            self._job(j, job)
        for w in range(len(self.workers)):
            for t in range(horizon):
                at = [index for name, index in self.names.items() if name[0] == "u" and name[2:] == (w, t)]
                if len(at) > 1:
                    self.add(dict.fromkeys(at, 1.0), high=1.0)
        self.cost = np.zeros(len(self.names))
        for j in range(len(document["jobs"])):
            self.cost[self.names["c", j]] = 1.0
        self.top = np.array(self.tops)
        self.integral = np.array([0 if name[0] == "c" else 1 for name in self.names])

    def variable(self, *name: Any, top: float = 1.0) -> int:
        self.names[name] = len(self.names)
        self.tops.append(top)
        return self.names[name]

    def add(self, row: dict[int, float], *, low: float = -np.inf, high: float = np.inf) -> None:
        self.rows.append(row)
        self.low.append(low)
        self.high.append(high)

    def matrix(self) -> csr_array:
        matrix = lil_array((len(self.rows), len(self.names)))
        for i, row in enumerate(self.rows):
            for index, value in row.items():
                matrix[i, index] = value
        return csr_array(matrix)

    def _job(self, j: int, job: dict[str, Any]) -> None:
        arrival, chunks, p0, p1 = (int(job[key]) for key in ("r", "D", "p0", "p1"))
        end = self.variable("c", j, top=self.horizon)
        placed: dict[int, float] = {}
        for w, (s, kind) in enumerate(self.workers):
            if kind != job.get("worker_type", 0):
                continue
            count = self.variable("x", j, w, top=chunks)
            placed[count] = 1.0
            work = {count: -float(p0)}
            for t in range(arrival + int(job["delta"][s]), self.horizon):
                slot = self.variable("u", j, w, t)
                work[slot] = 1.0
                self.add({end: 1.0, slot: -(t + 1.0)}, low=0.0)
            self.add(work, low=0.0, high=0.0)
        if self.document["cloud"]:
            ready = arrival + int(job["delta_cloud"])
            some, away, alone = (self.variable(name, j, top=top) for name, top in (("s", 1), ("a", chunks), ("z", 1)))
            placed |= {away: 1.0, alone: float(chunks)}
            self.add({away: 1.0, some: -float(chunks)}, high=0.0)
            self.add({end: 1.0, some: -float(ready + p0)}, low=0.0)
            self.add({end: 1.0, alone: -float(ready + p1)}, low=0.0)
        self.add(placed, low=float(chunks), high=float(chunks))
