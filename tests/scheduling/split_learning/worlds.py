"""Instances for tests: the shared ones, and small random ones full of ties."""

import csv
from functools import cache
from pathlib import Path

import numpy as np

from scheduling.instance import parse_document
from scheduling.split_learning.document import read_split_learning
from scheduling.split_learning.instance import TIMES, Instance
from tests.scheduling.cases import ROOT

FOLDER = ROOT / "split_learning"


@cache
def results() -> dict[str, dict[str, str]]:
    """What is known of each shared instance, by name."""
    with (FOLDER / "results.csv").open() as file:
        return {row["name"]: row for row in csv.DictReader(file)}


def shared(name: str) -> Instance:
    """A shared instance by name."""
    return read_split_learning(parse_document(path_of(name).read_text()))


def draw(rng: np.random.Generator, *, clients: int, helpers: int, longest: int = 6, switch: int = 0) -> Instance:
    """A small instance; every client fits with the others, memory is tight for some draws."""
    times = {name: rng.integers(0, longest, (helpers, clients)) for name in TIMES}
    times["forward"] = rng.integers(0 if rng.random() < 0.2 else 1, longest, (helpers, clients))
    demand = rng.integers(1, 4, clients)
    each = int(np.ceil(demand.sum() / helpers)) + int(demand.max())
    return Instance(
        **times,
        demand=demand,
        capacity=np.full(helpers, each, dtype=np.int64),
        switch=np.full(helpers, switch, dtype=np.int64),
        helpers=tuple(f"helper-{i}" for i in range(helpers)),
        clients=tuple(f"client-{j}" for j in range(clients)),
        slot_ms=1,
    )


def path_of(name: str) -> Path:
    """The file of a shared instance."""
    return FOLDER / f"{name}.json"
