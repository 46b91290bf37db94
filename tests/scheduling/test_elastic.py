"""The elastic best response against its twin and against integer programs."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from scheduling.best_response.base import slots_ahead
from scheduling.best_response.elastic.kernel import ElasticIndex, ElasticKernel, Response, best_response
from scheduling.book.ledger import Ledger
from scheduling.model.example import INVENTORY, job
from scheduling.model.schedule import Role
from scheduling.model.utility import Linear, Sigmoid
from scheduling.pricing.price_function import eta_prices
from tests.draws import fresh_seed, rounds
from tests.scheduling.tolerance import TOLERANCE, near
from tests.scheduling.twins import elastic_exact, elastic_milp
from tests.scheduling.twins.elastic_cases import random_bid, random_inventory, random_knapsack, random_problem
from tests.scheduling.twins.elastic_exact import Found, Problem, ps_count, worker_slots
from tests.scheduling.twins.prices_slow import all_prices, random_reserve_prices


def answer(problem: Problem, above: float = 0.0, index: ElasticIndex | None = None) -> Response | None:
    return best_response(
        problem.bid,
        problem.inventory,
        start=problem.start,
        used=problem.used,
        prices=problem.prices,
        above=above,
        first_start=problem.first_start,
        index=index,
    )


def check_like(problem: Problem, found: Found | None, response: Response | None, above: float, where: str) -> None:
    """The twin's payoff, its completion and types where prices are whole numbers, and a schedule that is one."""
    if found is None or response is None:
        either = found if response is None else response
        assert either is None or (above == 0.0 and either.payoff < TOLERANCE), where
        return
    assert near(found.payoff, response.payoff, found.cost), where
    w, p = check_schedule(problem, response, where)
    if (problem.prices == np.floor(problem.prices)).all():
        assert (found.completion, found.worker_type, found.ps_type) == (response.schedule.completion, w, p), where


def check_schedule(problem: Problem, response: Response, where: str) -> tuple[int, int]:
    """All constraints of problem (27), value and cost; returns the worker type and the PS type."""
    bid, inventory, schedule = problem.bid, problem.inventory, response.schedule
    placements = schedule.placements
    ((w, p),) = {
        (a.type, b.type) for a in placements for b in placements if a.role is Role.WORKER and b.role is Role.PS
    }
    used, cost = problem.used.copy(), 0.0
    counts: dict[Role, Counter[int]] = {role: Counter() for role in Role}
    for x in placements:
        demand = np.array(x.machine(inventory).demand)
        window = slice(x.start - problem.start, x.end - problem.start)
        used[window, x.server] += x.count * demand
        cost += x.count * float((problem.prices[window, x.server] @ demand).sum())
        assert x.count > 0, where
        assert x.start >= max(problem.start, problem.first_start or 0, bid.arrival + bid.delay[x.server]), where
        counts[x.role].update(dict.fromkeys(range(x.start, x.end), x.count))
    workers = counts[Role.WORKER]
    taken = [x for x in placements if x.role is Role.WORKER]
    assert (used <= inventory.capacity).all() or (problem.used > inventory.capacity).any(), where
    assert max(workers.values()) <= bid.chunks, where
    assert workers.total() == worker_slots(bid, w, p), where
    assert counts[Role.PS] == {
        t: ps_count(n, inventory.workers[w], inventory.parameter_servers[p]) for t, n in workers.items()
    }
    assert (schedule.start, schedule.completion) == (min(x.start for x in taken), max(x.end for x in taken)), where
    assert response.value == bid.utility.at(schedule.completion - bid.arrival), where
    assert near(response.cost, cost, cost), where
    return w, p


def test_the_kernel_equals_the_twin() -> None:
    seed = fresh_seed()
    answered = 0
    for case in range(rounds(500)):
        rng = np.random.default_rng([seed, case])
        problem = random_problem(rng, large=case % 2 == 1)
        above = -np.inf if rng.random() < 0.3 else 0.0
        found, response = elastic_exact.best(problem, above), answer(problem, above)
        answered += found is not None
        check_like(problem, found, response, above, f"seed {[seed, case]}: {found} but {response}")
    assert answered > rounds(62)


