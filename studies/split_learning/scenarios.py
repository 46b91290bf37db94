"""The two scenarios of the split-learning paper (Section VII), drawn from a seed.

Our choices where the paper is open: links have a whole number of Mbit/s, 72 % of them 1 to 10 and the others 11 to 20,
evenly within both, the same in both directions. In scenario 2 a device lies anywhere between two different measured
ones, each cut is the paper's or one layer from it (the second of VGG19 up to two before it), and a helper's memory is
what 1 to 12 of the largest clients take, drawn again until all clients take at most 85 % of it.
"""

from dataclasses import dataclass

import numpy as np

from scheduling.model.errors import InvalidField
from scheduling.model.types import Floats, Ints, Json
from scheduling.split_learning.instance import Instance
from studies.split_learning.measured_networks import (
    CLIENTS,
    GIB,
    HELPERS,
    KILOBIT_OF_KIB,
    Client,
    Device,
    Network,
    profiled,
)

SLOT_MS = {"resnet101": 180, "vgg19": 550}
SLOW_LINKS = 0.72
MEMORY = 16 * GIB
MOST_OF_MEMORY = 0.85
SECOND_CUTS = {"resnet101": (32, 33, 34), "vgg19": (21, 22, 23)}


@dataclass(frozen=True)
class Scenario:
    """One row of Table II; raises InvalidField."""

    number: int
    """1: measured devices and the paper's cuts; 2: interpolated devices, random cuts, helpers with little memory."""
    model: str
    clients: int
    helpers: int
    slot_ms: int | None = None
    """Slot length, ms; by default the paper's: 180 for ResNet101, 550 for VGG19."""
    kilobit_of_kib: float = KILOBIT_OF_KIB
    memory: int = MEMORY
    """Memory of a helper, bytes; in scenario 2 the largest value."""

    def __post_init__(self) -> None:
        if self.number not in (1, 2):
            raise InvalidField("number", f"expected 1 or 2, got {self.number}")
        if self.model not in SLOT_MS:
            raise InvalidField("model", f"expected one of {', '.join(SLOT_MS)}, got {self.model}")


TABLE_2 = tuple(
    Scenario(number, model, clients, helpers)
    for number in (1, 2)
    for model in SLOT_MS
    for clients, helpers in ((10, 2), (10, 5), (15, 5))
)
"""The twelve rows of Table II."""


def instance_of_scenario(document: Json) -> Instance:
    """Draw the instance of a scenario that `schemas.profile.ScenarioIn` has checked; raises InvalidField."""
    chosen = {"number": 1, **document}
    seed = chosen.pop("seed", 0)
    return draw(Scenario(**chosen), np.random.default_rng(seed))


def draw(scenario: Scenario, rng: np.random.Generator) -> Instance:
    """Draw devices, cuts, links and memory."""
    network = Network(scenario.model)
    if scenario.number == 1:
        helpers = [Device(HELPERS[int(k)]) for k in rng.integers(0, len(HELPERS), scenario.helpers)]
        clients = [
            Client(Device(CLIENTS[int(k)]), network.cuts) for k in rng.integers(0, len(CLIENTS), scenario.clients)
        ]
        capacity = np.full(scenario.helpers, scenario.memory, dtype=np.int64)
    else:
        helpers = [_between(HELPERS, rng) for _ in range(scenario.helpers)]
        clients = [Client(_between(CLIENTS, rng), _cuts(scenario.model, rng)) for _ in range(scenario.clients)]
        demand = np.array([network.demand(client.cuts) for client in clients], dtype=np.int64)
        capacity = _memory(demand, scenario, rng)
    rate = _links((scenario.helpers, scenario.clients), rng)
    return profiled(
        network,
        clients,
        helpers,
        up_mbps=rate,
        down_mbps=rate,
        capacity=capacity,
        slot_ms=scenario.slot_ms or SLOT_MS[scenario.model],
        kilobit_of_kib=scenario.kilobit_of_kib,
    )


def _between(names: tuple[str, ...], rng: np.random.Generator) -> Device:
    a, b = rng.choice(len(names), 2, replace=False).tolist()
    return Device(names[a], names[b], float(rng.random()))


def _cuts(model: str, rng: np.random.Generator) -> tuple[int, int]:
    return int(rng.integers(2, 5)), SECOND_CUTS[model][int(rng.integers(3))]


def _links(shape: tuple[int, int], rng: np.random.Generator) -> Floats:
    """Draw links in Mbit/s, I x J."""
    slow = rng.random(shape) < SLOW_LINKS
    rate: Floats = np.where(slow, rng.integers(1, 11, shape), rng.integers(11, 21, shape)).astype(np.float64)
    return rate


def _memory(demand: Ints, scenario: Scenario, rng: np.random.Generator) -> Ints:
    """Draw the bytes of each helper; the range grows if even its largest values would be too small."""
    most = 12
    while True:
        for _ in range(100):
            capacity: Ints = np.minimum(rng.integers(1, most + 1, scenario.helpers) * demand.max(), scenario.memory)
            if demand.sum() <= MOST_OF_MEMORY * capacity.sum():
                return capacity
        if most * int(demand.max()) > scenario.memory:
            raise InvalidField(
                "helpers",
                f"expected enough for {len(demand)} clients, got {scenario.helpers} of {scenario.memory} bytes",
            )
        most *= 2
