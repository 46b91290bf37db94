"""The next steps of a job, as a pure function."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execution.dead_processes import LONGEST_WAIT_S
from execution.engines.base import Phase
from execution.models import Ending, GenerationState
from execution.steps import (
    HOLD_S,
    LEAST_RUN_S,
    PATIENCE_S,
    Allocation,
    Begin,
    End,
    Hold,
    Job,
    Kill,
    Launch,
    Live,
    Machines,
    Observed,
    Step,
    Stop,
    Wanted,
    ending_of,
    fits,
    merged,
    next_steps,
    steps_of,
)

HELD = (Machines("worker", 1, 1, 1),)
OTHER = (Machines("worker", 2, 1, 1),)
NOW, GRACE_S, UNTIL = 1_800_000_000.0, 10.0, 1_800_000_100.0
RUNS = Observed("one", "worker", Phase.RUNNING)
WELL, FAILED = (replace(RUNS, phase=Phase.EXITED, code=code) for code in (0, 7))
LOST, NEW = (replace(RUNS, phase=phase) for phase in (Phase.LOST, None))
PS_WELL, PS_FAILED = (replace(one, key="ps", role="ps") for one in (WELL, FAILED))
WANTED = Wanted(HELD, UNTIL, last=True)
LIVE = Live(HELD, GenerationState.RUNNING, UNTIL, (RUNS,))


def steps(job: Job, *, now: float = NOW) -> list[Step]:
    return steps_of(job, now=now, grace_s=GRACE_S)


@pytest.mark.parametrize(
    ("until", "expected"),
    [
        (UNTIL + HOLD_S / 2, []),
        (UNTIL - HOLD_S / 2, []),
        (UNTIL + 0.2, [Hold(UNTIL + 0.2)]),
        (UNTIL - 0.2, [Hold(UNTIL - 0.2)]),
        (float("inf"), [Hold(float("inf"))]),
    ],
)
def test_a_new_end_of_what_is_held_is_passed_on_unless_only_its_rounding_is_new(
    until: float, expected: list[Step]
) -> None:
    assert steps(Job(1, Wanted(HELD, until, last=True), LIVE)) == expected


@pytest.mark.parametrize(
    ("fields", "begins"),
    [
        ({}, True),
        ({"over": True}, False),
        ({"wanted": None}, False),
        ({"wait_until": NOW + 1e-3}, False),
        ({"wait_until": NOW}, True),
        ({"wait_until": NOW + LONGEST_WAIT_S}, False),
        ({"wait_until": NOW + 3_600.0}, True),  # the clock was an hour ahead when it was written
        ({"wanted": replace(WANTED, until=NOW + GRACE_S + LEAST_RUN_S)}, False),
        ({"wanted": replace(WANTED, until=NOW + GRACE_S + LEAST_RUN_S + 1e-3)}, True),
    ],
)
def test_a_generation_begins_if_a_job_may_run_for_long_enough(fields: dict[str, Any], begins: bool) -> None:
    job = replace(Job(1, WANTED), **fields)
    assert steps(job) == ([Begin(job.wanted)] if begins and job.wanted else [])


LATE = UNTIL - GRACE_S


@pytest.mark.parametrize(
    ("processes", "fields", "now", "expected"),
    [
        ((RUNS,), {}, NOW, None),
        ((WELL, RUNS), {}, NOW, None),
        ((WELL, WELL), {"wanted": None, "cancelled": True}, NOW, Ending.FINISHED),
        ((WELL, replace(RUNS, role="ps")), {}, NOW, Ending.FINISHED),
        ((replace(RUNS, code=0),), {}, NOW, None),
        ((RUNS,), {"over": True}, NOW, Ending.CANCELLED),
        ((RUNS,), {"cancelled": True, "switched_off": True}, NOW, Ending.CANCELLED),
        ((RUNS,), {"switched_off": True, "wanted": None}, NOW, Ending.SWITCHED_OFF),
        ((RUNS,), {"wanted": None}, NOW, Ending.PROMISE_OVER),
        ((RUNS,), {"wanted": replace(WANTED, allocation=OTHER)}, NOW, Ending.CHANGED),
        ((RUNS, FAILED), {}, NOW, Ending.FAULT),
        ((RUNS, LOST), {}, NOW, Ending.LOST),
        ((RUNS, FAILED, LOST), {}, NOW, Ending.LOST),
        ((RUNS, PS_WELL), {}, NOW, None),
        ((RUNS, PS_WELL, PS_FAILED), {}, NOW, Ending.FAULT),
        ((RUNS, FAILED), {}, LATE - 1e-3, Ending.FAULT),
        ((RUNS, FAILED), {}, LATE, Ending.PROMISE_OVER),
        ((RUNS, FAILED), {"wanted": replace(WANTED, last=False)}, LATE, Ending.CHANGED),
        ((RUNS,), {}, LATE, None),
    ],
)
def test_a_generation_ends_for_the_first_reason(
    processes: tuple[Observed, ...], fields: dict[str, Any], now: float, expected: Ending | None
) -> None:
    live = replace(LIVE, processes=processes)
    job = replace(Job(1, WANTED, live), **fields)
    assert ending_of(job, live, now=now, grace_s=GRACE_S) == expected
    if expected is not None:
        assert steps(job, now=now) == [Stop(expected)]


def test_processes_that_the_engine_does_not_know_are_launched_and_ends_are_passed_on() -> None:
    processes = (RUNS, replace(NEW, key="two"), replace(WELL, key="three"), replace(NEW, key="four"))
    job = Job(1, replace(WANTED, until=UNTIL + 9), replace(LIVE, processes=processes))
    assert steps(job) == [Launch(("two", "four")), Hold(UNTIL + 9)]


@pytest.mark.parametrize(
    ("processes", "since", "expected"),
    [
        ((RUNS, WELL), 0.0, Stop(Ending.CHANGED)),
        ((RUNS, NEW), GRACE_S + PATIENCE_S, Stop(Ending.CHANGED)),
        ((RUNS, NEW), GRACE_S + PATIENCE_S + 1e-3, Kill()),
        ((WELL, FAILED, LOST), 0.0, End()),
        ((WELL, NEW), 0.0, End()),
    ],
)
def test_what_is_to_stop_is_killed_in_the_end_and_has_ended_when_nothing_is_left(
    processes: tuple[Observed, ...], since: float, expected: Step
) -> None:
    live = replace(
        LIVE, state=GenerationState.STOPPING, processes=processes, ending=Ending.CHANGED, stopped=NOW - since
    )
    assert steps(Job(1, WANTED, live)) == [expected]
    assert steps(Job(1, None, live, over=True)) == [expected]


SERVERS, TYPES = (1, 2), (1, 2)
DEMANDS = {("worker", 1): (1, 2), ("worker", 2): (3, 1), ("ps", 1): (1, 0)}
"""Machines of the type 2 of parameter servers are not in the inventory, and take nothing."""
allocations = st.lists(
    st.builds(
        Machines, st.sampled_from(("worker", "ps")), st.sampled_from((*SERVERS, 3)), st.sampled_from(TYPES),
        st.integers(1, 3),
    ),
    min_size=1, max_size=3,
).map(merged)  # fmt: skip


def used(of: list[Allocation], server: int, resource: int) -> int:
    rows = [one for allocation in of for one in allocation if one.server == server]
    return sum(one.number * DEMANDS.get((one.role, one.type), (0, 0))[resource] for one in rows)


@given(
    st.lists(st.tuples(allocations, st.booleans()), max_size=6),
    st.lists(allocations, max_size=2),
    st.tuples(*[st.integers(0, 9)] * 4),
)
def test_jobs_begin_in_order_where_machines_are_free(
    drawn: list[tuple[Allocation, bool]], taken: list[Allocation], units: tuple[int, ...]
) -> None:
    """A job that does not fit leaves its room to later ones; servers that are gone have none."""
    capacity = {server: units[2 * i : 2 * i + 2] for i, server in enumerate(SERVERS)}
    jobs = []
    for name, (allocation, runs) in enumerate(drawn):
        live = replace(LIVE, allocation=allocation) if runs else None
        jobs.append(Job(name, Wanted(allocation, UNTIL, last=True), live))
    found = next_steps(jobs, now=NOW, grace_s=GRACE_S, capacity=capacity, demands=DEMANDS, taken=taken)
    there = taken + [allocation for allocation, runs in drawn if runs]
    expected = {}
    for job in jobs:
        if job.live is None and job.wanted is not None:
            mine = job.wanted.allocation
            with_it = [*there, mine]
            places = {one.server for one in mine}
            if places <= set(SERVERS) and all(
                used(with_it, server, resource) <= capacity[server][resource]
                for server in places
                for resource in (0, 1)
            ):
                there, expected[job.name] = with_it, [Begin(job.wanted)]
    assert found == expected
    free = {server: list(units) for server, units in capacity.items()}
    for allocation, _ in drawn:
        before = {server: list(units) for server, units in free.items()}
        fits(free, allocation, DEMANDS)
        assert free == before


@given(st.lists(st.builds(Machines, st.sampled_from(("worker", "ps")), st.integers(1, 2), st.integers(1, 2),
                          st.integers(1, 3))))  # fmt: skip
def test_machines_of_a_kind_on_a_server_are_one(machines: list[Machines]) -> None:
    found = merged(machines)
    kinds = [one[:3] for one in found]
    assert kinds == sorted({one[:3] for one in machines})
    for one in found:
        assert one.number == sum(other.number for other in machines if other[:3] == one[:3])
