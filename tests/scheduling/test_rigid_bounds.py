"""The bounds and tables by which the rigid kernel leaves out schedules: none that wins is lost."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import cast

import numpy as np
import pytest
from numba import njit

from scheduling.best_response.base import PAYOFF
from scheduling.best_response.rigid import index as rigid_index
from scheduling.best_response.rigid.bounds import bound_option, bound_workers, cheapest_slots
from scheduling.best_response.rigid.job import Job, list_options
from scheduling.best_response.rigid.kernel import RigidIndex, RigidKernel, smallest_problem
from scheduling.best_response.rigid.tables import Tables
from scheduling.model.ending import Ending
from scheduling.model.inventory import Inventory
from scheduling.model.types import Ints
from scheduling.model.utility import Constant
from tests.draws import fresh_seed, rounds
from tests.scheduling.rigid_answers import Fixed, answer
from tests.scheduling.test_rigid import Rising
from tests.scheduling.twins import rigid_exact
from tests.scheduling.twins.rigid_cases import random_inventory, random_problem


def of_twelve_servers(rng: np.random.Generator) -> Inventory:
    drawn, servers = random_inventory(rng), 12
    capacity = rng.integers(0, 10, (servers, len(drawn.resources)))
    capacity[-1] *= 4
    return replace(drawn, servers=tuple(f"s{i}" for i in range(servers)), cloud=(False,) * servers, capacity=capacity)


def test_tables_refreshed_where_the_ledger_changed_equal_those_built_at_once() -> None:
    seed = fresh_seed()
    for case in range(rounds(20)):
        rng = np.random.default_rng([seed, case])
        inventory, slots = of_twelve_servers(rng), int(rng.integers(1, 12))
        used, where = np.zeros((slots, *inventory.capacity.shape), np.int64), f"seed {[seed, case]}"
        warm, prices = RigidIndex(inventory, slots), Rising()
        warm.refresh(used, prices)
        for _ in range(4):
            changed = rng.choice(12, int(rng.integers(1, 7)), replace=False)
            low = int(rng.integers(slots))
            high = int(rng.integers(low, slots)) + 1
            now = used.copy()
            now[low:high, changed] = rng.integers(0, inventory.capacity[changed] + 1)
            different = int((now != used).any(axis=2).sum())
            prices.asked.clear()
            warm.refresh(now, prices)
            assert prices.asked == [different] * (different > 0), where
            used, fresh = now, RigidIndex(inventory, slots)
            fresh.refresh(used, Rising())
            for name in Tables._fields:
                assert np.array_equal(getattr(warm._tables, name), getattr(fresh._tables, name)), f"{where}: {name}"


def _least_prices(tables: Tables, job: Job) -> Ints:
    return cheapest_slots(tables, job)


least_prices = cast(Callable[[Tables, Job], Ints], njit(_least_prices))
"""The kernel `cheapest_slots`, which only kernels can call."""


def test_no_machine_costs_less_in_any_slot_of_the_job_than_the_bound_and_some_cost_as_much() -> None:
    seed, nowhere = fresh_seed(), 0
    for case in range(rounds(60)):
        rng = np.random.default_rng([seed, case])
        problem = random_problem(rng)
        index = RigidIndex(problem.inventory, len(problem.used))
        index.refresh(problem.used, problem.prices)
        tables = index._tables
        first, tail = int(rng.integers(len(problem.used))), int(rng.integers(2))
        latest = int(rng.integers(first, len(problem.used) - tail + 1)) if first + tail <= len(problem.used) else first
        job = index._job(problem.bid, problem.start, None, tail, PAYOFF, -np.inf)
        window = slice(first, latest + tail)
        fits_there = tables.room[:, 0, window] > 0
        least = [
            int(price[there].min()) if there.any() else 0
            for price, there in zip(tables.slot_price[:, window], fits_there, strict=True)
        ]
        nowhere += not fits_there.any(axis=(1, 2)).all()
        assert least_prices(tables, job._replace(first=first, latest=latest)).tolist() == least, f"seed {[seed, case]}"
    assert 0 < nowhere < rounds(60)


def _bounds(tables: Tables, job: Job) -> list[tuple[float, float]]:
    options = list_options(tables, job)
    alone, each, bounds = bound_workers(tables, job, options), np.empty(tables.room.shape[2]), []
    for i in range(len(options.number)):
        greatest, _ = bound_option(tables, job, options, i, each)
        bounds.append((alone[options.worker[i], options.number[i]], greatest))
    return bounds


bounds_of_options = cast(Callable[[Tables, Job], list[tuple[float, float]]], njit(_bounds))
"""For each option the bound of its workers alone, and the bound of its best start."""


def test_no_option_scores_more_than_its_workers_would_alone() -> None:
    seed, tight, loose = fresh_seed(), 0, 0
    for case in range(rounds(60)):
        problem = random_problem(np.random.default_rng([seed, case]))
        index = RigidIndex(problem.inventory, len(problem.used))
        index.refresh(problem.used, problem.prices)
        job = index._job(problem.bid, problem.start, None, int(case % 2), case % 3, -np.inf if case % 3 == 0 else 0.0)
        if job.first < job.latest:
            for alone, greatest in bounds_of_options(index._tables, job):
                assert alone >= greatest, f"seed {[seed, case]}"
                tight += alone == greatest > -np.inf
                loose += alone > greatest
    assert tight > 0
    assert loose > 0


def test_no_schedule_ends_after_the_value_is_gone_and_none_that_wins_is_lost() -> None:
    # One more slot of value, however little, may give a schedule; without it the slots beyond must not matter.
    seed, changed = fresh_seed(), 0
    for case in range(rounds(200)):
        problem = random_problem(np.random.default_rng([seed, case]))
        full = answer(problem, 0.0)
        end = problem.bid.arrival + len(problem.used)
        for deadline in range(end - problem.bid.arrival):
            short = replace(problem, bid=replace(problem.bid, utility=Ending(problem.bid.utility, deadline)))
            found = answer(short, 0.0)
            assert found is None or found.schedule.completion - problem.bid.arrival <= deadline, f"seed {[seed, case]}"
            in_time = full is not None and full.schedule.completion - problem.bid.arrival <= deadline
            changed += not in_time and found is not None
            if in_time:
                assert found == full, f"seed {[seed, case]}, deadline {deadline}"
    assert changed


def test_a_small_bid_needs_no_finer_tables_where_it_holds_few_machine_slots() -> None:
    ledger, drawn = smallest_problem()
    bid = replace(drawn, chunks=1, minibatches=2, transfer_time=(Fraction(0),))
    index = RigidIndex(ledger.inventory, 1000)
    used = np.zeros((1000, *ledger.inventory.capacity.shape), np.int64)
    prices = np.full(used.shape, 1e-3)
    prices[0] = 1e6
    index.widen_for(bid)
    index.refresh(used, prices)
    # One worker and one PS for four slots each: rounding costs at most 8 quanta, far fewer than a horizon of them.
    quantum = float(index._tables.quantum.max()) / rigid_index.SHARP
    assert index.resolves(bid, 8.01 * quantum, tail=0)
    assert not index.resolves(bid, 7.99 * quantum, tail=0)
    assert not index.resolves(bid, 8.01 * quantum, tail=1)
    assert index.resolves(bid, 10.01 * quantum, tail=1)
    assert 10.01 * quantum < 1e6


def test_no_schedule_costs_less_than_the_workers_in_their_cheapest_cells() -> None:
    seed, close = fresh_seed(), 0
    for case in range(rounds(150)):
        problem = random_problem(np.random.default_rng([seed, case]))
        index = RigidIndex(problem.inventory, len(problem.used))
        index.widen_for(problem.bid)
        index.refresh(problem.used, problem.prices)
        bound = index.least_cost(problem.bid, tail=problem.tail)
        costs = [found.cost for found in rigid_exact.every(problem)]
        assert bound <= min(costs, default=np.inf) * (1 + 1e-12), f"seed {[seed, case]}"
        close += bool(costs) and bound > min(costs) / 10
    assert close > 0


def test_no_finer_tables_are_built_for_a_bid_that_affords_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, drawn = smallest_problem()
    prices = np.full(ledger.used.shape, 1e-3)
    prices[0] = 1e9
    kernel, built = RigidKernel(ledger, Fixed(prices)), list[float]()
    make = RigidIndex._static

    def note(index: RigidIndex) -> None:
        built.append(index.price_cap)
        make(index)

    monkeypatch.setattr(RigidIndex, "_static", note)
    assert kernel.best(replace(drawn, utility=Constant(1e-3))) is None
    assert built == [np.inf]
    response = kernel.best(replace(drawn, utility=Constant(1.0)))
    assert response is not None
    assert response.cost == pytest.approx(8e-3)
    assert built == [np.inf, 2.0]
