"""Measured layers of two networks on six devices, and their times in slots for given cuts and links.

The figures are for one batch of 128 images of CIFAR-10; studies/data/split_learning/NOTICE names their source.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path

import numpy as np

from scheduling.model.errors import InvalidField
from scheduling.model.types import Floats, Ints
from scheduling.split_learning.instance import TIMES, Instance

FOLDER = Path(__file__).resolve().parents[1] / "data" / "split_learning"
HELPERS = ("vm", "m1")
"""A virtual machine with 8 cores, and an Apple M1; 16 GiB each."""
CLIENTS = ("rpi4", "rpi3", "jetson-cpu", "jetson-gpu")
"""Raspberry Pi 4 B and 3 B+, and a Jetson Nano without and with its GPU."""
KIB = 2**10
GIB = 2**30
KILOBIT_OF_KIB = 8.192
RELEASED_KILOBIT_OF_KIB = 0.8
"""Factor in the code released with the paper; it makes links ten times too fast."""


@dataclass(frozen=True)
class Device:
    """A measured device, or one between two of them (scenario 2)."""

    name: str
    other: str | None = None
    share: float = 0.0
    """Share of the other device, 0 to 1: times are mixed linearly."""


@dataclass(frozen=True)
class Client:
    """A device with its cuts: it runs layers 1 to cuts[0] and those after cuts[1]; the helper runs the others."""

    device: Device
    cuts: tuple[int, int]


@dataclass(frozen=True)
class Spans:
    """Milliseconds of forward passes, and of backward passes with the update of weights."""

    forward: float
    backward: float


class Network:
    """A network's layers: KiB of activations of a batch, KiB of weights, and times on devices.

    The Raspberry Pi 3 ran out of memory: only its first and its last part at the paper's cuts were measured. For other
    cuts its time is divided among these layers as on the Raspberry Pi 4.
    """

    def __init__(self, name: str) -> None:
        rows = [row for row in _read("layers.csv") if row["model"] == name]
        if not rows:
            known = sorted({row["model"] for row in _read("layers.csv")})
            raise InvalidField("model", f"expected one of {', '.join(known)}, got {name}")
        self.name = name
        self.activations = np.array([float(row["activation_kib"]) for row in rows])
        self.weights = np.array([float(row["weight_kib"]) for row in rows])
        measured = [key.removesuffix("_forward_ms") for key in rows[0] if key.endswith("_forward_ms")]
        self._times: dict[str, Floats] = {
            device: np.array([[float(row[f"{device}_{kind}_ms"]) for kind in ("forward", "backward")] for row in rows])
            for device in measured
        }
        self._parts = [row for row in _read("parts.csv") if row["model"] == name]

    @property
    def layers(self) -> int:
        """Number of layers."""
        return len(self.weights)

    @property
    def cuts(self) -> tuple[int, int]:
        """The cuts of the paper's scenario 1."""
        first, last = self._parts
        return int(first["last"]), int(last["first"]) - 1

    def spans(self, device: Device, first: int, last: int) -> Spans:
        """Return the times of layers first to last, numbered from 1. Raises InvalidField for a device without data."""
        if not 0 <= device.share <= 1:
            raise InvalidField("share", f"expected 0 to 1, got {device.share}")
        times = self._of(device.name, first, last)
        if device.other is not None:
            times = (1 - device.share) * times + device.share * self._of(device.other, first, last)
        return Spans(*times.tolist())

    def demand(self, cuts: tuple[int, int]) -> int:
        """Return the bytes of a client on its helper: the weights and the activations of the helper's part."""
        part = slice(cuts[0], cuts[1])
        return ceil(float(self.weights[part].sum() + self.activations[part].sum()) * KIB)

    def _of(self, device: str, first: int, last: int) -> Floats:
        if device in self._times:
            total: Floats = self._times[device][first - 1 : last].sum(axis=0)
            return total
        # A part is identified by the end of the network that it contains.
        part = next((p for p in self._parts if p["device"] == device and _same_end(p, first, last, self.layers)), None)
        if part is None:
            known = ", ".join([*self._times, *sorted({p["device"] for p in self._parts})])
            raise InvalidField(
                "device",
                f"expected a device with times for layers {first} to {last} of {self.name} ({known}), got {device}",
            )
        like = self._of("rpi4", first, last) / self._of("rpi4", int(part["first"]), int(part["last"]))
        scaled: Floats = like * np.array([float(part["forward_ms"]), float(part["backward_ms"])])
        return scaled


