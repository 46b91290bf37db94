"""Instances made of a profile: devices, a model and cuts, links in Mbit/s, memory in GB, slots in ms.

{"model": "resnet101", "slot_ms": 180, "mbps": 10,
 "helpers": [{"name": "rack", "device": "vm", "memory_gb": 16}],
 "clients": [{"name": "pi", "device": "rpi4", "up_mbps": 4}, {"device": "jetson-gpu", "cuts": [2, 33]}],
 "links": [{"client": "pi", "helper": "rack", "mbps": 25}]}
"""

from math import ceil, floor

import numpy as np

from scheduling.model.errors import InvalidField
from scheduling.model.types import Floats, Ints, Json
from scheduling.model.validation import shown
from scheduling.split_learning.instance import GIGABYTE, Instance
from studies.split_learning.measured_networks import Client, Device, Network, profiled
from studies.split_learning.scenarios import SLOT_MS

"""Keys of rates: both directions, client to helper, and back; the last two take precedence over the first."""


def instance_of_profile(profile: Json) -> Instance:
    """Convert a checked profile to slots.

    Parameters
    ----------
    profile
        The document that `schemas.profile.ProfileIn` has checked: rates as numbers, memory in GB as fractions.

    Raises
    ------
    InvalidField
        If two fields do not fit each other: a cut beyond the layers of the model, a device without times for its
        layers, an unknown name, a link without a rate, or too little memory. The field and the name of the client or
        helper are in the message.
    """
    network = Network(profile["model"])
    helpers, clients = _named("helper", profile["helpers"]), _named("client", profile["clients"])
    names = tuple(tuple(row["name"] for row in rows) for rows in (helpers, clients))
    of_all = _cuts("cuts", profile, network, "every client", network.cuts)
    devices = [
        Client(_device(row), _cuts(f"clients[{j}].cuts", row, network, row["name"], of_all))
        for j, row in enumerate(clients)
    ]
    machines = [_device(row) for row in helpers]
    _check_times(network, devices, machines, names)
    up, down = _links(profile, clients, names)
    return profiled(
        network,
        devices,
        machines,
        up_mbps=up,
        down_mbps=down,
        capacity=_capacity(helpers),
        slot_ms=profile.get("slot_ms", SLOT_MS[network.name]),
        demand=_demand(network, devices, clients),
        names=(names[0], names[1]),
    )


def _named(kind: str, rows: list[Json]) -> list[Json]:
    """Return the rows, each with a name."""
    return [{"name": f"{kind}-{n + 1}", **row} for n, row in enumerate(rows)]


def _device(row: Json) -> Device:
    return Device(row["device"], row.get("other"), row.get("share", 0.0))


def _cuts(field: str, row: Json, network: Network, who: str, otherwise: tuple[int, int]) -> tuple[int, int]:
    """Return the row's cuts, or the other ones if it has none."""
    if "cuts" not in row:
        return otherwise
    first, second = row["cuts"]
    if not first < second < network.layers:
        problem = f"expected 1 <= first < second < {network.layers} layers of {network.name}, got {row['cuts']} ({who})"
        raise InvalidField(field, problem)
    return first, second


def _check_times(
    network: Network, clients: list[Client], helpers: list[Device], names: tuple[tuple[str, ...], ...]
) -> None:
    """Check that every device has times for its layers, so that an error can name the client or helper."""
    for j, client in enumerate(clients):
        for first, last in ((1, client.cuts[0]), (client.cuts[1] + 1, network.layers)):
            _check_spans(f"clients[{j}].device", network, client.device, (first, last), names[1][j])
    for i, helper in enumerate(helpers):
        for first, second in sorted({client.cuts for client in clients}):
            _check_spans(f"helpers[{i}].device", network, helper, (first + 1, second), names[0][i])


def _check_spans(field: str, network: Network, device: Device, layers: tuple[int, int], who: str) -> None:
    try:
        network.spans(device, *layers)
    except InvalidField as error:
        raise InvalidField(field, f"{error.problem} ({who})") from None


def _links(profile: Json, clients: list[Json], names: tuple[tuple[str, ...], ...]) -> tuple[Floats, Floats]:
    """Return Mbit/s to helpers and back, I x J; a link's rate overrides a client's, a client's the default."""
    both = np.zeros((2, len(names[0]), len(names[1])))
    of_all = _rates(profile, (0.0, 0.0))
    for j, row in enumerate(clients):
        both[:, :, j] = np.array(_rates(row, of_all))[:, None]
    places = [{name: n for n, name in enumerate(known)} for known in names]
    for n, link in enumerate(profile.get("links", [])):
        i, j = (
            _index(f"links[{n}].{kind}", link[kind], known)
            for kind, known in zip(("helper", "client"), places, strict=True)
        )
        both[:, i, j] = _rates(link, (both[0, i, j], both[1, i, j]))
    missing = np.argwhere(both.min(axis=0) == 0)
    if len(missing):
        i, j = (int(x) for x in missing[0])
        problem = f"expected a rate for each link, got none for client {names[1][j]} and helper {names[0][i]}"
        raise InvalidField(f"clients[{j}].mbps", problem)
    return both[0], both[1]


def _rates(row: Json, otherwise: tuple[float, float]) -> tuple[float, float]:
    """Return the rates up and down."""
    up, down = otherwise
    if "mbps" in row:
        up = down = row["mbps"]
    return row.get("up_mbps", up), row.get("down_mbps", down)


def _index(field: str, name: str, known: dict[str, int]) -> int:
    if name not in known:
        raise InvalidField(field, f"expected one of {', '.join(list(known)[:10])}, got {shown(name)}")
    return known[name]


def _capacity(helpers: list[Json]) -> Ints:
    """Return the memory of helpers, bytes."""
    for n, row in enumerate(helpers):
        if "memory_gb" not in row:
            raise InvalidField(f"helpers[{n}].memory_gb", "missing")
    return np.array([floor(row["memory_gb"] * GIGABYTE) for row in helpers], dtype=np.int64)


def _demand(network: Network, devices: list[Client], rows: list[Json]) -> Ints:
    """Return the stated memory, else that of the weights and activations of the helper's part; bytes."""
    found = [
        ceil(row["demand_gb"] * GIGABYTE) if "demand_gb" in row else network.demand(device.cuts)
        for device, row in zip(devices, rows, strict=True)
    ]
    return np.array(found, dtype=np.int64)
