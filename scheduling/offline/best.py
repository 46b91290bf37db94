"""The interface: find the best bound for a question within a time budget."""

from dataclasses import replace

from scheduling.model.errors import InvalidField
from scheduling.offline.duality import Proof, lagrangian
from scheduling.offline.elastic.milp import elastic_program
from scheduling.offline.elastic.optimum import elastic_optimum
from scheduling.offline.greedy import greedy
from scheduling.offline.program import Program, Solved, TooLarge
from scheduling.offline.question import Answer, Covers, Kind, Question
from scheduling.offline.queued_program import queued_optimum
from scheduling.offline.reduced_cost_fixing import ReducedCostFixing
from scheduling.offline.rigid_program import rigid_program
from scheduling.offline.rounding_cuts import ResourcesAndCuts
from scheduling.preemptive.bounds import NotSolved, least
from scheduling.preemptive.bounds import TooLarge as TooManySteps
from scheduling.solvers.time_limit import Left

COLUMNS = 8_000
"""Of an integer program: more than that are not worth the time."""
LP_COLUMNS = 60_000
"""Of its linear relaxation."""
UNKNOWNS = 200_000
"""Of the linear program of jobs in queues."""
STEPS = (8.0, 4.0, 2.0, 1.0, 0.5)
"""Slots: of that program, coarse first."""
SLACK = 1e-6
"""Of a bound that is the solver's word: its tolerances."""


def best_bound(question: Question, left: Left) -> Answer:
    """Compute the best bound that can be proved in the time that is left; at least one of weak duality at price 0.

    Parameters
    ----------
    question
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
    if question.covers is Covers.QUEUED:
        return _queued(question, left)
    proof = lagrangian(question, left)
    if question.covers is Covers.ANY or left() <= 0.0:
        return proof.answer
    return _exact(question, proof, left)


def _exact(question: Question, proof: Proof, left: Left) -> Answer:
    answer = proof.answer
    found = greedy(question, ResourcesAndCuts(question.inventory).plain(proof.prices), left) if question.most else None
    answer = _with(question, answer, Solved(None, found, optimal=False), Kind.MILP_BOUND)
    if question.covers is Covers.ELASTIC:
        answer = _in_master(question, proof, answer, left)
    if answer.kind is Kind.MILP_OPTIMAL:
        return answer
    for most, whole in ((COLUMNS, True), (LP_COLUMNS, False)):
        if left() <= 0.0:
            break
        fixing = _fixing(question, proof, answer)
        try:
            program = _program(question, most, fixing)
        except TooLarge:
            continue
        solved = program.solve(left) if whole else program.relax(left)
        kind = Kind.COMPACT_LP if not whole else Kind.MILP_OPTIMAL if solved.optimal else Kind.MILP_BOUND
        return _with(question, answer, solved, kind)
    return answer


def _in_master(question: Question, proof: Proof, answer: Answer, left: Left) -> Answer:
    try:
        solved = elastic_optimum(question, COLUMNS, _fixing(question, proof, answer), left)
    except TooLarge:
        return answer
    return _with(question, answer, solved, Kind.MILP_OPTIMAL if solved.optimal else Kind.MILP_BOUND)


def _fixing(question: Question, proof: Proof, answer: Answer) -> ReducedCostFixing | None:
    return None if answer.incumbent is None else ReducedCostFixing(question, proof, answer.incumbent)


def _program(question: Question, most: int, fixing: ReducedCostFixing | None) -> Program:
    if question.covers is Covers.ELASTIC:
        return elastic_program(question, most, fixing)
    return rigid_program(question, most, fixing)


def _queued(question: Question, left: Left) -> Answer:
    """Solve with coarse steps first: finer steps give a better bound and take longer."""
    answer = Answer(Kind.ALONE, Covers.QUEUED, 0.0, question.known)
    if not question.bids:
        return answer
    for step in STEPS:
        try:
            total = least(question.bids, question.inventory, step=step, most=UNKNOWNS, seconds=max(0.1, left() / 4)).jct
        except (TooManySteps, NotSolved):
            break
        answer = _with(question, answer, Solved(total, None, optimal=False), Kind.COMPACT_LP)
    if left() <= 0.0:
        return answer
    try:
        solved = queued_optimum(question, COLUMNS, left)
    except (TooLarge, InvalidField):
        return answer
    return _with(question, answer, solved, Kind.MILP_OPTIMAL if solved.optimal else Kind.MILP_BOUND)


def _with(question: Question, answer: Answer, solved: Solved, kind: Kind) -> Answer:
    """Combine two answers: the better bound and the better schedule."""
    sign = 1.0 if question.most else -1.0
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
