"""Small random elastic problems: scarce, full, delayed, with many ties, and bandwidths near one another."""

from fractions import Fraction

import numpy as np

from scheduling.model.bid import Bid
from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.types import Ints
from scheduling.model.utility import utility_from_json
from tests.scheduling.twins.elastic_exact import Problem


def random_inventory(rng: np.random.Generator, *, large: bool = False) -> Inventory:
    """Workers and PSs share no resource; some servers have both, most only one."""
    workers, pss = int(rng.integers(1, 3)), int(rng.integers(1, 3))
    servers = int(rng.integers(2, 6))
    mine, theirs = int(rng.integers(1, 3)), int(rng.integers(1, 3))
    capacity = rng.integers(0, 60 if large else 12, (servers, mine + theirs))
    for s in range(servers):
        if rng.random() < 0.9:
            capacity[s, slice(mine, None) if s % 2 else slice(mine)] = 0
    return Inventory(
        resources=tuple(f"r{i}" for i in range(mine + theirs)),
        servers=tuple(f"s{i}" for i in range(servers)),
        cloud=(False,) * servers,
        capacity=capacity.astype(np.int64),
        workers=tuple(_machine(rng, f"w{i}", [], mine, [0] * theirs, (1, 9)) for i in range(workers)),
        parameter_servers=tuple(_machine(rng, f"p{i}", [0] * mine, theirs, [], (6, 17)) for i in range(pss)),
    )


def _machine(
    rng: np.random.Generator, name: str, before: list[int], mine: int, after: list[int], rate: tuple[int, int]
) -> MachineType:
    demand = rng.integers(0, 4, mine)
    if not demand.any() or rng.random() < 0.4:
        demand[int(rng.integers(mine))] = 1
    bandwidth = Fraction(int(rng.integers(*rate)), int(rng.choice([1, 1, 3])))
    return MachineType(name, (*before, *(int(x) for x in demand), *after), bandwidth)


def random_bid(rng: np.random.Generator, inventory: Inventory, *, start: int, slots: int, chunks: int = 7) -> Bid:
    epochs, chunks, minibatches = (int(rng.integers(1, high)) for high in (5, chunks, 4))
    work = epochs * chunks * minibatches

    def times(share: float) -> list[Fraction]:
        """Slots of a mini-batch with which the work needs up to that share of the workers over all slots."""
        wanted = [share * chunks * slots * float(x) for x in rng.random(len(inventory.workers)) ** 2]
        return [Fraction(int(12 * x), 12 * work) for x in wanted]

    worker_time = times(0.7)
    if len(worker_time) > 1 and rng.random() < 0.4:
        worker_time[int(rng.integers(len(worker_time)))] = Fraction(slots + 1)
    return Bid(
        id="j",
        arrival=start + int(rng.integers(-2, 3)),
        epochs=epochs,
        chunks=chunks,
        minibatches=minibatches,
        worker_time=tuple(worker_time),
        ps_time=tuple(Fraction(int(x), 24 * work) for x in rng.choice([0, 0, 0, 7], len(inventory.parameter_servers))),
        transfer_time=tuple(times(0.2)),
        delay=tuple(int(x) for x in rng.choice([0, 0, 0, 1, 3], len(inventory.servers))),
        utility=utility_from_json(_utility(rng, slots)),
    )


def _utility(rng: np.random.Generator, slots: int) -> dict[str, object]:
    value = float(rng.choice([1.0, 50.0, 500.0, 3000.0]) * rng.random())
    if rng.random() < 0.3:
        value = float(np.ceil(value))
    forms: list[dict[str, object]] = [
        {"type": "constant", "v": value},
        {"type": "step", "v": value, "deadline": int(rng.integers(1, slots + 3))},
        {"type": "linear", "c": value, "b": value / 10},
        {"type": "linear", "c": value, "b": 1.0},
        {"type": "sigmoid", "g1": value, "g2": float(rng.choice([0.0, 0.5, 4.0])), "g3": int(rng.integers(0, slots))},
        {"type": "constant", "v": 0.0},
    ]
    return forms[int(rng.choice(len(forms), p=[0.2, 0.2, 0.2, 0.15, 0.2, 0.05]))]