def test_the_kernel_closes_every_gap_above_its_bounds() -> None:
    seed = fresh_seed()
    for case in range(rounds(200)):
        problem = random_knapsack(np.random.default_rng([seed, case]))
        found, response = elastic_exact.best(problem), answer(problem)
        check_like(problem, found, response, 0.0, f"seed {[seed, case]}: {found} but {response}")


def test_kernel_and_twin_equal_an_integer_program() -> None:
    seed = fresh_seed()
    for case in range(rounds(16)):
        problem = random_problem(np.random.default_rng([seed, case]))
        best = elastic_milp.best_payoff(problem)
        for found in (elastic_exact.best(problem, -np.inf), answer(problem, -np.inf)):
            payoff = -np.inf if found is None else found.payoff
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
        found, response = elastic_exact.best(problem), answer(problem)
        want, got = (0.0 if x is None else x.payoff for x in (found, response))
        answered += want > 0
        assert abs(want - got) <= TOLERANCE * problem.bid.utility.value, f"seed {[seed, case]}"
    assert answered > rounds(2)


def as_market(problem: Problem) -> ElasticKernel:
    ledger = Ledger(problem.inventory, start=problem.start, slots=len(problem.used))
    ledger._used[:] = problem.used
    return ElasticKernel(ledger, problem.prices)


def at_steep_values(rng: np.random.Generator) -> Problem:
    """Values that fall by many decades from slot to slot, and prices that may, too."""
    problem = random_problem(rng)
    prices = 10 ** rng.uniform(-250, 5, len(problem.prices))[:, np.newaxis, np.newaxis]
    if rng.random() < 0.5:
        prices = 10 ** np.linspace(rng.uniform(-20, 20), rng.uniform(-250, 0), len(problem.prices))[:, None, None]
    utility = Sigmoid(float(10 ** rng.uniform(-6, 6)), float(10 ** rng.uniform(0, 2)), float(rng.uniform(0, 5)))
    return replace(
        problem,
        prices=prices * 10 ** rng.uniform(-3, 3, problem.prices.shape),
        bid=replace(problem.bid, utility=utility),
        first_start=None,
    )


def test_the_least_cost_per_value_is_found_among_values_of_any_size() -> None:
    seed = fresh_seed()
    small = 0
    for case in range(rounds(300)):
        problem, where = at_steep_values(np.random.default_rng([seed, case])), f"seed {[seed, case]}"
        worth, arrival = problem.bid.utility.at, problem.bid.arrival
        every = [(f.cost, worth(f.completion - arrival)) for f in elastic_exact.every(problem)]
        every = [(cost, value) for cost, value in every if value > 0 and cost / value < 1e290]
        response = as_market(problem).min_cost_per_value(problem.bid)
        if every:
            assert response is not None, where
            check_schedule(problem, response, where)
            least = min(cost / value for cost, value in every)
            assert response.cost / response.value == pytest.approx(least, rel=1e-7, abs=0), where
            small += response.value < 1e-6 * max(value for _, value in every)
    assert small > rounds(10)


def test_a_dear_early_slot_and_a_cheap_one_almost_without_value_are_compared_at_their_own_sizes() -> None:
    prices = np.zeros((8, 2, 2))
    prices[:, :, 0] = np.array([0.5, 1e-28, *[1e-27] * 6])[:, np.newaxis]
    bid = replace(job(), epochs=1, chunks=1, minibatches=1, utility=Sigmoid(1.0, 345.0, 0.0))
    problem = Problem(bid, INVENTORY, 0, np.zeros((8, 2, 2), np.int64), prices)
    assert [bid.utility.at(e) for e in (1, 2)] == pytest.approx([1.5e-150, 2.1e-300], rel=0.1, abs=0)
    response = as_market(problem).min_cost_per_value(bid)
    assert response is not None
    assert (response.schedule.completion, response.cost) == (1, 0.5)


