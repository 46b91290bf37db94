"""The most that whole machines of elastic jobs come to side by side in one slot."""

from collections import defaultdict

import numpy as np

from scheduling.arrays import Floats
from scheduling.offline.elastic_machines import Machines
from scheduling.rows import Rows

SLACK = 1e-6
"""Of the solver's word."""
NEAR = 1e-4
"""Of the most: near enough."""


def most_side_by_side(machines: Machines, weights: Floats, seconds: float) -> float | None:
    """A number that the sum of weight x workers of all runs exceeds in no slot; None: the time was not enough.

    Parameters
    ----------
    weights
        Of a worker of each run, none negative.

    Notes
    -----
    Whole workers and PSs on each server, with the most that is free of it in any slot, and every job's data there.
    """
    rows = Rows()
    question = machines.question
    free = question.free().max(axis=0)
    held: dict[tuple[int, int], list[tuple[int, float]]] = defaultdict(list)
    for r in np.flatnonzero(weights > 0.0).tolist():
        run = machines.runs[r]
        count = rows.column(0.0, float(run.most), cost=-float(weights[r]))
        ratio = run.way.worker.bandwidth_mbps / run.way.ps.bandwidth_mbps
        sides = []
        for machine, room in zip((run.way.worker, run.way.ps), machines.rooms(run), strict=True):
            hosts = np.flatnonzero(room).tolist()
            columns = {s: rows.column(0.0, float(min(room[s], run.way.pss(run.most) + run.most))) for s in hosts}
            sides.append([(column, 1.0) for column in columns.values()])
            for s, column in columns.items():
                for resource, units in enumerate(machine.demand):
                    if units:
                        held[s, resource].append((column, float(units)))
        workers, pss = sides
        rows.row([*workers, (count, -1.0)], low=0.0)
        enough = [(column, float(ratio.denominator)) for column, _ in pss]
        rows.row([*enough, (count, -float(ratio.numerator))], low=0.0)
    for (s, resource), terms in held.items():
        rows.row(terms, high=float(free[s, resource]))
    solution = rows.solve(seconds, gap=NEAR)
    most = -solution.bound
    return most + SLACK * abs(most) if np.isfinite(most) else None