def random_prices(rng: np.random.Generator, used: Ints) -> np.ndarray:
    """Any, whole numbers, two values only, the same in all slots, rising from slot to slot, or none."""
    kind = rng.random()
    prices = rng.random(used.shape) * rng.choice([0.1, 1.0, 10.0])
    if kind < 0.3:
        prices = np.floor(prices * 3)
    elif kind < 0.5:
        prices = np.where(rng.random(used.shape) < 0.3, 3.0, 1.0)
    elif kind < 0.6:
        prices[:] = prices[:1]
    elif kind < 0.8:
        prices[1:] = prices[0] + 0.1 * (prices[1:] * (rng.random((len(used) - 1, 1, 1)) < 0.8)).cumsum(axis=0)
    elif kind < 0.85:
        prices[:] = 0.0
    return np.asarray(prices)


def random_problem(rng: np.random.Generator, *, large: bool = False) -> Problem:
    inventory = random_inventory(rng, large=large)
    start, slots = int(rng.integers(0, 5)), int(rng.integers(2, 13))
    share = rng.random((slots, *inventory.capacity.shape)) * rng.choice([0.0, 0.3, 0.6, 1.0])
    used = np.minimum(np.floor(share * (inventory.capacity + 1)), inventory.capacity).astype(np.int64)
    kind = rng.random()
    if kind < 0.3:
        used[:] = used[0]
    elif kind < 0.6:  # sequences of equal slots
        used[:] = used[np.sort(rng.integers(0, slots, slots))]
    return Problem(
        bid=random_bid(rng, inventory, start=start, slots=slots, chunks=40 if large else 7),
        inventory=inventory,
        start=start,
        used=used,
        prices=random_prices(rng, used),
        first_start=start + int(rng.integers(0, 3)) if rng.random() < 0.3 else None,
    )


def random_knapsack(
    rng: np.random.Generator, *, slots: int = 0, servers: int = 0, chunks: int = 0, wanted: int = 0
) -> Problem:
    """One pair of types, many slots, and bandwidths such that PSs come in awkward steps: the bound leaves a gap."""
    slots = slots or int(rng.integers(5, 40))
    servers = servers or int(rng.integers(1, 4))
    chunks = chunks or int(rng.integers(3, 30))
    wanted = wanted or int(rng.integers(1, chunks * slots // 2))
    rates = [Fraction(int(rng.integers(10, 20))), Fraction(int(rng.integers(20, 80)))]
    capacity = np.zeros((2 * servers, 2), np.int64)
    capacity[:servers, 0], capacity[servers:, 1] = rng.integers(3, 16, (2, servers))
    used = np.minimum(rng.integers(0, 8, (slots, 2 * servers, 2)), capacity)
    if rng.random() < 0.5:
        used[:] = used[rng.integers(0, slots, slots) // 4]
    whole = rng.random() < 0.5
    prices = rng.integers(1, 5, used.shape).astype(np.float64) if whole else 1.0 + rng.random(used.shape)
    prices[..., 1] *= float(rng.integers(1, 6))
    if rng.random() < 0.5:
        prices[:] = prices[0]
    value = 30.0 * wanted
    forms: list[dict[str, object]] = [
        {"type": "constant", "v": value},
        {"type": "linear", "c": value, "b": float(rng.choice([0.01, 1.0, 20.0]))},
        {"type": "step", "v": value, "deadline": int(rng.integers(slots // 2, slots + 1))},
    ]
    return Problem(
        bid=Bid(
            id="j",
            arrival=0,
            epochs=1,
            chunks=chunks,
            minibatches=1,
            worker_time=(Fraction(wanted, chunks),),
            ps_time=(Fraction(0),),
            transfer_time=(Fraction(0),),
            delay=(0,) * (2 * servers),
            utility=utility_from_json(forms[int(rng.integers(3))]),
        ),
        inventory=Inventory(
            resources=("w", "p"),
            servers=tuple(f"s{s}" for s in range(2 * servers)),
            cloud=(False,) * (2 * servers),
            capacity=capacity,
            workers=(MachineType("w", (1, 0), rates[0]),),
            parameter_servers=(MachineType("p", (0, 1), rates[1]),),
        ),
        start=0,
        used=used,
        prices=prices,
    )
