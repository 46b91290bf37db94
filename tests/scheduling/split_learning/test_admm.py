"""Algorithm 1: each step against its printed program, its end, and what it reaches where the optimum is known."""

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scheduling.model.errors import InvalidField
from scheduling.model.types import Floats, Ints
from scheduling.split_learning.admm import Admm, Round, assign
from scheduling.split_learning.backward import cheapest_backward, largest_tail_first
from scheduling.split_learning.check import violations
from scheduling.split_learning.forward_first import forward_first
from scheduling.split_learning.forward_schedule import schedule
from scheduling.split_learning.instance import Instance
from scheduling.split_learning.method import NoPlan
from scheduling.split_learning.plan import Plan
from tests.collection import OWN
from tests.scheduling.split_learning.twins.backward_blocks import backward_passes, by_blocks
from tests.scheduling.split_learning.twins.forward_by_slots import least
from tests.scheduling.split_learning.worlds import draw, known, own, read, split_groups


def forever() -> float:
    return float("inf")


def rounds(instance: Instance, method: Admm | None = None) -> list[Round]:
    return list((method or Admm()).iterate(instance, forever))


def lagrange(instance: Instance, slots: Ints, dual: Floats, rho: float, assignment: tuple[int, ...]) -> float:
    """What of (16) depends on the assignment, term by term."""
    y = np.arange(len(slots))[:, None] == np.array(assignment)
    off = slots - y * instance.forward
    return float((dual * off + rho / 2 * np.abs(off)).sum())


@pytest.mark.thorough
def test_its_schedule_costs_what_the_program_over_slots_costs() -> None:
    rng = np.random.default_rng(1)
    split = 0
    for k in range(36):
        helpers, clients = int(rng.integers(1, 4)), int(rng.integers(1, 4))
        instance = draw(rng, clients=clients, helpers=helpers, longest=4)
        instance = replace(instance, forward=rng.integers(1, 4, (helpers, clients)))
        y = np.zeros((helpers, clients), dtype=np.int64)
        if k % 4:
            y[rng.integers(0, helpers, clients), np.arange(clients)] = 1
        dual = rng.integers(-3, 4, (helpers, clients)) * np.float64(1.0 if k % 3 else 0.25)
        rho = float(rng.choice([0.2, 1.0, 3.0]))
        after = (instance.gap * y).sum(axis=0)
        found = schedule(instance, after, dual + rho / 2 * (1 - 2 * y), y, forever)
        assert found.optimal
        constant = float(((rho / 2 - dual) * y * instance.forward).sum())
        wanted = least(instance.release, instance.forward, instance.gap, y, dual, rho)
        assert found.cost + constant == pytest.approx(wanted, abs=1e-5)
        assert found.shares.sum(axis=0) == pytest.approx(1)
        split += bool(((found.slots > 0).sum(axis=0) > 1).any())
    assert split > 0


def test_its_assignment_is_the_cheapest_within_memory() -> None:
    rng = np.random.default_rng(2)
    for _ in range(100):
        helpers, clients = int(rng.integers(1, 4)), int(rng.integers(1, 5))
        instance = draw(rng, clients=clients, helpers=helpers)
        # By (20) a client has no more slots on a helper than its pass takes there.
        slots = rng.integers(0, instance.forward + 1)
        dual, rho = rng.integers(-3, 4, (helpers, clients)) * np.float64(1), float(rng.choice([0.3, 2.0]))

        able = [
            one
            for one in product(range(helpers), repeat=clients)
            if (np.bincount(one, instance.demand, helpers) <= instance.capacity).all()
        ]
        found = assign(instance, slots, dual, rho, forever)
        assert tuple(found.tolist()) in able
        costs = {one: lagrange(instance, slots, dual, rho, one) for one in able}
        assert costs[tuple(found.tolist())] == pytest.approx(min(costs.values()))


