"""OASiS's offline problem as a compact integer program: completions are binary, work is cumulative."""

from collections.abc import Iterator
from math import ceil

import numpy as np

from scheduling.best_response.elastic.type_pairs import TypePair, type_pairs
from scheduling.model.bid import Bid
from scheduling.model.types import Ints
from scheduling.offline.problem import OfflineProblem
from scheduling.offline.program import Cells, Program
from scheduling.offline.reduced_cost_fixing import Filter
from scheduling.preemptive.workers import machines
from scheduling.solvers.milp import same_ceilings


def elastic_program(problem: OfflineProblem, most: int, fixing: Filter | None = None) -> Program:
    """Every elastic schedule of every job; raises TooLarge above `most` columns.

    Notes
    -----
    For job i with types k: y_ic, is it complete at slot c; workers and PSs on each server in each slot, whole
    numbers. With W_ik worker-slots to do (2), at most N_i workers (3), PSs for their bandwidth (6, 7):
    sum of workers before c >= W_ik sum_{c' <= c} y_ic' for every c, which is tighter than one row for all of the work;
    workers in slot t <= N_i sum_{c > t} y_ic: nothing runs once the job is complete.

    References
    ----------
    OASiS, problem (1)-(13).
    """
    program = Program(problem, most, fixing)
    cells = Cells(program)
    for i, bid in enumerate(problem.bids):
        program.open_job(i)
        for way in type_pairs(bid, problem.inventory, slots=problem.slots):
            _add_way(program, cells, bid, i, way)
    cells.close()
    return program


def _add_way(program: Program, cells: Cells, bid: Bid, i: int, way: TypePair) -> None:
    problem, rows = program.problem, program.rows
    inventory = problem.inventory
    worker_room = machines(inventory.capacity, inventory.worker_demand[[way.worker_type]])[:, 0]
    ps_room = machines(inventory.capacity, inventory.ps_demand[[way.ps_type]])[:, 0]
    ready = bid.arrival + np.array(bid.delay) - problem.start
    ratio = way.worker.bandwidth_mbps / way.ps.bandwidth_mbps
    done: dict[int, list[int]] = {}
    sides = [(_open(worker_room, ready, t), _open(ps_room, ready, t)) for t in range(problem.slots)]
    total = np.cumsum(
        [
            min(bid.chunks, int(worker_room[there].sum()), int(int(ps_room[beside].sum()) / ratio))
            for there, beside in sides
        ]
    )
    able = np.flatnonzero(total >= way.worker_slots).tolist()
    ends = [(t + 1, program.completion(i, t + 1)) for t in able if program.may_complete(i, t + 1)]
    enough = same_ceilings(ratio, bid.chunks)
    for t in range(max((end for end, _ in ends), default=0)):
        there, beside = sides[t]
        if not there or not beside:
            continue
        workers = list(_machines(program, there, worker_room, bid.chunks))
        pss = list(_machines(program, beside, ps_room, ceil(bid.chunks * ratio)))
        done[t] = [column for _, column in workers]
        rows.row(
            [(column, float(-enough.numerator)) for _, column in workers]
            + [(column, float(enough.denominator)) for _, column in pss],
            low=0.0,
        )
        for demand, columns in ((way.worker.demand, workers), (way.ps.demand, pss)):
            for s, column in columns:
                cells.hold(column, s, demand, t, t + 1)
    for t, running in done.items():
        after = [(y, -float(bid.chunks)) for end, y in ends if end > t]
        rows.row([(column, 1.0) for column in running] + after, high=0.0)
    for n, (end, _) in enumerate(ends):
        before = [(column, 1.0) for t, running in done.items() if t < end for column in running]
        rows.row(before + [(y, -float(way.worker_slots)) for _, y in ends[: n + 1]], low=0.0)


def _open(room: Ints, ready: Ints, t: int) -> list[int]:
    """Servers with room that can be used in a slot."""
    return np.flatnonzero((room > 0) & (ready <= t)).tolist()


def _machines(program: Program, servers: list[int], room: Ints, most: int) -> Iterator[tuple[int, int]]:
    """A column for the machines on each server."""
    for s in servers:
        yield s, program.column(0.0, float(min(room[s], most)))
