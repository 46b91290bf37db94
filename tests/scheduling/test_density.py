"""What a bid offers per unit-slot of each resource, counted by hand."""

from dataclasses import replace
from fractions import Fraction

import numpy as np

from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.utility import Constant, Linear, Step
from scheduling.pricing.density import density, elastic_density
from tests.scheduling import test_dps, test_oasis

ONE = Fraction(1)


def test_each_type_is_tried_beside_the_fastest_of_the_other_role() -> None:
    kinds = Inventory(
        resources=("fast gpu", "slow gpu", "fast ps", "slow ps"),
        servers=("edge", "cloud"),
        cloud=(False, True),
        capacity=np.full((2, 4), 8, dtype=np.int64),
        workers=(MachineType("fast", (2, 0, 0, 0), ONE), MachineType("slow", (0, 1, 0, 0), ONE)),
        parameter_servers=(MachineType("fast", (0, 0, 1, 0), ONE), MachineType("slow", (0, 0, 0, 1), ONE)),
    )
    # Four mini-batches on at most two workers; worth 12 less a slot for each slot.
    bid = replace(
        test_dps.bid(Linear(12, 1)),
        worker_time=(ONE, 2 * ONE),
        ps_time=(Fraction(0), ONE),
        transfer_time=(Fraction(0),) * 2,
    )
    # Fast workers: two for two slots. Slow ones: two for four slots.
    assert density(bid, kinds, horizon=8) == (10 / 4 / 2, 8 / 8, 10 / 2, 8 / 4)
    # By slot 3 only the fast ones are through, and two at once.
    assert density(bid, kinds, horizon=3) == (10 / 4 / 2, 0, 10 / 2, 0)


def test_a_job_that_is_complete_at_the_horizon_is_complete_in_time() -> None:
    assert density(test_dps.bid(Step(12, 2)), test_dps.INVENTORY, horizon=2) == (12 / 4, 12 / 2)
    late = test_dps.bid(Constant(12), delay=(3, 4))
    assert density(late, test_dps.INVENTORY, horizon=2) == (0, 0)
    assert density(late, test_dps.INVENTORY, horizon=5) == (12 / 4, 12 / 2)


def test_an_elastic_job_takes_as_many_workers_as_servers_hold_and_the_rest_in_its_last_slot() -> None:
    inventory = test_oasis.INVENTORY
    # Nine worker-slots: three workers with two PSs, of two vCPUs each, three times.
    nine = test_oasis.bid(Constant(12), epochs=3)
    assert elastic_density(nine, inventory, horizon=3) == (12 / 9, 12 / 6 / 2)
    # Four chunks on three GPUs: three workers with two PSs, then one with one.
    four = test_oasis.bid(Constant(12), epochs=1, chunks=4)
    assert elastic_density(four, inventory, horizon=2) == (12 / 4, 12 / 3 / 2)
    # One PS has the bandwidth of two workers.
    small = replace(inventory, capacity=np.array([[2, 0], [1, 0], [0, 3]], dtype=np.int64))
    assert elastic_density(four, small, horizon=2) == (12 / 4, 12 / 2 / 2)
    # A later bid has less time for it.
    assert elastic_density(replace(four, delay=(1, 2, 1)), inventory, horizon=3) == (12 / 4, 12 / 3 / 2)
    assert elastic_density(replace(four, delay=(1, 2, 1)), inventory, horizon=2) == (0, 0)


def test_where_no_machine_fits_an_elastic_job_offers_nothing() -> None:
    none = replace(test_oasis.INVENTORY, capacity=np.array([[2, 0], [1, 0], [0, 1]], dtype=np.int64))
    assert elastic_density(test_oasis.bid(Constant(12)), none, horizon=4) == (0, 0)
