"""The rigid best response against its twin, which is itself held against every placement there is."""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from time import thread_time
from typing import ClassVar, cast

import numpy as np
import pytest
from numba import njit

from scheduling.best_response.base import PAYOFF, slots_ahead
from scheduling.best_response.rigid import index as rigid_index
from scheduling.best_response.rigid.bounds import cheapest_slots
from scheduling.best_response.rigid.durations import durations
from scheduling.best_response.rigid.job import Job
from scheduling.best_response.rigid.kernel import Response, RigidIndex, RigidKernel, best_response, smallest_problem
from scheduling.best_response.rigid.tables import Tables
from scheduling.book.ledger import Ledger
from scheduling.model.bid import Architecture, Bid
from scheduling.model.ending import Ending
from scheduling.model.inventory import Inventory
from scheduling.model.schedule import Role
from scheduling.model.types import Floats, Ints
from scheduling.model.utility import Constant, Linear
from scheduling.pricing.price_function import eta_prices
from studies.workloads.generated.dps import Setting, draw_bid, draw_inventory
from tests.draws import fresh_seed, rounds
from tests.scheduling.twins import rigid_exact, rigid_milp
from tests.scheduling.twins.prices_slow import all_prices, random_reserve_prices
from tests.scheduling.twins.rigid_cases import random_bid, random_inventory, random_problem
from tests.scheduling.twins.rigid_exact import Found, Problem, Window

TOLERANCE = 1e-9


def answer(problem: Problem, above: float = 0.0, index: RigidIndex | None = None) -> Response | None:
    return best_response(
        problem.bid,
        problem.inventory,
        start=problem.start,
        used=problem.used,
        prices=problem.prices,
        above=above,
        first_start=problem.first_start,
        tail=problem.tail,
        index=index,
    )


def described(response: Response) -> tuple[object, ...]:
    workers = [p for p in response.schedule.placements if p.role is Role.WORKER]
    (ps,) = (p for p in response.schedule.placements if p.role is Role.PS)
    counts = tuple(sorted((p.server, p.count) for p in workers))
    schedule = response.schedule
    number = sum(count for _, count in counts)
    return schedule.completion, schedule.start, number, workers[0].type, ps.type, ps.server, ps.count, counts


def expected(found: Found) -> tuple[object, ...]:
    kinds = found.worker_type, found.ps_type
    return found.completion, found.start, found.workers, *kinds, found.host, found.pss, found.counts


def near(a: float, b: float, scale: float) -> bool:
    return abs(a - b) <= TOLERANCE * max(1.0, scale)


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


def every_placement(problem: Problem) -> Iterator[float]:
    """Payoffs of all placements whatever, by enumeration of workers on every server and the PS host."""
    bid, inventory = problem.bid, problem.inventory
    servers = range(len(inventory.servers))
    pairs = itertools.product(enumerate(inventory.workers), enumerate(inventory.parameter_servers))
    for (w, worker), (p, ps) in pairs:
        step = bid.worker_time[w] + bid.ps_time[p]
        for counts in itertools.product(range(bid.chunks + 1), repeat=len(servers)):
            n = sum(counts)
            if not 1 <= n <= bid.chunks:
                continue
            for host in servers:
                central = counts[host] == n
                k = step if central else step + bid.transfer_time[w]
                pss = rigid_exact.ps_count(n - counts[host], worker.bandwidth_mbps / ps.bandwidth_mbps)
                d = rigid_exact.duration(bid.work, k, n)
                demand = np.outer(counts, worker.demand)
                demand[host] += pss * np.array(ps.demand)
                for a in range(problem.start, problem.start + len(problem.used)):
                    window = problem.window(a, d)
                    if window is not None and fits(window, demand):
                        yield bid.utility.at(a + d - bid.arrival) - float((demand * window.price).sum())


def fits(window: Window, demand: Ints) -> bool:
    return bool(((demand <= window.free) | ((demand == 0).all(axis=1)[:, None])).all())


def test_the_twin_equals_every_placement_there_is() -> None:
    seed = fresh_seed()
    compared = 0
    for case in range(rounds(100)):
        problem = random_problem(np.random.default_rng([seed, case]))
        if problem.bid.chunks > 4 or len(problem.inventory.servers) > 3:
            continue
        compared += 1
        best = max(every_placement(problem), default=-np.inf)
        found = rigid_exact.best(problem, -np.inf)
        payoff = -np.inf if found is None else found.payoff
        assert payoff == pytest.approx(best, rel=1e-9, abs=1e-9), f"seed {[seed, case]}"
    assert compared > rounds(6)


