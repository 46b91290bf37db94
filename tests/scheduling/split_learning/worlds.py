"""Instances for tests: files with known answers, and small random ones full of ties."""

import csv
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np

from scheduling.instances.fields import parse_document
from scheduling.split_learning.document import read_split_learning
from scheduling.split_learning.instance import TIMES, Instance
from tests.collection import files, groups
from tests.scheduling.cases import load, own_case

split_cases = partial(files, "cases/split_learning/*.json")
"""Parameters: each instance."""
split_groups = partial(groups, "cases/split_learning/*.json")
"""Parameters: all own instances, and each n-th of a larger collection."""


@dataclass(frozen=True)
class Known:
    """What is known of an instance."""

    clients: int
    lower_bound: int
    best_makespan: int
    balanced_greedy_makespan: int | None
    """None if that method finds no room for a client."""
    admm_makespan: int | None
    """Makespan of the authors' code; None if it was not run."""


@cache
def known(path: Path) -> Known:
    """From the file itself, or from `results.csv` beside it."""
    own = load(path).get("expected")
    if own is None:
        with (path.parent / "results.csv").open() as file:
            own = next(row for row in csv.DictReader(file) if row["name"] == path.stem)
    greedy, admm = own.get("balanced_greedy_makespan"), own.get("admm_makespan")
    return Known(
        clients=int(own["clients"]),
        lower_bound=int(own["lower_bound"]),
        best_makespan=int(own["best_makespan"]),
        balanced_greedy_makespan=None if greedy is None else int(greedy),
        admm_makespan=None if admm is None else int(admm),
    )


def read(path: Path) -> Instance:
    return read_split_learning(parse_document(path.read_text()))


def own(name: str) -> Path:
    """One of the project's own instances."""
    return own_case(f"split_learning/{name}")


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
