"""What is compiled, and when; and the relaxation, by itself."""

from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from itertools import pairwise
from math import ceil
from multiprocessing import get_context

import numpy as np
import pytest

from scheduling.best_response.elastic import allocation as elastic_allocation
from scheduling.best_response.elastic import curves as elastic_curves
from scheduling.best_response.elastic import search as elastic_search
from scheduling.best_response.elastic import tables as elastic_tables
from scheduling.best_response.elastic.compiled import kernel
from scheduling.best_response.elastic.curves import Curves
from scheduling.best_response.elastic.kernel import ElasticKernel, best_response, warm_up
from scheduling.best_response.elastic.relaxed import FAR, relaxed_costs
from scheduling.book.ledger import Ledger
from scheduling.model.types import Ints
from scheduling.pricing.price_function import reserve_prices
from tests.draws import fresh_seed, rounds
from tests.scheduling.twins.elastic_cases import random_bid, random_inventory, random_problem

ENTRIES = (
    "allocate",
    "changed_slots",
    "earliest",
    "make_curves",
    "mark_alike",
    "refresh_cheapest",
    "relevant_slots",
    "search",
)
MODULES = (elastic_allocation, elastic_curves, elastic_search, elastic_tables)


@kernel
def costs_of_relaxation(curves: Curves, wanted: int, first: int) -> Ints:
    return relaxed_costs(curves, wanted, first)


def test_the_relaxation_takes_the_least_steep_pieces_before_each_completion() -> None:
    reached = 0
    for case in range(rounds(100)):
        rng = np.random.default_rng([fresh_seed(), case])
        slots, most = int(rng.integers(1, 12)), int(rng.integers(1, 6))
        # Rises of a convex cost, with a few of its numbers of workers as the vertices of the hull.
        cost = np.zeros((slots, most + 1), np.int64)
        cost[:, 1:] = np.sort(rng.integers(0, 9, (slots, most)), axis=1).cumsum(axis=1)
        vertex, size = np.zeros((slots, most + 1), np.int32), np.zeros(slots, np.int32)
        for t in range(slots):
            kept = [0, *np.flatnonzero(rng.random(most) < 0.6) + 1]
            vertex[t, : len(kept)], size[t] = kept, len(kept)
        curves = Curves(cost, vertex.max(axis=1), vertex, size)
        wanted, first = int(rng.integers(1, 2 + slots * most // 2)), int(rng.integers(0, slots))
        found, pieces = costs_of_relaxation(curves, wanted, first), list[Fraction]()
        assert (found[: first + 1] == FAR).all()
        for t in range(first, slots):
            for a, b in pairwise(vertex[t, : size[t]].tolist()):
                pieces += [Fraction(int(cost[t, b] - cost[t, a]), b - a)] * (b - a)
            enough = len(pieces) >= wanted
            assert found[t + 1] == (ceil(sum(sorted(pieces)[:wanted])) if enough else FAR), f"case {case}"
            reached += enough
    assert reached > rounds(50)


def compiled() -> dict[str, int]:
    """Return the number of times that each kernel was compiled or loaded, by name."""
    functions = {name: f for module in MODULES for name, f in vars(module).items() if hasattr(f, "signatures")}
    return {name: len(f.signatures) for name, f in functions.items()}


def compiled_by_warming_up_and_by_deciding() -> tuple[dict[str, int], dict[str, int]]:
    warm_up()
    before = compiled()
    rng = np.random.default_rng(1)
    for _ in range(20):
        inventory = random_inventory(rng)
        ledger, count = Ledger(inventory, start=0, slots=12), len(inventory.resources)
        market = ElasticKernel(ledger, reserve_prices([0.1] * count, [2.0] * count))
        for _ in range(4):
            bid = random_bid(rng, inventory, start=ledger.start, slots=12)
            response = market.best(bid, above=-np.inf)
            if response is not None:
                ledger.commit(response.schedule)
            market.min_cost_per_value(bid)
            market.latest(bid)
            ledger.advance(ledger.start + 1)
        given = random_problem(rng)
        best_response(given.bid, given.inventory, start=given.start, used=given.used, prices=given.prices, above=0)
    return before, compiled()


@pytest.mark.thorough
def test_warming_up_leaves_nothing_to_compile() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        before, after = fresh.submit(compiled_by_warming_up_and_by_deciding).result()
    assert min(before[name] for name in ENTRIES) == 1
    assert after == before