def a_market(rng: np.random.Generator) -> RigidKernel:
    inventory = random_inventory(rng)
    ledger = Ledger(inventory, start=0, slots=10)
    count = len(inventory.resources)
    functions = [
        eta_prices([float(x) for x in 1 + 5 * rng.random(count)]),
        random_reserve_prices(rng, count, high=4.0),
    ]
    return RigidKernel(ledger, functions[int(rng.integers(2))], tail=int(rng.integers(2)))


def as_problem(market: RigidKernel, rng: np.random.Generator) -> Problem:
    ledger = market.ledger
    prices: Floats = market.prices.of(ledger.used, ledger.inventory.capacity, slots_ahead(len(ledger.used)))
    bid = random_bid(rng, ledger.inventory, start=ledger.start, slots=10)
    return Problem(bid, ledger.inventory, ledger.start, ledger.used, prices, tail=market.tail)


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
        assert (ratio is None) == (not found), where
        # Worth far below the cost is lost in payoff + cost.
        if ratio is not None and ratio.value > 1e-6 * ratio.cost:
            answered += 1
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


@pytest.mark.parametrize("reduce", [Fraction(10**17), Fraction(10**22 + 1, 10**13), Fraction(10**19 + 1, 10**10)])
def test_durations_of_rings_too_large_for_machine_integers_are_still_exact(reduce: Fraction) -> None:
    """A worker's own step is small: only what the others add is large."""
    _, drawn = smallest_problem()
    ring = replace(drawn, architecture=Architecture.RING, chunks=64, reduce_time=reduce, transfer_time=(Fraction(0),))
    most, slots = 64, 2**20
    found = durations(ring, most=most, slots=slots)
    for n in range(1, most + 1):
        time = ring.worker_time[0] + reduce * Fraction(n - 1, n)
        expected = min(slots + 1, max(1, math.ceil(ring.work * time / n)))
        assert found[:, 0, 0, n].tolist() == [expected, expected], n


@dataclass(frozen=True, eq=False)
class Fixed:
    """The same prices whatever is used."""

    rises_ahead: ClassVar[bool] = False
    prices: Floats

    def of(self, used: Ints, capacity: Ints, ahead: Ints) -> Floats:
        return np.where(capacity > 0, self.prices, 0.0)


@dataclass(frozen=True)
class Twice:
    """Prices by a function that is not the core's own."""

    rises_ahead: ClassVar[bool] = False

    def of(self, used: Ints, capacity: Ints, ahead: Ints) -> Floats:
        return np.where(capacity > 0, 2.0 * used, 0.0)


@dataclass(frozen=True, eq=False)
class Rising:
    """Prices that rise a little with what is used, and how many servers were priced each time."""

    rises_ahead: ClassVar[bool] = False
    asked: list[int] = field(default_factory=list)

    def of(self, used: Ints, capacity: Ints, ahead: Ints) -> Floats:
        self.asked.append(used.shape[1])
        return np.where(capacity > 0, 4.0 + used / (capacity + 1), 0.0)


def of_twelve_servers(rng: np.random.Generator) -> Inventory:
    drawn, servers = random_inventory(rng), 12
    capacity = rng.integers(0, 10, (servers, len(drawn.resources)))
    capacity[-1] *= 4
    return replace(drawn, servers=tuple(f"s{i}" for i in range(servers)), cloud=(False,) * servers, capacity=capacity)


def test_tables_refreshed_server_by_server_equal_those_built_at_once() -> None:
    seed = fresh_seed()
    for case in range(rounds(20)):
        rng = np.random.default_rng([seed, case])
        inventory, slots = of_twelve_servers(rng), int(rng.integers(1, 12))
        used, where = np.zeros((slots, *inventory.capacity.shape), np.int64), f"seed {[seed, case]}"
        warm, prices = RigidIndex(inventory, slots), Rising()
        warm.refresh(used, prices)
        for _ in range(4):
            changed = rng.choice(12, int(rng.integers(1, 4)), replace=False)
            low = int(rng.integers(slots))
            high = int(rng.integers(low, slots)) + 1
            now = used.copy()
            now[low:high, changed] = rng.integers(0, inventory.capacity[changed] + 1)
            different = int((now != used).any(axis=(0, 2)).sum())
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


def test_no_schedule_ends_after_the_value_is_gone_and_none_that_wins_is_lost() -> None:
    # One more slot of value, however little, may give a schedule; without it the slots beyond must not matter.
    seed, changed = fresh_seed(), 0
    for case in range(rounds(60)):
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
