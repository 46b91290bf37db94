"""Progress of schedules, by hand."""

from fractions import Fraction

import numpy as np
import pytest

from scheduling.model.bid import Architecture, Bid
from scheduling.model.iteration_time import iteration_time
from scheduling.model.progress import Stretch, constellations, done_in, work_done
from scheduling.model.schedule import Placement, Role
from scheduling.model.utility import Constant


def bid(architecture: Architecture = Architecture.PS) -> Bid:
    return Bid(
        id="a",
        arrival=0,
        epochs=1,
        chunks=4,
        minibatches=5,
        worker_time=(Fraction(1, 4), Fraction(1)),
        ps_time=(Fraction(1, 4),),
        transfer_time=(Fraction(1, 2), Fraction(1)),
        delay=(0, 0),
        utility=Constant(1.0),
        architecture=architecture,
        reduce_time=Fraction(1, 4),
    )


def held(role: Role, server: int, count: int, start: int, end: int) -> Placement:
    return Placement(start=start, end=end, role=role, server=server, type=0, count=count)


def test_it_takes_compute_and_update_on_one_server_and_transfer_too_when_spread() -> None:
    ps = held(Role.PS, 0, 1, 0, 1)
    assert iteration_time(bid(), [held(Role.WORKER, 0, 2, 0, 1), ps]) == Fraction(1, 2)
    assert iteration_time(bid(), [held(Role.WORKER, 1, 2, 0, 1), ps]) == 1


def test_it_takes_a_ring_longer_the_more_workers_it_has() -> None:
    ring = bid(Architecture.RING)
    assert iteration_time(ring, [held(Role.WORKER, 0, 1, 0, 1)]) == Fraction(1, 4)
    assert iteration_time(ring, [held(Role.WORKER, 0, 2, 0, 1)]) == Fraction(1, 4) + Fraction(1, 8)
    both = [held(Role.WORKER, 0, 1, 0, 1), held(Role.WORKER, 1, 1, 0, 1)]
    assert iteration_time(ring, both) == Fraction(1, 4) + Fraction(1, 8) + Fraction(1, 4)


def test_it_cannot_work_without_workers_or_without_the_parameter_servers_it_needs() -> None:
    assert iteration_time(bid(), [held(Role.PS, 0, 1, 0, 1)]) is None
    assert iteration_time(bid(), [held(Role.WORKER, 0, 1, 0, 1)]) is None


def test_it_adds_up_slots_with_different_machines_and_stops_at_the_whole_work() -> None:
    placements = [
        held(Role.WORKER, 0, 2, 0, 2),  # with its PS: 4 a slot
        held(Role.WORKER, 0, 1, 2, 4),  # 2 a slot
        held(Role.PS, 0, 1, 0, 3),
    ]
    assert [work_done(bid(), placements, until=t) for t in range(6)] == [0, 4, 8, 10, 10, 10]
    assert work_done(bid(), placements * 4, until=9) == bid().work


def test_it_loses_the_first_slots_after_a_change_or_a_break_but_not_at_the_start() -> None:
    placements = [held(Role.WORKER, 0, 1, 0, 6), held(Role.PS, 0, 1, 0, 2), held(Role.PS, 0, 1, 4, 6)]
    # Two slots, a break, then one of two is lost; in the break the workers hold on without a PS.
    assert work_done(bid(), placements, until=6, pause=1) == 4 + 2
    assert work_done(bid(), placements, until=6) == 8


def test_it_sees_no_change_where_the_same_machines_are_written_in_pieces() -> None:
    pieces = [held(Role.WORKER, 0, 1, t, t + 1) for t in range(3)] + [held(Role.PS, 0, 1, 0, 3)]
    assert [(start, end) for start, end, _ in constellations(pieces)] == [(0, 3)]


@pytest.mark.parametrize("architecture", list(Architecture))
def test_a_job_that_takes_no_time_is_done_at_once(architecture: Architecture) -> None:
    nothing = Bid("a", 0, 1, 1, 1, (Fraction(0),), (Fraction(0),), (Fraction(0),), (0,), Constant(1.0), architecture)
    assert work_done(nothing, [held(Role.WORKER, 0, 1, 0, 1), held(Role.PS, 0, 1, 0, 1)], until=1) == 1


def test_the_work_of_many_stretches_is_the_sum_of_fractions() -> None:
    rng = np.random.default_rng(7)
    job, sums = bid(), set[Fraction]()
    for _ in range(300):
        times, start = [], 0
        for _ in range(int(rng.integers(1, 7))):
            start += int(rng.integers(0, 3))
            end, step = start + int(rng.integers(1, 4)), Fraction(int(rng.integers(1, 40)), int(rng.integers(1, 5)))
            times.append(Stretch(start, end, int(rng.integers(1, 30)), int(rng.integers(0, 2)), step))
            start = end
        for until in range(start + 1):
            slots = [(max(0, min(one.end, until) - one.start - one.lost), one) for one in times]
            expected = sum((n * one.rate for n, one in slots), Fraction(0))
            assert done_in(job, times, until=until) == min(expected, Fraction(job.work))
            sums.add(expected)
    assert min(sums) < job.work < max(sums)
