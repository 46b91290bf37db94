"""Instances in measured units: devices, a model and cuts, links in Mbit/s, memory in GB, slots in ms.

{"model": "resnet101", "slot_ms": 180, "mbps": 10,
 "helpers": [{"name": "rack", "device": "vm", "memory_gb": 16}],
 "clients": [{"name": "pi", "device": "rpi4", "up_mbps": 4}, {"device": "jetson-gpu", "cuts": [2, 33]}],
 "links": [{"client": "pi", "helper": "rack", "mbps": 25}]}
"""

from fractions import Fraction
from math import ceil, floor
from typing import Final

import numpy as np

from scheduling.model.errors import InvalidField
from scheduling.model.types import Floats, Ints, Json
from scheduling.model.validation import check_fraction, check_integer, check_list, check_number, check_object, shown
from scheduling.split_learning.document import GIGABYTE
from scheduling.split_learning.instance import MOST_CLIENTS, MOST_HELPERS, Instance
from studies.split_learning.profile import Client, Device, Network, profiled
from studies.split_learning.scenarios import SLOT_MS

LARGEST_GB: Final = 10**8
LEAST_MBPS: Final = 0.001
LARGEST_MBPS: Final = 10**6
DEVICE: Final = ("device", "other", "share")
"""Keys of a measured device, or of a linear mixture of its times with the share of another device."""
RATES: Final = ("mbps", "up_mbps", "down_mbps")
"""Keys of rates: both directions, client to helper, and back; the last two take precedence over the first."""


def read_described(document: object) -> Instance:
    """Read an instance and convert it to slots; raises InvalidField naming the field, and the client or helper."""
    root = check_object(
        "", document, required=("model", "helpers", "clients"), optional=("slot_ms", "cuts", "links", *RATES)
    )
    model = root["model"]
    if not isinstance(model, str) or model not in SLOT_MS:
        raise InvalidField("model", f"expected one of {', '.join(SLOT_MS)}, got {shown(model)}")
    network = Network(model)
    helpers = _rows("helper", root["helpers"], MOST_HELPERS, ("memory_gb",), DEVICE)
    clients = _rows("client", root["clients"], MOST_CLIENTS, (), (*DEVICE, *RATES, "cuts", "demand_gb"))
    names = [[row["name"] for row in rows] for rows in (helpers, clients)]
    cuts = _cuts("cuts", root["cuts"], network, "every client") if "cuts" in root else network.cuts
    described = [
        Client(
            _device(f"clients[{j}]", row),
            _cuts(f"clients[{j}].cuts", row["cuts"], network, row["name"]) if "cuts" in row else cuts,
        )
        for j, row in enumerate(clients)
    ]
    machines = [_device(f"helpers[{i}]", row) for i, row in enumerate(helpers)]
    _check_times(network, described, machines, names)
    up, down = _links(root, clients, names)
    return profiled(
        network,
        described,
        machines,
        up_mbps=up,
        down_mbps=down,
        capacity=_bytes("helpers", "memory_gb", helpers),
        slot_ms=check_integer("slot_ms", root.get("slot_ms", SLOT_MS[model]), low=1, high=10**6),
        demand=_demand(network, described, clients),
        names=(tuple(names[0]), tuple(names[1])),
    )


def _rows(kind: str, value: object, most: int, required: tuple[str, ...], optional: tuple[str, ...]) -> list[Json]:
    """Read helpers or clients, each with a name."""
    rows = check_list(f"{kind}s", value)
    if not 1 <= len(rows) <= most:
        raise InvalidField(f"{kind}s", f"expected 1 to {most}, got {len(rows)}")
    found = []
    for n, row in enumerate(rows):
        given = check_object(f"{kind}s[{n}]", row, required=("device", *required), optional=("name", *optional))
        name = given.get("name", f"{kind}-{n + 1}")
        if not isinstance(name, str) or not 1 <= len(name) <= 100:
            raise InvalidField(f"{kind}s[{n}].name", f"expected 1 to 100 characters, got {shown(name)}")
        found.append({**given, "name": name})
    return found