@pytest.mark.parametrize("draw", [random_problem, at_wild_prices, random_knapsack])
def test_the_least_ratio_and_the_latest_start_are_those_of_all_schedules(
    draw: Callable[[np.random.Generator], Problem],
) -> None:
    seed = fresh_seed()
    for case in range(rounds(50)):
        problem = replace(draw(np.random.default_rng([seed, case])), first_start=None)
        market, where = as_market(problem), f"seed {[seed, case]}"
        worth = problem.bid.utility.at
        arrival = problem.bid.arrival
        every = [(f.cost, worth(f.completion - arrival)) for f in elastic_exact.every(problem)]
        ratios = [cost / value for cost, value in every if value > 0]
        ratio, late = market.min_cost_per_value(problem.bid), market.latest(problem.bid)
        assert (ratio is None) == (not ratios), where
        if ratio is not None:
            check_schedule(problem, ratio, where)
            assert ratio.cost / ratio.value == pytest.approx(min(ratios), rel=1e-9, abs=1e-12), where
        if late is None:
            found = elastic_exact.best(problem)
            assert found is None or found.payoff < TOLERANCE, where
        else:
            assert late.payoff > 0, where
            check_schedule(problem, late, where)
            later = elastic_exact.best(replace(problem, first_start=late.schedule.start + 1))
            assert later is None or later.payoff < TOLERANCE * max(1.0, later.cost), where
            for first in (problem.start, late.schedule.start - 1, late.schedule.start):
                assert market.best_of_last_start(problem.bid, first_start=first) == late, where
            assert market.best_of_last_start(problem.bid, first_start=late.schedule.start + 1) is None, where


def test_a_warm_index_answers_as_a_fresh_one() -> None:
    seed = fresh_seed()
    for case in range(rounds(20)):
        rng = np.random.default_rng([seed, case])
        inventory = random_inventory(rng, large=case % 2 == 1)
        ledger, count, admitted = Ledger(inventory, start=0, slots=12), len(inventory.resources), []
        functions = [
            eta_prices([float(x) for x in 1 + 5 * rng.random(count)]),
            random_reserve_prices(rng, count, high=40.0),
        ]
        posting = functions[0]
        market = ElasticKernel(ledger, posting)
        for _ in range(12):
            bid = random_bid(rng, inventory, start=ledger.start, slots=12, chunks=20)
            posted = posting.of(ledger.used, inventory.capacity, slots_ahead(12))
            warm, where = market.best(bid), f"seed {[seed, case]}"
            assert warm == answer(Problem(bid, inventory, ledger.start, ledger.used, posted)), where
            if warm is not None:
                ledger.commit(warm.schedule)
                admitted.append(warm.schedule)
            event = rng.random()
            if event < 0.2:
                ledger.advance(ledger.start + 1)
            elif event < 0.4 and admitted:
                ledger.release(admitted.pop(), from_slot=ledger.start)
            elif event < 0.5:
                posting = functions[int(rng.integers(2))]
                market = replace(market, prices=posting)


def test_scaling_money_changes_no_schedule() -> None:
    seed = fresh_seed()
    for case in range(rounds(50)):
        problem = random_problem(np.random.default_rng([seed, case]))
        bid = replace(problem.bid, utility=problem.bid.utility.scaled(8.0))
        one, eight = answer(problem), answer(replace(problem, bid=bid, prices=problem.prices * 8.0))
        assert (one and one.schedule) == (eight and eight.schedule), f"seed {[seed, case]}"
        assert (one and one.cost * 8.0) == (eight and eight.cost), f"seed {[seed, case]}"


def test_permuting_servers_changes_no_payoff() -> None:
    seed = fresh_seed()
    for case in range(rounds(50)):
        rng = np.random.default_rng([seed, case])
        problem = random_problem(rng)
        inventory, order = problem.inventory, rng.permutation(len(problem.inventory.servers))
        turned = replace(
            problem,
            inventory=replace(inventory, capacity=inventory.capacity[order].copy()),
            bid=replace(problem.bid, delay=tuple(problem.bid.delay[s] for s in order)),
            used=problem.used[:, order],
            prices=problem.prices[:, order],
        )
        here, there = answer(problem), answer(turned)
        assert (here is None) == (there is None), f"seed {[seed, case]}"
        if here is not None and there is not None:
            assert here.payoff == pytest.approx(there.payoff, rel=1e-9, abs=1e-9), f"seed {[seed, case]}"
            assert here.schedule.completion == there.schedule.completion, f"seed {[seed, case]}"


