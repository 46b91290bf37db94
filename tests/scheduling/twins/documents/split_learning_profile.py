"""What measured layers take in slots, cell by cell, from the tables of `studies/data/split_learning` in fractions."""

import csv
from fractions import Fraction
from functools import cache
from typing import Any

from tests.collection import ROOT
from tests.scheduling.twins.documents.numbers import Document, exact, whole

FOLDER = ROOT / "studies" / "data" / "split_learning"
MIXED = tuple[str, str, Any]
"""A device, another one, and how near to that it is: times are mixed."""
KILOBIT_OF_KIB = exact("8.192")


@cache
def table(name: str, model: str) -> tuple[dict[str, str], ...]:
    with (FOLDER / f"{name}.csv").open(newline="") as file:
        return tuple(row for row in csv.DictReader(file) if row["model"] == model)


def passes(model: str, device: MIXED, first: int, last: int) -> tuple[Fraction, Fraction]:
    """Milliseconds of the forward and the backward pass of layers first to last."""
    one, other, share = device
    times = []
    for kind in ("forward", "backward"):
        a, b = _alone(model, one, first, last, kind), _alone(model, other, first, last, kind)
        times.append((1 - exact(share)) * a + exact(share) * b)
    return times[0], times[1]


def _alone(model: str, device: str, first: int, last: int, kind: str) -> Fraction:
    if device != "rpi3":
        rows = [row for row in table("layers", model) if first <= int(row["layer"]) <= last]
        return sum((exact(row[f"{device}_{kind}_ms"]) for row in rows), Fraction(0))
    # It ran out of memory: its whole part at the paper's cut, spread over layers as the other Raspberry Pi's time is.
    (part,) = (row for row in table("parts", model) if (int(row["first"]) == 1) == (first == 1))
    like = _alone(model, "rpi4", int(part["first"]), int(part["last"]), kind)
    return exact(part[f"{kind}_ms"]) * _alone(model, "rpi4", first, last, kind) / like


def layer(model: str, number: int, column: str) -> Fraction:
    return next(exact(row[column]) for row in table("layers", model) if int(row["layer"]) == number)


def demand(model: str, cuts: list[int]) -> int:
    """Bytes of weights and activations of the layers between the cuts."""
    layers = range(cuts[0] + 1, cuts[1] + 1)
    kib = sum((layer(model, n, column) for n in layers for column in ("activation_kib", "weight_kib")), Fraction(0))
    return whole(kib * 1024)


def times(model: str, clients: list[Document], helpers: list[MIXED], mbps: list[list[int]], slot_ms: int) -> Document:
    """The tables of an instance file: a client has a `device` and `cuts`; rates are the same both ways."""
    count = len(table("layers", model))
    names = ("release", "forward", "tail_forward", "head_backward", "gap", "backward", "tail")
    found: dict[str, list[list[int]]] = {name: [[0] * len(clients) for _ in helpers] for name in names}
    for j, client in enumerate(clients):
        first, second = client["cuts"]
        begin, begin_back = passes(model, client["device"], 1, first)
        end, end_back = passes(model, client["device"], second + 1, count)
        for i, helper in enumerate(helpers):
            link = [layer(model, cut, "activation_kib") * KILOBIT_OF_KIB / mbps[i][j] for cut in (first, second)]
            part, part_back = passes(model, helper, first + 1, second)
            cells = {
                "release": begin + link[0],
                "forward": part,
                "tail_forward": link[1] + end,
                "head_backward": end_back + link[1],
                "backward": part_back,
                "tail": link[0] + begin_back,
            }
            for name, milliseconds in cells.items():
                found[name][i][j] = whole(milliseconds / slot_ms)
            found["gap"][i][j] = found["tail_forward"][i][j] + found["head_backward"][i][j]
    return found