def _device(field: str, row: Json) -> Device:
    for name in ("device", "other"):
        if name in row and not isinstance(row[name], str):
            raise InvalidField(f"{field}.{name}", f"expected a device, got {shown(row[name])} ({row['name']})")
    if ("other" in row) != ("share" in row):
        raise InvalidField(f"{field}.share", f"expected other and share together ({row['name']})")
    if "other" not in row:
        return Device(row["device"])
    return Device(row["device"], row["other"], _number(f"{field}.share", row["share"], 0, 1, row["name"]))


def _cuts(field: str, value: object, network: Network, who: str) -> tuple[int, int]:
    pair = check_list(field, value, length=2)
    first, second = (check_integer(f"{field}[{n}]", layer, low=1, high=network.layers) for n, layer in enumerate(pair))
    if not first < second < network.layers:
        raise InvalidField(
            field, f"expected 1 <= first < second < {network.layers} layers of {network.name}, got {pair} ({who})"
        )
    return first, second


def _check_times(network: Network, clients: list[Client], helpers: list[Device], names: list[list[str]]) -> None:
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


def _links(root: Json, clients: list[Json], names: list[list[str]]) -> tuple[Floats, Floats]:
    """Return Mbit/s to helpers and back, I x J; a link's rate overrides a client's, a client's the default."""
    both = np.zeros((2, len(names[0]), len(names[1])))
    of_all = _rates("", root, (0.0, 0.0), "all")
    for j, row in enumerate(clients):
        both[:, :, j] = np.array(_rates(f"clients[{j}]", row, of_all, row["name"]))[:, None]
    places = [{name: n for n, name in enumerate(known)} for known in names]
    links = check_list("links", root.get("links", []))
    if len(links) > 2 * both[0].size:
        raise InvalidField(
            "links", f"expected at most two for each client and helper, {2 * both[0].size}, got {len(links)}"
        )
    for n, link in enumerate(links):
        given = check_object(f"links[{n}]", link, required=("client", "helper"), optional=RATES)
        i, j = (
            _number_of(f"links[{n}].{kind}", given[kind], known)
            for kind, known in zip(("helper", "client"), places, strict=True)
        )
        both[:, i, j] = _rates(f"links[{n}]", given, (both[0, i, j], both[1, i, j]), f"{given['client']}")
    missing = np.argwhere(both.min(axis=0) == 0)
    if len(missing):
        i, j = (int(x) for x in missing[0])
        raise InvalidField(
            f"clients[{j}].mbps", f"there is no rate of the link of client {names[1][j]} and helper {names[0][i]}"
        )
    return both[0], both[1]


def _rates(field: str, row: Json, otherwise: tuple[float, float], who: str) -> tuple[float, float]:
    """Return the rates up and down."""
    prefix = f"{field}." if field else ""
    up, down = otherwise
    for name in RATES:
        if name in row:
            rate = _number(f"{prefix}{name}", row[name], LEAST_MBPS, LARGEST_MBPS, who)
            up, down = up if name == "down_mbps" else rate, down if name == "up_mbps" else rate
    return up, down


def _number_of(field: str, name: object, known: dict[str, int]) -> int:
    if not isinstance(name, str) or name not in known:
        raise InvalidField(field, f"expected one of {', '.join(list(known)[:10])}, got {shown(name)}")
    return known[name]


def _number(field: str, value: object, low: float, high: float, who: str) -> float:
    try:
        return check_number(field, value, low=low, high=high)
    except InvalidField as error:
        raise InvalidField(field, f"{error.problem} ({who})") from None


def _amount(field: str, value: object, who: str) -> Fraction:
    """Convert GB to bytes."""
    try:
        return check_fraction(field, value, high=LARGEST_GB) * GIGABYTE
    except InvalidField as error:
        raise InvalidField(field, f"{error.problem} ({who})") from None


def _bytes(kind: str, key: str, rows: list[Json]) -> Ints:
    found = [_amount(f"{kind}[{n}].{key}", row[key], row["name"]) for n, row in enumerate(rows)]
    return np.array([floor(amount) for amount in found], dtype=np.int64)


def _demand(network: Network, described: list[Client], rows: list[Json]) -> Ints:
    """Return the stated memory, else that of the weights and activations of the helper's part; bytes."""
    return np.array(
        [
            ceil(_amount(f"clients[{j}].demand_gb", row["demand_gb"], row["name"]))
            if "demand_gb" in row
            else network.demand(client.cuts)
            for j, (client, row) in enumerate(zip(described, rows, strict=True))
        ],
        dtype=np.int64,
    )