def test_work_too_fine_for_machine_integers_is_still_counted_exactly() -> None:
    rng, seen = np.random.default_rng(1), 0
    for _ in range(60):
        problem = random_problem(rng)
        fine = Fraction(1, 10**30)
        machines = [
            [replace(m, bandwidth_mbps=m.bandwidth_mbps * (1 + sign * fine)) for m in kind]
            for kind, sign in ((problem.inventory.workers, 1), (problem.inventory.parameter_servers, 2))
        ]
        inventory = replace(problem.inventory, workers=tuple(machines[0]), parameter_servers=tuple(machines[1]))
        bid = replace(problem.bid, worker_time=tuple(x + fine for x in problem.bid.worker_time))
        problem = replace(problem, bid=bid, inventory=inventory)
        found = elastic_exact.best(problem)
        seen += found is not None
        check_like(problem, found, answer(problem), 0.0, str(found))
    assert seen > 10


def test_the_pss_of_some_workers_are_the_fewest_with_as_much_bandwidth() -> None:
    """Constraint (6) as it is stated, for every number of workers that one slot may have."""
    seed, several = fresh_seed(), 0
    for case in range(rounds(30)):
        rng = np.random.default_rng([seed, case])
        inventory = random_inventory(rng, large=True)
        index = ElasticIndex(inventory, 8)
        for way in index.type_pairs(random_bid(rng, inventory, start=0, slots=8)):
            needed, wanted, each = index.pss_needed(way, 12), way.worker.bandwidth_mbps, way.ps.bandwidth_mbps
            assert way.pss(0) == 0, f"seed {[seed, case]}"
            for n in range(1, 13):
                k = way.pss(n)
                assert (k - 1) * each < n * wanted <= k * each, f"seed {[seed, case]}"
                several += k > 1
            assert needed.tolist() == [way.pss(n) for n in range(len(needed))], f"seed {[seed, case]}"
    assert several > 0


def test_prices_may_be_given_as_a_function() -> None:
    """Arrays are searched whole; by a function whose prices rise, slots that cannot pay are left out."""
    seed = fresh_seed()
    for case in range(rounds(60)):
        problem = random_problem(np.random.default_rng([seed, case]))
        rng = np.random.default_rng([seed, case, 1])
        function = random_reserve_prices(rng, problem.prices.shape[2], high=20.0)
        posted = function.of(problem.used, problem.inventory.capacity, slots_ahead(len(problem.used)))
        assert posted == pytest.approx(all_prices(function, problem.used, problem.inventory.capacity))
        by_array = answer(replace(problem, prices=posted))
        by_function = best_response(
            problem.bid,
            problem.inventory,
            start=problem.start,
            used=problem.used,
            prices=function,
            first_start=problem.first_start,
        )
        assert by_array == by_function, f"seed {[seed, case]}"
        bids = [problem.bid]
        if by_array is not None and by_array.cost > 0:  # and one that can hardly pay
            share = float(rng.uniform(0.5, 3.0)) * by_array.cost / by_array.value
            bids.append(replace(problem.bid, utility=problem.bid.utility.scaled(share)))
        one, other = as_market(replace(problem, prices=posted)), replace(as_market(problem), prices=function)
        for bid in bids:
            for above in (0.0, bid.utility.value / 2, -np.inf):
                assert one.best(bid, above=above) == other.best(bid, above=above), f"seed {[seed, case]}"
            assert one.min_cost_per_value(bid) == other.min_cost_per_value(bid), f"seed {[seed, case]}"
            assert one.latest(bid) == other.latest(bid), f"seed {[seed, case]}"


def test_twenty_thousand_worker_slots_on_a_hundred_servers_are_placed_as_the_twin_would() -> None:
    seed = fresh_seed()
    problem = random_knapsack(np.random.default_rng(seed), slots=300, servers=50, chunks=100, wanted=20_000)
    problem = replace(problem, bid=replace(problem.bid, utility=Linear(6e5, 1.0)))
    response = answer(problem)
    assert response is not None, f"seed {seed}"
    check_schedule(problem, response, f"seed {seed}")
    costs = dict(elastic_exact.costs(problem, 0, 0))
    best = max(problem.bid.utility.at(e) - cost for e, cost in costs.items())
    assert response.payoff == pytest.approx(best, rel=1e-9), f"seed {seed}"
    assert response.cost == pytest.approx(costs[response.schedule.completion], rel=1e-9), f"seed {seed}"