def test_it_ends_with_a_plan_for_its_last_assignment() -> None:
    rng = np.random.default_rng(3)
    for switch in (0, 0, 1, 2):
        for _ in range(8):
            instance = draw(rng, clients=int(rng.integers(1, 7)), helpers=int(rng.integers(1, 4)), switch=switch)
            for one in rounds(instance):
                assert violations(one.plan) == []
                assert one.plan.assignment.tolist() == one.assignment.tolist()
            steps = list(Admm()(instance, left=forever, rng=rng))
            assert [step.plan.makespan for step in steps if step.plan] == sorted(
                (step.plan.makespan for step in steps if step.plan), reverse=True
            )


def test_forward_first_is_algorithm_2_after_jacksons_rule() -> None:
    rng = np.random.default_rng(4)
    for _ in range(100):
        instance = draw(rng, clients=int(rng.integers(1, 9)), helpers=2)
        plan = forward_first(instance, rng.integers(0, 2, len(instance.clients)))
        for way in (by_blocks, largest_tail_first):
            backward = backward_passes(instance, plan.assignment, plan.forward, way)
            other = Plan(
                instance, plan.assignment, plan.forward, backward, plan.key_forward, plan.key_backward, preemptive=True
            )
            assert other.makespan == plan.makespan


def test_with_costs_of_switching_it_interrupts_only_where_that_pays() -> None:
    rng = np.random.default_rng(5)
    kinds = set()
    for _ in range(200):
        free = draw(rng, clients=int(rng.integers(2, 8)), helpers=1, longest=8)
        costly = replace(free, switch=np.array([int(rng.integers(1, 4))]))
        assignment = np.zeros(len(free.clients), dtype=np.int64)
        plan = forward_first(costly, assignment)
        assert not [fault for fault in violations(plan) if not fault.startswith("(5)")]
        free_of_charge = forward_first(free, assignment)
        backward = cheapest_backward(costly, assignment, free_of_charge.forward)
        assert plan.makespan <= replace(free_of_charge, instance=costly, backward=backward).makespan
        kinds.add(plan.interruptions > 0)
    assert kinds == {True, False}


def takes_little(path: Path) -> bool:
    """Whether Algorithm 1 ends by itself in seconds: the first step's program is not too hard."""
    stress = OWN in path.parents and path.stem.startswith("stress")
    return 10 <= known(path).clients <= (10 if stress else 50)


@pytest.mark.parametrize("paths", split_groups(every=8, keep=takes_little))
def test_it_stands_still_soon(paths: list[Path]) -> None:
    """Assignment and makespan stand still in less than five rounds for most, as the paper says of its own."""
    few, above, best = [], [], []
    for path in paths:
        done, row = rounds(read(path)), known(path)
        assert violations(done[-1].plan) == []
        few.append(len(done) < 5)
        assert done[-1].plan.makespan >= row.lower_bound
        best.append(done[-1].plan.makespan / row.best_makespan)
        if row.admm_makespan is not None:
            above.append(done[-1].plan.makespan / row.admm_makespan)
    assert np.mean(few) > 0.5
    assert np.mean(best) <= 1.4
    assert np.mean(above or [1.0]) <= 1.02


def test_without_time_it_still_has_a_plan() -> None:
    instance = read(own("vgg19-s1-j30-i5"))
    (step,) = Admm()(instance, left=lambda: 0.0, rng=np.random.default_rng(0))
    assert step.plan is not None
    assert violations(step.plan) == []


def test_it_says_when_memory_allows_nothing_and_names_the_client() -> None:
    instance = draw(np.random.default_rng(6), clients=3, helpers=2)
    instance = replace(instance, demand=np.array([2, 2, 2]), capacity=np.array([3, 3]))
    with pytest.raises(NoPlan, match=r"no assignment .* client client-2 needs 0\.000000002 GB"):
        rounds(instance)


@pytest.mark.parametrize(
    ("name", "value"), [("rho", 0.0), ("rho", float("inf")), ("dual_step", -1.0), ("moved", 0.0), ("rounds", 0)]
)
def test_numbers_out_of_range_are_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidField) as caught:
        Admm(**{name: value})
    assert caught.value.field == name
