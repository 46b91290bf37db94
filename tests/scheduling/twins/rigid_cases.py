"""Small random rigid problems: scarce, full, delayed, one-hot and vector demands."""

from fractions import Fraction

import numpy as np

from scheduling.model.bid import Bid
from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.utility import utility_from_json
from tests.scheduling.twins.rigid_exact import Problem


def random_inventory(rng: np.random.Generator) -> Inventory:
    workers, pss, servers = (int(rng.integers(1, high)) for high in (4, 4, 5))
    one_hot = rng.random() < 0.6
    resources = workers + pss if one_hot else int(rng.integers(1, 4))
    if one_hot:
        demands = [tuple(int(x) for x in row) for row in np.eye(resources, dtype=int)]
    else:
        demands = [_demand(rng, resources) for _ in range(workers + pss)]
    ratios = [Fraction(int(rng.integers(1, 9)), int(rng.integers(1, 7))) for _ in range(workers + pss)]
    types = [MachineType(f"m{i}", demand, ratio) for i, (demand, ratio) in enumerate(zip(demands, ratios, strict=True))]
    capacity = rng.integers(0, 5 if one_hot else 10, (servers, resources))
    if rng.random() < 0.3:
        capacity[-1] *= 4
    return Inventory(
        resources=tuple(f"r{i}" for i in range(resources)),
        servers=tuple(f"s{i}" for i in range(servers)),
        cloud=(False,) * servers,
        capacity=capacity.astype(np.int64),
        workers=tuple(types[:workers]),
        parameter_servers=tuple(types[workers:]),
    )


def _demand(rng: np.random.Generator, resources: int) -> tuple[int, ...]:
    demand = rng.integers(0, 4, resources)
    if not demand.any():
        demand[int(rng.integers(resources))] = 1
    return tuple(int(x) for x in demand)


def random_bid(rng: np.random.Generator, inventory: Inventory, *, start: int, slots: int) -> Bid:
    def times(count: int) -> tuple[Fraction, ...]:
        return tuple(Fraction(int(rng.integers(0, 5)), int(rng.integers(1, 13))) for _ in range(count))

    return Bid(
        id="j",
        arrival=start + int(rng.integers(-2, 3)),
        epochs=int(rng.integers(1, 4)),
        chunks=int(rng.integers(1, 7)),
        minibatches=int(rng.integers(1, 4)),
        worker_time=times(len(inventory.workers)),
        ps_time=times(len(inventory.parameter_servers)),
        transfer_time=times(len(inventory.workers)),
        delay=tuple(int(x) for x in rng.choice([0, 0, 1, 2, 4], len(inventory.servers))),
        utility=utility_from_json(_utility(rng, slots)),
    )


def _utility(rng: np.random.Generator, slots: int) -> dict[str, object]:
    value = float(rng.choice([1.0, 20.0, 1000.0]) * rng.random())
    forms: list[dict[str, object]] = [
        {"type": "constant", "v": value},
        {"type": "step", "v": value, "deadline": int(rng.integers(1, slots + 3))},
        {"type": "linear", "c": value, "b": value / 10},
    ]
    return forms[int(rng.integers(3))]


def random_problem(rng: np.random.Generator) -> Problem:
    inventory = random_inventory(rng)
    start, slots = int(rng.integers(0, 5)), int(rng.integers(2, 11))
    share = rng.random((slots, *inventory.capacity.shape)) * rng.choice([0.0, 0.3, 0.6, 1.0])
    used = np.minimum(np.floor(share * (inventory.capacity + 1)), inventory.capacity).astype(np.int64)
    if rng.random() < 0.3:
        used[:] = used[0]
    kind = rng.random()
    prices = rng.random(used.shape) * rng.choice([0.1, 1.0, 30.0])
    if kind < 0.3:
        prices = np.floor(prices * 3)
    elif kind < 0.4:
        prices[:] = 0.0
    return Problem(
        bid=random_bid(rng, inventory, start=start, slots=slots),
        inventory=inventory,
        start=start,
        used=used,
        prices=prices,
        first_start=start + int(rng.integers(0, 3)) if rng.random() < 0.3 else None,
        tail=int(rng.random() < 0.3),
    )
