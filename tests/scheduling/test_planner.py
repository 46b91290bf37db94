"""The batch planner against a twin that asks the rigid best response for each job in turn."""

from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from fractions import Fraction
from multiprocessing import get_context

import numpy as np

from scheduling import planner, rigid_batch, rigid_durations, rigid_options, rigid_rooms
from scheduling.bid import Architecture, Bid
from scheduling.consumption import ConsumptionPrice
from scheduling.kernels import warm_up
from scheduling.ledger import Ledger
from scheduling.maxweight import pack
from scheduling.planner import plan_alone, plan_batch, plan_idle
from scheduling.schedule import Placement, Schedule
from tests.draws import fresh_seed, rounds
from tests.scheduling.twins import planner_slow
from tests.scheduling.twins.rigid_cases import random_bid, random_inventory


def a_batch(rng: np.random.Generator, ledger: Ledger, name: str, *, most: int = 7) -> list[Bid]:
    """Jobs of both architectures, some of which have not arrived."""
    bids = []
    for i in range(int(rng.integers(1, most))):
        bid = random_bid(rng, ledger.inventory, start=ledger.start, slots=ledger.end - ledger.start)
        bid = replace(bid, id=f"{name}{i}", chunks=int(rng.integers(1, 12)))
        if rng.random() < 0.5:
            bid = replace(bid, delay=(0,) * len(bid.delay))
        if rng.random() < 0.4:
            time = Fraction(int(rng.integers(0, 9)), int(rng.integers(1, 13)))
            bid = replace(bid, architecture=Architecture.RING, reduce_time=time)
        bids.append(bid)
    return bids


def some_windows(rng: np.random.Generator, ledger: Ledger) -> list[tuple[int, int]]:
    """Doubling horizons, rounds one after the other, or one window that starts anywhere."""
    start, end = ledger.start, ledger.end
    kind = rng.random()
    if kind < 0.5:
        return [(start, min(start + 2**i, end)) for i in range(6)]
    length = int(rng.integers(1, 6))
    if kind < 0.8:
        return [(a, min(a + length, end)) for a in range(start, end, length)]
    return [(start + int(rng.integers(-2, 4)), end + int(rng.integers(-3, 1)))]


def a_ledger(rng: np.random.Generator) -> Ledger:
    """Some hold something, and the horizon has rolled."""
    ledger = Ledger(random_inventory(rng), start=0, slots=int(rng.integers(2, 40)))
    for schedule in planner_slow.plan_batch(a_batch(rng, ledger, "running"), ledger, [(0, ledger.end)]).values():
        ledger.commit(schedule)
    ledger.advance(int(rng.integers(0, 4)))
    return ledger


def placements(schedules: Iterable[Schedule]) -> tuple[Placement, ...]:
    return tuple(p for schedule in schedules for p in schedule.placements)


def test_it_places_as_best_responses_one_by_one_would() -> None:
    seed, placed = fresh_seed(), 0
    for case in range(rounds(75)):
        rng = np.random.default_rng([seed, case])
        ledger = a_ledger(rng)
        bids, windows = a_batch(rng, ledger, "job"), some_windows(rng, ledger)
        found = plan_batch(bids, ledger, windows)
        assert found == planner_slow.plan_batch(bids, ledger, windows), f"seed {[seed, case]}"
        placed += len(found)
    assert placed > rounds(25)


def test_what_jobs_give_up_counts_as_free() -> None:
    seed = fresh_seed()
    for case in range(rounds(25)):
        rng = np.random.default_rng([seed, case])
        ledger = a_ledger(rng)
        bids, windows = a_batch(rng, ledger, "job"), some_windows(rng, ledger)
        held = plan_batch(bids, ledger, windows)
        for schedule in held.values():
            ledger.commit(schedule)
        ledger.advance(ledger.start + int(rng.integers(0, 3)))
        freed, again = placements(held.values()), some_windows(rng, ledger)
        version = ledger.version
        found = plan_batch(bids, ledger, again, freed=freed)
        assert found == planner_slow.plan_batch(bids, ledger, again, freed=freed), f"seed {[seed, case]}"
        assert ledger.version == version


def test_no_jobs_and_no_windows_plan_nothing() -> None:
    ledger = a_ledger(np.random.default_rng(1))
    assert plan_batch([], ledger, [(0, 10)]) == {}
    assert plan_batch(a_batch(np.random.default_rng(1), ledger, "job"), ledger, []) == {}


def test_at_a_price_it_places_as_best_responses_one_by_one_would() -> None:
    seed, placed = fresh_seed(), 0
    for case in range(rounds(25)):
        rng = np.random.default_rng([seed, case])
        ledger = a_ledger(rng)
        bids, windows = a_batch(rng, ledger, "job"), some_windows(rng, ledger)
        prices = ConsumptionPrice(50.0, (1.0,) * len(ledger.inventory.resources))
        found = pack(bids, ledger, prices, windows)
        slow = planner_slow.plan_batch(bids, ledger, windows, prices=prices)
        assert found == slow, f"seed {[seed, case]}"
        placed += len(found)
    assert placed > rounds(6)


def compiled() -> dict[str, int]:
    """How often each kernel was compiled or loaded, by name."""
    modules = (planner, rigid_batch, rigid_durations, rigid_options, rigid_rooms)
    functions = {name: f for module in modules for name, f in vars(module).items() if hasattr(f, "signatures")}
    return {name: len(f.signatures) for name, f in functions.items()}


def compiled_by_warming_up_and_by_planning() -> tuple[dict[str, int], dict[str, int]]:
    warm_up()
    before = compiled()
    for seed in range(20):
        rng = np.random.default_rng(seed)
        ledger = a_ledger(rng)
        held = plan_batch(a_batch(rng, ledger, "job"), ledger, some_windows(rng, ledger))
        plan_batch(a_batch(rng, ledger, "job"), ledger, some_windows(rng, ledger), freed=placements(held.values()))
        for bid in a_batch(rng, ledger, "job"):
            plan_alone(bid, ledger)
            plan_idle(bid, ledger, first=ledger.start, end=ledger.end)
    return before, compiled()


def test_warming_up_leaves_nothing_to_compile() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        before, after = fresh.submit(compiled_by_warming_up_and_by_planning).result()
    assert min(before[name] for name in ("plan", "_keys", "_grouped", "give_back", "count_rooms")) == 1
    assert after == before