def profiled(
    network: Network,
    clients: Sequence[Client],
    helpers: Sequence[Device],
    *,
    up_mbps: Floats,
    down_mbps: Floats,
    capacity: Ints,
    slot_ms: int,
    kilobit_of_kib: float = KILOBIT_OF_KIB,
    demand: Ints | None = None,
    names: tuple[tuple[str, ...], tuple[str, ...]] | None = None,
) -> Instance:
    """Build the instance of these devices; every time is rounded up to whole slots.

    Parameters
    ----------
    up_mbps, down_mbps
        Mbit/s from clients to helpers and back, I x J, above 0. Activations and their gradients have the same size;
        data cross the first cut at the beginning and the end, and the second cut between the passes.
    capacity
        Memory of each helper, bytes, I.
    demand
        Memory of each client's part, bytes, J; by default what weights and activations take.
    names
        Names of helpers and of clients; by default helper-1, client-1 and so on.

    Raises
    ------
    InvalidField
        If a cut leaves a part without layers, a link has no speed, or a device has no times for its layers.
    """
    shape = (len(helpers), len(clients))
    for name, rate in (("up_mbps", up_mbps), ("down_mbps", down_mbps)):
        if rate.shape != shape or not (np.isfinite(rate) & (rate > 0)).all():
            raise InvalidField(
                name,
                f"expected {shape[0]} x {shape[1]} rates above 0, got other numbers, {rate.shape}",
            )
    if slot_ms < 1:
        raise InvalidField("slot_ms", f"expected at least 1, got {slot_ms}")
    spans = cache(network.spans)  # devices and cuts are few, pairs of a helper and a client may be many
    ms = {name: np.zeros(shape) for name in ("release", "forward", "l", "l'", "backward", "tail")}
    for j, client in enumerate(clients):
        first, second = client.cuts
        if not 1 <= first < second < network.layers:
            raise InvalidField(
                f"clients[{j}].cuts", f"expected 1 <= first < second < {network.layers}, got {client.cuts}"
            )
        own, own_last = spans(client.device, 1, first), spans(client.device, second + 1, network.layers)
        kilobits = network.activations[[first - 1, second - 1]] * kilobit_of_kib
        up, down = (kilobits[:, None] / rate[:, j] for rate in (up_mbps, down_mbps))
        ms["release"][:, j] = own.forward + up[0]
        ms["l"][:, j] = down[1] + own_last.forward
        ms["l'"][:, j] = own_last.backward + up[1]
        ms["tail"][:, j] = down[0] + own.backward
        for i, helper in enumerate(helpers):
            part = spans(helper, first + 1, second)
            ms["forward"][i, j], ms["backward"][i, j] = part.forward, part.backward
    slots = {name: np.ceil(value / slot_ms).astype(np.int64) for name, value in ms.items()}
    slots["gap"] = slots["l"] + slots["l'"]
    return Instance(
        **{name: slots[name] for name in TIMES},
        demand=np.array([network.demand(one.cuts) for one in clients], dtype=np.int64) if demand is None else demand,
        capacity=capacity,
        helpers=names[0] if names else tuple(f"helper-{i + 1}" for i in range(len(helpers))),
        clients=names[1] if names else tuple(f"client-{j + 1}" for j in range(len(clients))),
        slot_ms=slot_ms,
        switch=np.zeros(len(helpers), dtype=np.int64),
    )


def _same_end(part: dict[str, str], first: int, last: int, layers: int) -> bool:
    return first == 1 if int(part["first"]) == 1 else last == layers


@cache
def _read(name: str) -> tuple[dict[str, str], ...]:
    with (FOLDER / name).open(newline="") as file:
        return tuple(csv.DictReader(file))
