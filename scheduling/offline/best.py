"""The interface: find the best bound for a problem within a time budget."""

from dataclasses import replace

from scheduling.model.errors import InvalidField
from scheduling.offline.duality import Proof, lagrangian
from scheduling.offline.elastic.milp import elastic_program
from scheduling.offline.elastic.optimum import elastic_optimum
from scheduling.offline.greedy import greedy
from scheduling.offline.problem import Answer, Covers, Kind, OfflineProblem
from scheduling.offline.program import Program, Solved, TooLarge
from scheduling.offline.queued_program import queued_optimum
from scheduling.offline.reduced_cost_fixing import ReducedCostFixing
from scheduling.offline.rigid_program import rigid_program
from scheduling.offline.rounding_cuts import ResourcesAndCuts
from scheduling.preemptive.bounds import NotSolved, least
from scheduling.preemptive.bounds import TooLarge as TooManySteps
from scheduling.solvers.time_limit import Left

COLUMNS = 8_000
"""Largest number of columns of an integer program; larger programs take too long."""
LP_COLUMNS = 60_000
"""Largest number of columns of a linear relaxation."""
UNKNOWNS = 200_000
"""Largest number of unknowns of the linear program of jobs in queues."""
STEPS = (8.0, 4.0, 2.0, 1.0, 0.5)
"""Slots: of that program, coarse first."""
SLACK = 1e-6
"""Relative slack of a bound that a solver reports, because of its tolerances."""


def best_bound(problem: OfflineProblem, left: Left) -> Answer:
    """Compute the best bound that can be proved in the time that is left; at least one of weak duality at price 0.

    Parameters
    ----------
    problem
        Jobs, servers, slots, objective, and which schedules the bound has to hold for.
    left
        Seconds that are left. An integer program may take all of them; divided jobs take seconds.

    Raises
    ------
    InvalidField
        If a job has to be complete by the end and cannot be, even alone; or has nowhere to run.

    Notes
    -----
    Prices of divided jobs first. Then, for RIGID and ELASTIC, a greedy schedule for an incumbent, and the integer
    program if it is small enough, else its linear relaxation if that is. For QUEUED the linear program of
    `preemptive.bounds`, then the integer program where chunks take whole slots.
    """
    if problem.covers is Covers.QUEUED:
        return _queued(problem, left)
    proof = lagrangian(problem, left)
    if problem.covers is Covers.ANY or left() <= 0.0:
        return proof.answer
    return _exact(problem, proof, left)


def _exact(problem: OfflineProblem, proof: Proof, left: Left) -> Answer:
    answer = proof.answer
    found = greedy(problem, ResourcesAndCuts(problem.inventory).plain(proof.prices), left) if problem.most else None
    answer = _with(problem, answer, Solved(None, found, optimal=False), Kind.MILP_BOUND)
    if problem.covers is Covers.ELASTIC:
        answer = _in_master(problem, proof, answer, left)
    if answer.kind is Kind.MILP_OPTIMAL:
        return answer
    for most, whole in ((COLUMNS, True), (LP_COLUMNS, False)):
        if left() <= 0.0:
            break
        fixing = _fixing(problem, proof, answer)
        try:
            program = _program(problem, most, fixing)
        except TooLarge:
            continue
        solved = program.solve(left) if whole else program.relax(left)
        kind = Kind.COMPACT_LP if not whole else Kind.MILP_OPTIMAL if solved.optimal else Kind.MILP_BOUND
        return _with(problem, answer, solved, kind)
    return answer


def _in_master(problem: OfflineProblem, proof: Proof, answer: Answer, left: Left) -> Answer:
    try:
        solved = elastic_optimum(problem, COLUMNS, _fixing(problem, proof, answer), left)
    except TooLarge:
        return answer
    return _with(problem, answer, solved, Kind.MILP_OPTIMAL if solved.optimal else Kind.MILP_BOUND)


def _fixing(problem: OfflineProblem, proof: Proof, answer: Answer) -> ReducedCostFixing | None:
    return None if answer.incumbent is None else ReducedCostFixing(problem, proof, answer.incumbent)


def _program(problem: OfflineProblem, most: int, fixing: ReducedCostFixing | None) -> Program:
    if problem.covers is Covers.ELASTIC:
        return elastic_program(problem, most, fixing)
    return rigid_program(problem, most, fixing)


def _queued(problem: OfflineProblem, left: Left) -> Answer:
    """Solve with coarse steps first: finer steps give a better bound and take longer."""
    answer = Answer(Kind.ALONE, Covers.QUEUED, 0.0, problem.known)
    if not problem.bids:
        return answer
    for step in STEPS:
        try:
            total = least(problem.bids, problem.inventory, step=step, most=UNKNOWNS, seconds=max(0.1, left() / 4)).jct
        except (TooManySteps, NotSolved):
            break
        answer = _with(problem, answer, Solved(total, None, optimal=False), Kind.COMPACT_LP)
    if left() <= 0.0:
        return answer
    try:
        solved = queued_optimum(problem, COLUMNS, left)
    except (TooLarge, InvalidField):
        return answer
    if solved.optimal and solved.bound is not None and solved.bound < answer.bound:
        return answer  # with an open end, jobs that are late take nothing there; the linear program counts all slots
    return _with(problem, answer, solved, Kind.MILP_OPTIMAL if solved.optimal else Kind.MILP_BOUND)


def _with(problem: OfflineProblem, answer: Answer, solved: Solved, kind: Kind) -> Answer:
    """Combine two answers: the better bound and the better schedule."""
    sign = 1.0 if problem.most else -1.0
    known = [sign * value for value in (answer.incumbent, solved.incumbent) if value is not None]
    answer = replace(answer, incumbent=sign * max(known) if known else None)
    if solved.bound is None:
        return answer
    if solved.optimal:
        return replace(answer, kind=kind, bound=solved.bound)
    bound = sign * solved.bound
    bound += SLACK * abs(bound)
    if bound >= sign * answer.bound:
        return answer
    return replace(answer, kind=kind, bound=sign * bound)
