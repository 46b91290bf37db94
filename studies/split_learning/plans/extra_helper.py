"""Instances with one more helper, a copy of the best one (Fig. 8 of the split-learning paper)."""

from dataclasses import replace

import numpy as np

from scheduling.model.errors import InvalidField
from scheduling.split_learning.instance import MOST_HELPERS, TIMES, Instance


def best_helper(instance: Instance) -> int:
    """Return the fastest helper: least slots of passes over all clients; of equals most memory, then the first."""
    passes = (instance.forward + instance.backward).sum(axis=1)
    return int(np.lexsort((-instance.capacity, passes))[0])


def one_more_helper(instance: Instance) -> Instance:
    """Return the instance with a copy of its best helper, links and memory; raises InvalidField if it is full."""
    if len(instance.helpers) >= MOST_HELPERS:
        raise InvalidField("helpers", f"expected fewer than {MOST_HELPERS}, got {len(instance.helpers)}")
    best = best_helper(instance)
    rows = [*range(len(instance.helpers)), best]
    times = {name: getattr(instance, name)[rows] for name in TIMES}
    return replace(
        instance,
        **times,
        capacity=instance.capacity[rows],
        switch=instance.switch[rows],
        helpers=(*instance.helpers, _new_name(instance.helpers[best], instance.helpers)),
    )


def _new_name(name: str, taken: tuple[str, ...]) -> str:
    """Return an unused name such as `vm-1 copy 2`."""
    base = name.partition(" copy ")[0][:80]
    return next(f"{base} copy {n}" for n in range(1, MOST_HELPERS + 1) if f"{base} copy {n}" not in taken)
