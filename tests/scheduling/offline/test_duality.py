"""Bounds that prices prove, on instances whose answers fit in the head."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.best_response.divided.modes import Mode, best_modes
from scheduling.model.bid import Bid
from scheduling.model.errors import InvalidField
from scheduling.model.types import Ints
from scheduling.model.utility import Constant, Step
from scheduling.offline import Answer, Covers, Kind, OfflineProblem, best_bound, dual_at_prices, lagrangian
from scheduling.policies.base import Objective
from tests.draws import rounds
from tests.scheduling.gpu_cluster import gpu_cluster, job
from tests.scheduling.offline.outcomes import forever
from tests.scheduling.worlds import SLOTS, world


def ask(
    bids: list[Bid], *gpus: int, end: int, objective: Objective = Objective.WELFARE, open_end: bool = False
) -> Answer:
    return best_bound(OfflineProblem(tuple(bids), gpu_cluster(*gpus), 0, end, objective, open_end=open_end), forever)


def test_a_bound_is_the_optimum_where_machines_are_the_only_limit() -> None:
    # Four slots for three jobs of two slots: two of them, the dearest.
    bids = [job("a", 1, 2, weight=10), job("b", 1, 2, weight=7), job("c", 1, 2, weight=1)]
    assert ask(bids, 1, end=4).bound == pytest.approx(17, rel=1e-4)
    # The cluster is idle after both; nobody pays for more.
    assert ask(bids[:2], 1, end=9).bound == pytest.approx(17)


@given(
    modes=st.lists(
        st.builds(
            Mode,
            speed=st.sampled_from([0.1, 0.2, 0.25, 0.4, 1.0]),
            use=st.tuples(*[st.integers(0, 4).map(float)] * 2),
            delay=st.integers(0, 2),
        ),
        max_size=12,
    )
)
def test_modes_that_are_left_out_are_never_better(modes: list[Mode]) -> None:
    kept: list[Mode] = []
    for mode in sorted(modes, key=lambda m: (-m.speed, m.use, m.delay)):
        if not any(_as_good(other, mode) for other in kept):
            kept.append(mode)
    assert best_modes(modes) == kept


def _as_good(mode: Mode, other: Mode) -> bool:
    """Whether a part of this one does as much as the other with no more, no later."""
    part = 1.0 if mode.speed == other.speed else other.speed / mode.speed
    no_more = all(part * mine <= theirs for mine, theirs in zip(mode.use, other.use, strict=True))
    return mode.speed >= other.speed and mode.delay <= other.delay and no_more


def test_half_a_job_is_half_its_value() -> None:
    assert ask([job("a", 1, 2, weight=10), job("b", 1, 2, weight=10)], 1, end=3).bound == pytest.approx(15, rel=1e-4)


def test_what_goes_on_beyond_the_end_is_free_there() -> None:
    bids = [job("a", 1, 2, weight=10), job("b", 1, 2, weight=10)]
    assert ask(bids, 1, end=3, open_end=True).bound == pytest.approx(20)
    late = [replace(bid, utility=Step(10, 3)) for bid in bids]
    assert ask(late, 1, end=3, open_end=True).bound == pytest.approx(15, rel=1e-4)


def test_unit_jobs_in_order_of_weight_are_the_least_weighted_completion() -> None:
    bids = [job(str(w), 1, 1, weight=w) for w in (1, 5, 3)]
    found = ask(bids, 1, end=4, objective=Objective.WEIGHTED_COMPLETION)
    assert found.bound == pytest.approx(5 * 1 + 3 * 2 + 1 * 3, rel=1e-4)
    assert found.bound <= 14
    assert ask(bids, 1, end=4, objective=Objective.COMPLETION).bound == pytest.approx(6, rel=1e-4)


def test_a_job_longer_than_the_slots_looked_at_takes_its_own_time() -> None:
    assert ask([job("a", 1, 30)], 1, end=4, objective=Objective.COMPLETION, open_end=True).bound == pytest.approx(30)
    with pytest.raises(InvalidField, match="got 4, too early for job a"):
        ask([job("a", 1, 30)], 1, end=4, objective=Objective.COMPLETION)


def test_more_workers_in_a_ring_help_less_than_they_cost() -> None:
    ring = replace(job("r", 1, 8, workers=4), reduce_time=Fraction(1, 2))
    # One worker: 4 x 8 / 4 = 8 slots. Four: (1/4 + 1/2 x 3/4) 32 / 4 = 5 slots.
    assert ask([ring], 8, end=9, objective=Objective.COMPLETION).bound == pytest.approx(5)
    assert ask([ring], 1, end=9, objective=Objective.COMPLETION).bound == pytest.approx(8)


def test_a_job_that_no_server_can_host_earns_nothing_and_cannot_be_made_to_run() -> None:
    assert ask([job("a", 1, 1)], 0, end=4, open_end=True).bound == 0
    with pytest.raises(InvalidField, match="expected a job that some server can host, got job a"):
        ask([job("a", 1, 1)], 0, end=4, objective=Objective.WEIGHTED_COMPLETION)


def test_what_is_in_use_before_anybody_comes_is_not_there() -> None:
    used = np.zeros((4, 1, 1), dtype=np.int64)
    used[:2] = 1
    problem = OfflineProblem(
        (job("a", 1, 2, weight=10), job("b", 1, 2, weight=9)), gpu_cluster(1), 0, 4, used=used, open_end=False
    )
    assert best_bound(problem, forever).bound == pytest.approx(10, rel=1e-4)


def test_a_gap_is_of_what_is_known() -> None:
    answer = Answer(Kind.LAGRANGIAN, Covers.ANY, bound=12.0, incumbent=10.0)
    assert answer.gap == pytest.approx(0.2)
    assert replace(answer, incumbent=None).gap is None
    assert replace(answer, bound=10.0).gap == 0
    assert replace(answer, bound=0.0).gap is None


def test_no_time_is_enough_for_the_bound_of_each_alone() -> None:
    bids = (job("a", 1, 2, weight=10), job("b", 1, 2, weight=7))
    found = best_bound(OfflineProblem(bids, gpu_cluster(1), 0, 2, open_end=False), lambda: 0.0)
    assert found.kind is Kind.ALONE
    assert found.bound == pytest.approx(17)


@pytest.mark.parametrize(
    ("field", "end", "used"),
    [("end", 0, None), ("used", 4, np.ones((3, 1, 1), np.int64)), ("used", 4, np.full((4, 1, 1), 9))],
)
def test_a_problem_names_what_is_wrong(field: str, end: int, used: Ints | None) -> None:
    with pytest.raises(InvalidField) as error:
        OfflineProblem((job("a", 1, 1),), gpu_cluster(1), 0, end, used=used)
    assert error.value.field == field


def test_prices_have_the_shape_of_slots_and_resources() -> None:
    problem = OfflineProblem((job("a", 1, 1),), gpu_cluster(1), 0, 4)
    for prices in (np.zeros((3, 1)), np.full((4, 1), -1.0), np.full((4, 1), np.nan)):
        with pytest.raises(InvalidField, match="prices"):
            dual_at_prices(problem, prices)


@settings(max_examples=rounds(7))
@given(seed=st.integers(0, 2**32 - 1), elastic=st.booleans())
def test_the_prices_found_prove_the_bound_again(seed: int, elastic: bool) -> None:
    drawn = world(seed, bids=12, kind="apart" if elastic else "")
    covers = Covers.ELASTIC if elastic else Covers.ANY
    bids = tuple(replace(bid, utility=Constant(bid.utility.value)) for bid in drawn.bids)
    problem = OfflineProblem(bids, drawn.inventory, 0, SLOTS, covers=covers, open_end=False)
    answer, prices = lagrangian(problem, forever, steps=60)
    again = dual_at_prices(problem, prices)
    assert again.bound == pytest.approx(answer.bound, rel=1e-9)
    assert again.bound <= dual_at_prices(problem, 0 * prices).bound * (1 + 1e-9)


@settings(max_examples=rounds(13))
@given(seed=st.integers(0, 2**32 - 1))
def test_a_bound_for_any_schedule_is_not_below_one_for_elastic_schedules(seed: int) -> None:
    drawn = world(seed, bids=12, kind="apart")
    problem = OfflineProblem(drawn.bids, drawn.inventory, 0, SLOTS, open_end=False)
    elastic = dual_at_prices(
        replace(problem, covers=Covers.ELASTIC), np.zeros((SLOTS, drawn.inventory.capacity.shape[1]))
    )
    free = dual_at_prices(problem, np.zeros((SLOTS, drawn.inventory.capacity.shape[1])))
    assert elastic.bound <= free.bound * (1 + 1e-9)
