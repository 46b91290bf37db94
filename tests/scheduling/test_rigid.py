"""The rigid best response against its twin, which is itself held against every placement there is."""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from time import thread_time
from typing import ClassVar

import numpy as np
import pytest

from scheduling.best_response.base import slots_ahead
from scheduling.best_response.rigid import index as rigid_index
from scheduling.best_response.rigid.kernel import RigidIndex, RigidKernel, best_response
from scheduling.book.ledger import Ledger
from scheduling.model.bid import Bid
from scheduling.model.types import Floats, Ints
from scheduling.model.utility import Constant, Linear
from studies.workloads.generated.dps import Setting, draw_bid, draw_inventory
from tests.draws import fresh_seed, rounds
from tests.scheduling.rigid_answers import Fixed, a_market, answer, as_problem, described, expected
from tests.scheduling.tolerance import TOLERANCE, near
from tests.scheduling.twins import rigid_exact, rigid_milp
from tests.scheduling.twins.prices_slow import all_prices, random_reserve_prices
from tests.scheduling.twins.rigid_cases import random_problem
from tests.scheduling.twins.rigid_exact import Found, Problem


@pytest.mark.parametrize(
    ("hubs", "workers", "pss", "cases"), [(8, 4096, 64, 300), (0, 4096, 64, 200), (1, 2, 1, 125), (0, 1, 1, 75)]
)
def test_the_kernel_equals_the_twin(
    hubs: int, workers: int, pss: int, cases: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every limit of its tables is also made small, so that extrapolated bounds are tested."""
    monkeypatch.setattr(rigid_index, "HUBS", hubs)
    monkeypatch.setattr(rigid_index, "TABLED_WORKERS", workers)
    monkeypatch.setattr(rigid_index, "TABLED_PSS", pss)
    seed = fresh_seed()
    for case in range(rounds(cases)):
        rng = np.random.default_rng([seed, case])
        problem = random_problem(rng)
        above = -np.inf if rng.random() < 0.3 else 0.0
        found, response = rigid_exact.best(problem, above), answer(problem, above)
        where = f"seed {[seed, case]}: {found} but {response}"
        if found is None or response is None:
            either = found if response is None else response
            assert either is None or (above == 0.0 and either.payoff < TOLERANCE), where
            continue
        assert near(found.payoff, response.payoff, found.cost), where
        if (problem.prices == np.floor(problem.prices)).all():
            assert described(response) == expected(found), where


def test_the_kernel_equals_an_integer_program() -> None:
    seed = fresh_seed()
    for case in range(rounds(16)):
        problem = random_problem(np.random.default_rng([seed, case]))
        best, response = rigid_milp.best_payoff(problem), answer(problem, -np.inf)
        payoff = -np.inf if response is None else response.payoff
        assert payoff == pytest.approx(best, rel=1e-7, abs=1e-7), f"seed {[seed, case]}"


def at_wild_prices(rng: np.random.Generator) -> Problem:
    """Prices of any size from 10^-9 to 10^15 at once, and a bid of any size."""
    problem = random_problem(rng)
    value = float(10 ** rng.uniform(-6, 6))
    return replace(
        problem,
        prices=10 ** rng.uniform(-9, 15, problem.prices.shape),
        bid=replace(problem.bid, utility=Linear(value, value / 20)),
    )


def test_no_price_however_great_blurs_those_a_bid_can_pay() -> None:
    seed = fresh_seed()
    answered = 0
    for case in range(rounds(200)):
        problem = at_wild_prices(np.random.default_rng([seed, case]))
        found, response = rigid_exact.best(problem), answer(problem)
        want, got = (0.0 if x is None else x.payoff for x in (found, response))
        answered += want > 0
        assert abs(want - got) <= TOLERANCE * problem.bid.utility.value, f"seed {[seed, case]}"
    assert answered > rounds(6)


def test_no_price_however_great_blurs_an_answer_that_is_forced() -> None:
    seed, blurred = fresh_seed(), []
    for case in range(rounds(75)):
        problem = at_wild_prices(np.random.default_rng([seed, case]))
        found, response = rigid_exact.best(problem, -np.inf), answer(problem, -np.inf)
        assert (found is None) == (response is None), f"seed {[seed, case]}"
        if found is not None and response is not None:
            scale = problem.bid.utility.value + found.cost
            blurred += [case] * (abs(found.payoff - response.payoff) > TOLERANCE * scale)
    assert not blurred, f"seed {seed}"


def test_no_price_however_great_blurs_the_least_ratio() -> None:
    seed = fresh_seed()
    for case in range(rounds(50)):
        problem = at_wild_prices(np.random.default_rng([seed, case]))
        ledger = Ledger(problem.inventory, start=problem.start, slots=len(problem.used))
        ratio = RigidKernel(ledger, Fixed(problem.prices)).min_cost_per_value(problem.bid)
        free = replace(problem, used=np.zeros_like(problem.used), tail=0, first_start=None)
        ratios = [f.cost / value_of(free, f) for f in rigid_exact.every(free) if value_of(free, f) > 0]
        assert (ratio is None) == (not ratios), f"seed {[seed, case]}"
        if ratio is not None:
            assert ratio.cost / ratio.value == pytest.approx(min(ratios), rel=1e-8), f"seed {[seed, case]}"


def value_of(problem: Problem, found: Found) -> float:
    return problem.bid.utility.at(found.completion - problem.bid.arrival)


def test_equal_prices_leave_the_choice_to_the_documented_order() -> None:
    seed = fresh_seed()
    for case in range(rounds(75)):
        problem = random_problem(np.random.default_rng([seed, case]))
        problem = replace(problem, prices=np.ones_like(problem.prices))
        found, response = rigid_exact.best(problem), answer(problem)
        assert (found and expected(found)) == (response and described(response)), f"seed {[seed, case]}"


def test_where_all_schedules_are_worth_the_same_the_documented_order_decides() -> None:
    seed = fresh_seed()
    for case in range(rounds(75)):
        problem = random_problem(np.random.default_rng([seed, case]))
        bid = replace(problem.bid, utility=Constant(100.0))
        problem = replace(problem, bid=bid, prices=np.zeros_like(problem.prices))
        found, response = rigid_exact.best(problem), answer(problem)
        assert (found and expected(found)) == (response and described(response)), f"seed {[seed, case]}"


def test_a_worth_that_never_falls_takes_no_longer_than_one_that_does() -> None:
    # Where nothing costs anything, all schedules are worth the same: those that end later need not be looked at.
    rng = np.random.default_rng(1)
    inventory = draw_inventory(Setting(slots=200), rng)
    bid = draw_bid(Setting(slots=200), inventory, rng, name="1", arrival=0)
    falls, stays = replace(bid, utility=Linear(100.0, 0.5)), replace(bid, utility=Constant(100.0))
    index, free = RigidIndex(inventory, 200), np.zeros((200, *inventory.capacity.shape))
    used = np.zeros(free.shape, dtype=np.int64)

    def seconds(asked: Bid) -> float:
        """Processor time of one search, the least of several."""
        taken = []
        for _ in range(5):
            began = thread_time()
            assert best_response(asked, inventory, start=0, used=used, prices=free, index=index, version=1)
            taken.append(thread_time() - began)
        return min(taken)

    assert seconds(stays) < 10 * seconds(falls)


def test_a_warm_index_answers_as_a_fresh_one() -> None:
    seed = fresh_seed()
    for case in range(rounds(40)):
        rng = np.random.default_rng([seed, case])
        market = a_market(rng)
        ledger, admitted = market.ledger, []
        for _ in range(12):
            problem = as_problem(market, rng)
            warm = market.best(problem.bid)
            assert warm == answer(problem), f"seed {[seed, case]}"
            if warm is not None:
                ledger.commit(warm.schedule)
                admitted.append(warm.schedule)
            event = rng.random()
            if event < 0.2:
                ledger.advance(ledger.start + 1)
            elif event < 0.4 and admitted:
                ledger.release(admitted.pop(), from_slot=ledger.start)
            elif event < 0.5:
                market = replace(market, prices=random_reserve_prices(rng, len(ledger.inventory.resources), high=10.0))


def test_at_prices_that_rise_with_the_time_ahead_the_kernel_equals_the_twin() -> None:
    seed, answered = fresh_seed(), 0
    for case in range(rounds(60)):
        rng = np.random.default_rng([seed, case])
        problem = random_problem(rng)
        function = random_reserve_prices(rng, problem.prices.shape[2], high=30.0)
        problem = replace(problem, prices=all_prices(function, problem.used, problem.inventory.capacity))
        index = RigidIndex(problem.inventory, len(problem.used))
        for used in (np.zeros_like(problem.used), problem.used):
            # The second time only what changed is priced again.
            response = best_response(
                problem.bid,
                problem.inventory,
                start=problem.start,
                used=used,
                prices=function,
                first_start=problem.first_start,
                tail=problem.tail,
                index=index,
            )
        found = rigid_exact.best(problem)
        payoffs = [0.0 if one is None else one.payoff for one in (found, response)]
        answered += payoffs[0] > 0
        assert near(payoffs[0], payoffs[1], 0.0 if found is None else found.cost), f"seed {[seed, case]}"
    assert answered > rounds(6)


def test_the_least_ratio_and_the_latest_start_are_those_of_all_schedules() -> None:
    seed = fresh_seed()
    answered = 0
    for case in range(rounds(100)):
        rng = np.random.default_rng([seed, case])
        market = a_market(rng)
        problem = as_problem(market, rng)
        found = [f for f in rigid_exact.every(problem) if f.payoff + f.cost > 0]
        ratio, late = market.min_cost_per_value(problem.bid), market.latest(problem.bid)
        where = f"seed {[seed, case]}"
        # A value far below the cost is lost in payoff + cost.
        if ratio is None:
            assert not found, where
        elif ratio.value > 1e-6 * ratio.cost:
            answered += 1
            assert found, where
            least = min(f.cost / (f.payoff + f.cost) for f in found)
            assert ratio.cost / ratio.value == pytest.approx(least, rel=1e-9), where
        starts = [f.start for f in found if f.payoff > 1e-9]
        assert (-1 if late is None else late.schedule.start) >= max(starts, default=-1), where
        assert late is None or late.payoff > 0, where
    assert answered > rounds(6)


def test_scaling_money_changes_no_schedule() -> None:
    seed = fresh_seed()
    for case in range(rounds(50)):
        problem = random_problem(np.random.default_rng([seed, case]))
        rich = replace(
            problem,
            bid=replace(problem.bid, utility=problem.bid.utility.scaled(8.0)),
            prices=problem.prices * 8.0,
        )
        one, eight = answer(problem), answer(rich)
        assert (one and described(one)) == (eight and described(eight)), f"seed {[seed, case]}"
        if one is not None and eight is not None:
            assert eight.payoff == pytest.approx(8 * one.payoff, rel=1e-9, abs=1e-9)


def test_permuting_servers_changes_no_payoff() -> None:
    seed = fresh_seed()
    for case in range(rounds(50)):
        rng = np.random.default_rng([seed, case])
        problem = random_problem(rng)
        order = rng.permutation(len(problem.inventory.servers))
        inventory = problem.inventory
        turned = replace(
            problem,
            inventory=replace(
                inventory,
                servers=tuple(inventory.servers[s] for s in order),
                capacity=inventory.capacity[order].copy(),
            ),
            bid=replace(problem.bid, delay=tuple(problem.bid.delay[s] for s in order)),
            used=problem.used[:, order],
            prices=problem.prices[:, order],
        )
        here, there = answer(problem), answer(turned)
        assert (here is None) == (there is None), f"seed {[seed, case]}"
        if here is not None and there is not None:
            assert here.payoff == pytest.approx(there.payoff, rel=1e-9, abs=1e-9), f"seed {[seed, case]}"


def test_durations_too_large_for_machine_integers_are_still_exact() -> None:
    rng = np.random.default_rng(1)
    seen = 0
    for _ in range(60):
        problem = random_problem(rng)
        fine = Fraction(1, 10**30)
        bid = replace(problem.bid, worker_time=tuple(x + fine for x in problem.bid.worker_time))
        problem = replace(problem, bid=bid)
        found, response = rigid_exact.best(problem), answer(problem)
        assert (found is None) == (response is None)
        if found is not None and response is not None:
            seen += 1
            assert near(found.payoff, response.payoff, found.cost)
    assert seen > 5


@dataclass(frozen=True)
class Twice:
    """Prices by a function that is not the core's own."""

    rises_ahead: ClassVar[bool] = False

    def of(self, used: Ints, capacity: Ints, ahead: Ints) -> Floats:
        return np.where(capacity > 0, 2.0 * used, 0.0)


@dataclass(frozen=True, eq=False)
class Rising:
    """Prices that rise a little with what is used, and how many servers and slots were priced each time."""

    rises_ahead: ClassVar[bool] = False
    asked: list[int] = field(default_factory=list)

    def of(self, used: Ints, capacity: Ints, ahead: Ints) -> Floats:
        self.asked.append(used.size // used.shape[-1])
        return np.where(capacity > 0, 4.0 + used / (capacity + 1), 0.0)


def test_prices_may_be_given_as_a_function() -> None:
    problem = random_problem(np.random.default_rng(4))
    prices = Twice().of(problem.used, problem.inventory.capacity, slots_ahead(len(problem.used)))
    by_array = answer(replace(problem, prices=prices), -np.inf)
    index = RigidIndex(problem.inventory, len(problem.used))
    by_function = best_response(
        problem.bid,
        problem.inventory,
        start=problem.start,
        used=problem.used,
        prices=Twice(),
        above=-np.inf,
        first_start=problem.first_start,
        tail=problem.tail,
        index=index,
    )
    assert by_array == by_function
