"""What is compiled, and when."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

from scheduling.best_response.elastic import allocation as elastic_allocation
from scheduling.best_response.elastic import curves as elastic_curves
from scheduling.best_response.elastic import search as elastic_search
from scheduling.best_response.elastic import tables as elastic_tables
from scheduling.best_response.elastic.kernel import ElasticKernel, best_response, warm_up
from scheduling.book.ledger import Ledger
from scheduling.pricing.price_function import reserve_prices
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
