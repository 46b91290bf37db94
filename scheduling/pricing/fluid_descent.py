"""Mirror descent for the fluid relaxation. Private: works on arrays only and modifies them in place."""

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduling.model.types import Floats, Ints
from scheduling.solvers.numba_tools import Compiler

_COMPILER = Compiler(Path(__file__))
kernel, inner = _COMPILER.kernel, _COMPILER.inner


class Kinds(NamedTuple):
    """The kinds of machines of both roles, those of workers first, K in all."""

    workers: int
    """Number of kinds of workers."""
    begin: Ints
    """Index in `takes` of the first resource of each kind, K + 1."""
    takes: Ints
    """Resources of all kinds, one kind after another."""


@inner
def _cheapest(
    needs: Floats, usable: NDArray[np.bool_], kinds: Kinds, first: int, end: int, prices: Floats
) -> tuple[int, float]:
    """Return the cheapest kind in [first, end) for a bid, the first of equals, and its cost; (-1, inf) if none is
    usable."""
    best, least = -1, math.inf
    for k in range(first, end):
        if usable[k]:
            cost = 0.0
            for i in range(kinds.begin[k], kinds.begin[k + 1]):
                cost += needs[kinds.takes[i]] * prices[kinds.takes[i]]
            if cost < least:
                best, least = k, cost
    return best, least


@kernel
def descend(
    needs: Floats,
    loads: Floats,
    usable: NDArray[np.bool_],
    kinds: Kinds,
    prices: Floats,
    least: Floats,
    rounds: int,
    stride: float,
    solved: Floats,
) -> None:
    """Multiply each price by e^(step x (demand / capacity - 1)) in every round; `solved` gets the mean of the later
    half.

    `needs` is the share of its standalone value that a bid pays at a price of 1; `loads` is the share of the capacity
    that it takes; both are N x R. `usable` is N x K. `prices` (R) are the initial prices; `least` are their lower
    bounds.
    """
    bids, resources = needs.shape
    demand = np.empty(resources)
    solved[:] = 0.0
    for turn in range(1, rounds + 1):
        demand[:] = 0.0
        for n in range(bids):
            worker, paid = _cheapest(needs[n], usable[n], kinds, 0, kinds.workers, prices)
            ps, paid_more = _cheapest(needs[n], usable[n], kinds, kinds.workers, len(kinds.begin) - 1, prices)
            if paid + paid_more < 1.0:
                for k in (worker, ps):
                    for i in range(kinds.begin[k], kinds.begin[k + 1]):
                        demand[kinds.takes[i]] += loads[n, kinds.takes[i]]
        step = stride / math.sqrt(turn)
        for r in range(resources):
            push = min(max(demand[r] - 1.0, -1.0), 2.0) * step
            prices[r] = max(prices[r] * math.exp(push), least[r])
            if 2 * turn > rounds:
                solved[r] += prices[r]
    solved /= rounds - rounds // 2
