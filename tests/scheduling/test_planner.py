"""The batch planner against a twin that asks the rigid best response for each job in turn."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from fractions import Fraction
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest
from numba.core.runtime import nrt

from scheduling.batch import capacity, planner
from scheduling.batch import kernel as batch_kernel
from scheduling.batch import options as batch_options
from scheduling.batch import search as batch_search
from scheduling.batch.capacity import FAR, CapacityTables, make_tables
from scheduling.batch.consumption import ConsumptionPrice
from scheduling.batch.maxweight import pack
from scheduling.batch.options import MachineTypes, Options
from scheduling.batch.planner import (
    NOTHING_FREED,
    Search,
    Tried,
    place_batch,
    plan_alone,
    plan_batch,
    plan_idle,
    shortest,
)
from scheduling.batch.search import ANY, Draft, Terms
from scheduling.best_response.rigid import durations as rigid_durations
from scheduling.best_response.rigid.durations import durations
from scheduling.book.ledger import Ledger
from scheduling.kernels import PLANNER, warm_up, warm_up_all
from scheduling.model.bid import Architecture, Bid
from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.progress import work_done
from scheduling.model.schedule import Placement, Role, Schedule
from scheduling.model.types import Ints
from scheduling.model.utility import Constant
from tests.draws import fresh_seed, rounds
from tests.scheduling.twins import planner_slow
from tests.scheduling.twins.rigid_cases import random_bid, random_inventory
from tests.scheduling.twins.rigid_exact import ps_count


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


def test_the_shortest_run_is_that_on_the_empty_cluster() -> None:
    rng, found = np.random.default_rng(fresh_seed()), 0
    for _ in range(rounds(20)):
        ledger = Ledger(random_inventory(rng), start=3, slots=int(rng.integers(2, 40)))
        for bid in a_batch(rng, ledger, "new"):
            now = replace(bid, arrival=3, delay=(0,) * len(bid.delay))
            alone = plan_alone(now, ledger)
            assert (alone is None) == (shortest(now, ledger) > 40)
            assert alone is None or alone.completion == 3 + shortest(now, ledger)
            found += alone is not None
    assert found > 0


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


def test_after_a_job_that_is_late_no_other_is_placed() -> None:
    seed, late, in_time = fresh_seed(), 0, 0
    for case in range(rounds(75)):
        rng = np.random.default_rng([seed, case])
        ledger = a_ledger(rng)
        bids, window = a_batch(rng, ledger, "job"), (ledger.start, ledger.end)
        due = {bid.id: int(rng.integers(ledger.start + 1, ledger.end + 1)) for bid in bids if rng.random() < 0.5}
        limits = np.array([due.get(bid.id, FAR) for bid in bids], np.int64)
        found = place_batch(bids, ledger, window, due=limits).schedules()
        expected = planner_slow.plan_batch(bids, ledger, [window])
        broken = (i for i, bid in enumerate(bids) if bid.id in due and not is_in_time(expected, bid.id, due[bid.id]))
        first = next(broken, len(bids))
        kept = {bid.id for bid in bids[:first]}
        assert found == {name: one for name, one in expected.items() if name in kept}, f"seed {[seed, case]}"
        late, in_time = late + (first < len(bids) - 1), in_time + (first == len(bids))
    assert late > rounds(5)
    assert in_time > rounds(5)


def is_in_time(schedules: Mapping[str, Schedule], name: str, due: int) -> bool:
    return name in schedules and schedules[name].completion <= due


def test_beyond_the_limit_of_later_starts_jobs_start_at_once_or_not_at_all() -> None:
    seed, at_once, unplaced = fresh_seed(), 0, 0
    for case in range(rounds(75)):
        rng = np.random.default_rng([seed, case])
        ledger = a_ledger(rng)
        bids, windows = a_batch(rng, ledger, "job", most=12), doubling_windows(ledger)
        later = int(rng.integers(0, 3))
        found = plan_batch(bids, ledger, windows, later=later)
        first = planner_slow.plan_batch(bids, ledger, windows, later=later)
        assert {name: found[name] for name in first} == first, f"seed {[seed, case]}"
        others = {name: one for name, one in found.items() if name not in first}
        assert all(one.start == ledger.start for one in others.values()), f"seed {[seed, case]}"
        for schedule in found.values():
            ledger.commit(schedule)
        left = [bid for bid in bids if bid.id not in found]
        if sum(one.start > ledger.start for one in found.values()) >= later:
            for bid in left:
                soonest = planner_slow.plan_batch([bid], ledger, [(ledger.start, ledger.end)])
                assert all(one.start > ledger.start for one in soonest.values()), f"seed {[seed, case]}"
        at_once, unplaced = at_once + len(others), unplaced + len(left)
    assert at_once > rounds(10)
    assert unplaced > rounds(10)


def doubling_windows(ledger: Ledger) -> list[tuple[int, int]]:
    return [(ledger.start, min(ledger.start + 2**i, ledger.end)) for i in range(1, 7)]


def test_a_search_never_raises_the_total_and_never_takes_a_machine_twice() -> None:
    seed, better = fresh_seed(), 0
    for case in range(rounds(75)):
        rng = np.random.default_rng([seed, case])
        ledger = a_ledger(rng)
        bids, windows = a_batch(rng, ledger, "job"), doubling_windows(ledger)
        weights = {bid.id: float(rng.integers(1, 9)) for bid in bids}
        bids = [replace(bid, utility=Constant(weights[bid.id])) for bid in bids]
        plain = plan_batch(bids, ledger, windows)
        found = plan_batch(bids, ledger, windows, search=Search(jobs=len(bids), effort=10**7))
        assert found.keys() >= plain.keys(), f"seed {[seed, case]}"
        totals = [sum(weights[name] * plan[name].completion for name in plain) for plan in (plain, found)]
        assert totals[1] <= totals[0] + 1e-6, f"seed {[seed, case]}"
        better += totals[1] < totals[0] - 1e-6
        for bid in bids:
            if bid.id in found:
                ledger.commit(found[bid.id])
                assert work_done(bid, found[bid.id].placements, until=found[bid.id].completion) >= bid.work
                for p in found[bid.id].placements:
                    assert p.start >= max(bid.arrival + bid.delay[p.server], ledger.start)
    assert better > 0


def test_a_draft_is_placed_alike_on_new_tables_and_after_others() -> None:
    seed, placed = fresh_seed(), 0
    for case in range(rounds(30)):
        rng = np.random.default_rng([seed, case])
        ledger = a_ledger(rng)
        bids = a_batch(rng, ledger, "job", most=9)
        cluster = planner._cluster_of(ledger)
        batch, most = cluster.batch(bids, ledger.start)
        weights, window = np.ones(len(bids)), np.array([0, len(ledger.used), 0])
        base, used = (make_tables(cluster.types, ledger.used, NOTHING_FREED, most=n) for n in (0, most))
        for turns in (rng.permutation(len(bids)) for _ in range(6)):
            found = []
            for tables, span in (
                (used, window),
                (make_tables(cluster.types, ledger.used, NOTHING_FREED, most=most), window.copy()),
            ):
                if tables is not used:
                    span[2] = 0
                out = planner._nothing(len(bids), len(ledger.inventory.servers))
                draft = Draft(
                    turns.copy(), np.full(len(bids), ANY), np.zeros_like(turns), np.zeros(len(bids), np.bool_)
                )
                terms = Terms(weights, np.zeros(len(bids)), span, np.zeros(1, np.int64))
                total = batch_search.improve(tables, base, batch, terms, turns[None], draft, out)
                counts = np.where(out.worker[:, np.newaxis] >= 0, out.counts, 0)  # others are left from a try in vain
                found.append((total, *(column.tolist() for column in (out.worker, out.start, out.end, counts))))
            assert found[0] == found[1], f"seed {[seed, case]}"
            placed += int((out.worker >= 0).sum())
            check_tables(used, f"seed {[seed, case]}")
    assert placed > rounds(60)


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


def test_a_plan_after_others_on_the_same_ledger_is_that_on_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    bounds = list[int]()

    def soonest(tried: Tried, bids: Sequence[Bid], free: Ints, start: int) -> Ints:
        found = original(tried, bids, free, start)
        bounds.append(int((found > 0).sum()))
        return found

    original = Tried.soonest
    monkeypatch.setattr(Tried, "soonest", soonest)
    seed, unplaced = fresh_seed(), 0
    for case in range(rounds(40)):
        rng = np.random.default_rng([seed, case])
        ledger, running = a_ledger(rng), list[Schedule]()
        line = a_batch(rng, ledger, "job", most=12)
        for step in range(6):
            later, windows = int(rng.integers(0, 9)), doubling_windows(ledger)
            search = Search(jobs=3, effort=10**4) if later and rng.random() < 0.3 else None
            found = plan_batch(line, ledger, windows, later=later, search=search)
            new = plan_batch(line, ledger.copy(), windows, later=later, search=search)
            assert found == new, f"seed {[seed, case]}"
            if rng.random() < 0.9:  # otherwise the plan was only a quote
                for schedule in found.values():
                    ledger.commit(schedule)
                running += found.values()
                line = [bid for bid in line if bid.id not in found]
            if running and rng.random() < 0.3:
                ledger.release(running.pop(int(rng.integers(len(running)))), from_slot=ledger.start)
            if rng.random() < 0.3:
                line += a_batch(rng, ledger, f"later{step}-", most=4)
            if rng.random() < 0.3:
                line = line[::-1]
            ledger.advance(ledger.start + int(rng.integers(0, 3)))
        unplaced += len(line)
    assert sum(bounds) > rounds(10)
    assert unplaced > 0


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


def machines_that_fit(free: Ints, demand: Ints) -> Ints:
    """Return the number of machines of a demand that fit the free units, in each row of resources."""
    wants = demand > 0
    return np.asarray((free[..., wants] // demand[wants]).min(axis=-1))


def fits_empty(inventory: Inventory, w: int, p: int | None, n: int, spread: int) -> bool:
    """Do n workers fit the empty cluster, all beside the PSs or at least one elsewhere? `p` is None in a ring."""
    worker, servers = inventory.worker_demand[w], range(len(inventory.servers))
    room = machines_that_fit(inventory.capacity, worker)
    if p is None:
        return bool(room.sum() >= n if spread else room.max() >= n)
    ratio = inventory.workers[w].bandwidth_mbps / inventory.parameter_servers[p].bandwidth_mbps
    return any(
        (g * worker + ps_count(n - g, ratio) * inventory.ps_demand[p] <= inventory.capacity[host]).all()
        and room.sum() - room[host] >= n - g
        for host in servers
        for g in (range(n) if spread else [n])
    )


def every_option(bid: Bid, inventory: Inventory, slots: int) -> Iterator[tuple[int, ...]]:
    """(-duration, workers, worker type, PS type, spread, fewest PSs); fewer workers would take longer."""
    ring = bid.architecture is Architecture.RING
    lengths = durations(bid, most=bid.chunks, slots=slots)
    for (spread, w, p, n), d in np.ndenumerate(lengths):
        fewest = 2 if ring and spread else 1
        quicker = n >= fewest and d <= slots and (lengths[spread, w, p, fewest:n] > d).all()
        if quicker and fits_empty(inventory, w, None if ring else p, n, spread):
            most = int(machines_that_fit(inventory.capacity, inventory.worker_demand[w]).max())
            ratio = inventory.workers[w].bandwidth_mbps / inventory.parameter_servers[p].bandwidth_mbps
            least = ps_count(n - min(most, n - 1), ratio) if spread else 1
            yield -int(d), n, w, -1 if ring else p, spread, 0 if ring else least


def as_listed(o: Options) -> Iterator[tuple[int, ...]]:
    for g in range(len(o.number)):
        ways = range(o.first[g], o.first[g + 1])
        assert bool(o.apart[g]) == any(o.spread[f] for f in ways)
        for f in ways:
            yield tuple(int(x) for x in (-o.duration[g], o.number[g], o.worker[g], o.ps[f], o.spread[f], o.least[f]))


def test_options_are_all_that_fit_the_empty_cluster_and_need_the_fewest_workers() -> None:
    seed, listed = fresh_seed(), 0
    for case in range(rounds(75)):
        rng = np.random.default_rng([seed, case])
        ledger = Ledger(random_inventory(rng), start=0, slots=int(rng.integers(2, 40)))
        for bid in a_batch(rng, ledger, "job"):
            found = list(as_listed(planner._cluster_of(ledger).options(bid)))
            expected = sorted(every_option(bid, ledger.inventory, ledger.end - ledger.start))
            assert found == expected, f"seed {[seed, case]}"
            listed += len(found)
    assert listed > rounds(75)


def test_no_option_of_a_group_fits_the_servers_that_can_be_used_before_it_is_ready() -> None:
    seed, late = fresh_seed(), 0
    for case in range(rounds(75)):
        rng = np.random.default_rng([seed, case])
        ledger = Ledger(random_inventory(rng), start=0, slots=int(rng.integers(2, 40)))
        for bid in a_batch(rng, ledger, "job"):
            options, delay = planner._cluster_of(ledger).options(bid), np.array(bid.delay)
            assert np.isin(options.ready, delay).all(), f"seed {[seed, case]}"
            for ready in np.unique(options.ready[options.ready > delay.min()]):
                capacity = np.where(delay[:, np.newaxis] < ready, ledger.inventory.capacity, 0)
                fitting = every_option(bid, replace(ledger.inventory, capacity=capacity), ledger.end - ledger.start)
                able = {(-length, n, w) for length, n, w, *_ in fitting}
                groups = zip(*(row.tolist() for row in (options.duration, options.number, options.worker)), strict=True)
                waits = {group for group, slot in zip(groups, options.ready, strict=True) if slot >= ready}
                assert not waits & able, f"seed {[seed, case]}"
                late += len(waits)
    assert late > rounds(75)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[CapacityTables]:
    """The tables of every batch that is planned."""
    kept: list[CapacityTables] = []

    def keep(types: MachineTypes, used: Ints, freed: Ints, *, most: int) -> CapacityTables:
        kept.append(make_tables(types, used, freed, most=most))
        return kept[-1]

    monkeypatch.setattr(planner, "make_tables", keep)
    return kept


def check_tables(tables: CapacityTables, where: str) -> None:
    """The tables match the free capacity; no bound refuses what fits, and a fresh one refuses all that does not fit."""
    built = int(tables.clock[1])
    for m, demand in enumerate(tables.types.demand):
        room = machines_that_fit(tables.free[:built], demand)
        assert (tables.room[m, :built] == room).all(), where
        assert (tables.total[m, :built] == room.sum(axis=1)).all(), where
        for start in range(built):
            window = np.minimum.accumulate(room[start:], axis=0)
            fresh = tables.seen[m, start] >= tables.touched[start]
            for table, fit in ((tables.sums, window.sum(axis=1)), (tables.largest, window.max(axis=1))):
                for n in range(1, table.shape[2]):
                    short = np.flatnonzero(fit < n)
                    end = start + int(short[0]) if len(short) else FAR
                    assert table[m, start, n] >= end or end == FAR, where
                    if fresh and end < tables.until[m, start]:
                        assert table[m, start, n] == end, where


def test_what_the_planner_knows_of_capacity_is_true_of_what_is_free(made: list[CapacityTables]) -> None:
    seed, placed = fresh_seed(), 0
    for case in range(rounds(20)):
        rng = np.random.default_rng([seed, case])
        ledger = a_ledger(rng)
        found = plan_batch(a_batch(rng, ledger, "job"), ledger, [(ledger.start, ledger.end)])
        tables, where = made.pop(), f"seed {[seed, case]}"
        for schedule in found.values():
            ledger.commit(schedule)
        free, built = ledger.inventory.capacity - ledger.used, tables.clock[1]
        assert (tables.free[:built] == free[:built]).all(), where
        assert (tables.used[built:] == ledger.used[built:]).all(), where
        last = max((schedule.completion - ledger.start for schedule in found.values()), default=0)
        assert tables.clock[1] >= last, where
        check_tables(tables, where)
        placed += len(found)
    assert placed > 0


def two_servers(capacity: int, *held: tuple[int, int, int]) -> Ledger:
    """Workers take one GPU each; all GPUs of a server are held from one slot to another."""
    inventory = Inventory(
        resources=("gpu",),
        servers=("a", "b"),
        cloud=(False, False),
        capacity=np.full((2, 1), capacity, np.int64),
        workers=(MachineType("w", (1,), Fraction(1)),),
        parameter_servers=(),
    )
    ledger = Ledger(inventory, start=0, slots=20)
    for server, start, end in held:
        placements = (Placement(start=start, end=end, role=Role.WORKER, server=server, type=0, count=capacity),)
        ledger.commit(Schedule(start=start, completion=end, placements=placements))
    return ledger


TWO_FOR_THREE_SLOTS = Bid(
    "job", 0, 1, 2, 3, (Fraction(1),), (), (Fraction(0),), (0, 0), Constant(1.0), Architecture.RING
)
"""Two workers for three slots, or one for six."""


def test_a_ring_takes_every_slot_before_the_first_in_which_its_workers_do_not_fit() -> None:
    ledger = two_servers(1, (1, 3, 20))
    both = tuple(Placement(start=0, end=3, role=Role.WORKER, server=s, type=0, count=1) for s in range(2))
    assert plan_batch([TWO_FOR_THREE_SLOTS], ledger, [(0, 20)]) == {"job": Schedule(0, 3, both)}


def test_a_bound_names_the_first_slot_up_to_which_too_few_workers_fit(made: list[CapacityTables]) -> None:
    # Two GPUs are free in each slot: on the second server in the first two slots, on the first one from then on.
    ledger = two_servers(2, (0, 0, 2), (1, 2, 20))
    assert plan_batch([TWO_FOR_THREE_SLOTS], ledger, [(0, 4)]) == {}
    (tables,) = made
    for table in (tables.sums, tables.largest):
        # Slot 1 is like slot 0, so no window from there on is looked at.
        assert table[0, :2, 1:3].tolist() == [[2, 2], [FAR, FAR]]
    check_tables(tables, "by hand")


def test_kernels_release_every_array_that_they_make_and_none_of_their_callers() -> None:
    warm_up(PLANNER)
    memory: Any = nrt
    memory._nrt.memsys_enable_stats()
    before = memory.rtsys.get_allocation_stats()
    for case in range(20):
        rng = np.random.default_rng([fresh_seed(), case])
        ledger = a_ledger(rng)
        plan_batch(a_batch(rng, ledger, "job"), ledger, doubling_windows(ledger), search=Search(jobs=8, effort=10**5))
    after = memory.rtsys.get_allocation_stats()
    memory._nrt.memsys_disable_stats()
    assert after.mi_alloc > before.mi_alloc
    assert after.mi_alloc - before.mi_alloc == after.mi_free - before.mi_free


def compiled() -> dict[str, int]:
    """Return the number of times that each kernel was compiled or loaded, by name."""
    modules = (planner, batch_kernel, batch_search, rigid_durations, batch_options, capacity)
    functions = {name: f for module in modules for name, f in vars(module).items() if hasattr(f, "signatures")}
    return {name: len(f.signatures) for name, f in functions.items()}


def compiled_by_warming_up_and_by_planning() -> tuple[dict[str, int], dict[str, int]]:
    warm_up_all()
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


@pytest.mark.thorough
def test_warming_up_leaves_nothing_to_compile() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        before, after = fresh.submit(compiled_by_warming_up_and_by_planning).result()
    assert min(before[name] for name in ("plan", "improve", "_keys", "_grouped", "release", "count_fitting")) == 1
    assert after == before
