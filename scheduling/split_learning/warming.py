"""Compile, or load from disk, everything that methods call, so that no budget of time pays for it."""

from functools import cache

import numpy as np

from scheduling.split_learning.insertion import insert
from scheduling.split_learning.instance import TIMES, Instance
from scheduling.split_learning.local_search import perturb, search
from scheduling.split_learning.one_helper import cover, in_time, too_much
from scheduling.split_learning.plan import largest_path_first
from scheduling.split_learning.state import nobody


@cache
def warm_up() -> None:
    """Once in a process; a minute where nothing is kept on disk yet."""
    clients = 4
    times = {name: np.full((2, clients), n + 1, dtype=np.int64) for n, name in enumerate(TIMES)}
    instance = Instance(
        **times,
        demand=np.ones(clients, dtype=np.int64),
        capacity=np.full(2, clients, dtype=np.int64),
        helpers=("a", "b"),
        clients=tuple("abcd"),
        slot_ms=1,
        switch=np.zeros(2, dtype=np.int64),
    )
    state = nobody(instance)
    everyone = np.arange(clients)
    insert(state, everyone)
    perturb(state, instance.horizon, np.random.default_rng(0))
    search(state, 1, 100)
    in_time(instance, 0, everyone, instance.horizon)
    too_much(instance, 0, everyone, instance.horizon)
    cover(instance, 0, everyone[:2], everyone, 1)
    largest_path_first(instance, state.assignment)
