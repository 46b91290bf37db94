"""What a job consumes at least, and the order that follows from it."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from scheduling.batch.consumption import (
    consumption_price,
    consumptions,
    least_consumption,
    offers_for_each_kind,
)
from scheduling.best_response.base import slots_ahead
from scheduling.book.ledger import Ledger
from scheduling.model import example
from scheduling.model.bid import Architecture, Bid
from scheduling.model.inventory import Inventory, MachineType
from tests.draws import fresh, fresh_seed
from tests.scheduling.twins.weighted_cases import random_instance


def every_run(bid: Bid, inventory: Inventory) -> list[tuple[Fraction, list[int]]]:
    """Volume and unit-slots of each type and number of workers, in exact arithmetic."""
    share = [Fraction(1, int(total)) if total else Fraction(0) for total in inventory.capacity.sum(axis=0)]
    pss = [(p.demand, time) for p, time in zip(inventory.parameter_servers, bid.ps_time, strict=True)]
    ring = bid.architecture is Architecture.RING
    runs = []
    for worker, step in zip(inventory.workers, bid.worker_time, strict=True):
        for demand, ps_step in [((0,) * len(share), Fraction(0))] if ring else pss:
            for n in range(1, bid.chunks + 1):
                pace = step + ps_step + (bid.reduce_time * Fraction(n - 1, n) if ring else 0)
                slots = max(1, math.ceil(bid.work * pace / n))
                units = [slots * (n * w + p) for w, p in zip(worker.demand, demand, strict=True)]
                runs.append((sum((unit * part for unit, part in zip(units, share, strict=True)), Fraction(0)), units))
    return runs


@pytest.mark.parametrize("architecture", Architecture)
def test_it_is_the_least_over_all_types_and_counts(architecture: Architecture) -> None:
    seed = fresh_seed()
    rng = np.random.default_rng(seed)
    for _ in range(40):
        # One large server: whatever the number of workers, they fit.
        instance = random_instance(rng, architecture, jobs=2, servers=1)
        inventory = replace(instance.inventory, capacity=instance.inventory.capacity * 10)
        for bid in instance.bids:
            found = least_consumption(bid, inventory)
            least = min(volume for volume, _ in every_run(bid, inventory))
            assert found.volume == pytest.approx(float(least)), f"seed {seed}"
            used = np.array(found.units) / inventory.capacity.sum(axis=0)
            assert found.volume == pytest.approx(float(used.sum())), f"seed {seed}"


def test_only_rings_take_time_to_reduce() -> None:
    served = replace(example.job(), reduce_time=Fraction(3))
    assert least_consumption(served, example.INVENTORY) == least_consumption(example.job(), example.INVENTORY)


@pytest.mark.parametrize("architecture", Architecture)
def test_for_each_kind_a_job_offers_what_it_would_for_its_least_run_on_that_kind(architecture: Architecture) -> None:
    """Resources are kinds of machines here: each of the machines takes a resource of its own, besides those it took."""
    rng, seed = fresh()
    for _ in range(20):
        instance = random_instance(rng, architecture, jobs=2, servers=1)
        inventory = in_kinds(instance.inventory)
        for bid in instance.bids:
            offers, runs = offers_for_each_kind(bid, inventory, 5.0), every_run(bid, inventory)
            for r, offer in enumerate(offers):
                using = [run for run in runs if run[1][r] > 0]
                least = min((volume for volume, _ in using), default=None)
                able = [5.0 / units[r] for volume, units in using if volume == least] or [0.0]
                assert any(offer == pytest.approx(one) for one in able), f"seed {seed}"


def test_with_one_kind_of_machine_a_job_offers_as_much_as_for_its_least_consumption() -> None:
    instance = random_instance(np.random.default_rng(5), Architecture.RING)
    inventory = replace(instance.inventory, workers=instance.inventory.workers[:1])
    for bid in instance.bids:
        only = replace(bid, worker_time=bid.worker_time[:1], transfer_time=bid.transfer_time[:1])
        assert offers_for_each_kind(only, inventory, 5.0) == least_consumption(only, inventory).densities(5.0)


def in_kinds(inventory: Inventory) -> Inventory:
    """Return servers on which each type of machine takes one unit of a resource of its own, too."""
    types = len(inventory.workers) + len(inventory.parameter_servers)

    def own(machine: MachineType, kind: int) -> MachineType:
        return replace(machine, demand=(*machine.demand, *(int(kind == k) for k in range(types))))

    return replace(
        inventory,
        resources=(*inventory.resources, *(f"kind {k}" for k in range(types))),
        capacity=np.hstack([inventory.capacity * 10, np.full((len(inventory.capacity), types), 50)]),
        workers=tuple(own(machine, k) for k, machine in enumerate(inventory.workers)),
        parameter_servers=tuple(
            own(machine, k) for k, machine in enumerate(inventory.parameter_servers, start=len(inventory.workers))
        ),
    )


@pytest.mark.parametrize("architecture", Architecture)
def test_it_does_not_depend_on_the_unit_a_resource_is_counted_in(architecture: Architecture) -> None:
    instance = random_instance(np.random.default_rng(1), architecture)
    inventory = instance.inventory
    factor = np.array([1, 1024])

    def finer(demand: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(int(units) for units in np.array(demand) * factor)

    scaled = replace(
        inventory,
        capacity=inventory.capacity * factor,
        workers=tuple(replace(machine, demand=finer(machine.demand)) for machine in inventory.workers),
        parameter_servers=tuple(
            replace(machine, demand=finer(machine.demand)) for machine in inventory.parameter_servers
        ),
    )
    for bid in instance.bids:
        assert least_consumption(bid, scaled).volume == pytest.approx(least_consumption(bid, inventory).volume)


def test_a_machine_that_fits_nowhere_is_not_counted() -> None:
    instance = random_instance(np.random.default_rng(2), Architecture.RING)
    inventory, bid = instance.inventory, instance.bids[0]
    huge = replace(inventory.workers[0], demand=(1000, 1))
    only = replace(inventory, workers=(huge, inventory.workers[1]))
    without = replace(inventory, workers=(inventory.workers[1],))
    second = replace(bid, worker_time=bid.worker_time[1:], transfer_time=bid.transfer_time[1:])
    assert least_consumption(bid, only) == least_consumption(second, without)
    nothing = least_consumption(second, replace(inventory, workers=(huge,)))
    assert (nothing.volume, nothing.density(5.0), set(nothing.densities(5.0))) == (0.0, 0.0, {0.0})


def test_what_a_ledger_remembers_is_what_would_be_found_again() -> None:
    instance = random_instance(np.random.default_rng(3), Architecture.PS)
    ledger = Ledger(instance.inventory, start=1, slots=8)
    first = consumptions(instance.bids, ledger)
    changed = (replace(instance.bids[0], minibatches=7), *instance.bids[1:])
    again = consumptions(changed, ledger)
    assert again[changed[0].id] == least_consumption(changed[0], instance.inventory) != first[changed[0].id]
    assert all(again[bid.id] is first[bid.id] for bid in instance.bids[1:])


def test_the_price_is_counted_in_the_least_density_there_is() -> None:
    instance = random_instance(np.random.default_rng(4), Architecture.PS)
    inventory = instance.inventory
    weights = [(bid.utility.value, least_consumption(bid, inventory)) for bid in instance.bids]
    full = consumption_price(10.0, weights, inventory).of(inventory.capacity[None], inventory.capacity, slots_ahead(1))
    least = min(consumption.density(weight) for weight, consumption in weights)
    assert full[0] * inventory.capacity.sum(axis=0) == pytest.approx(np.full(inventory.capacity.shape, 9 * least))
