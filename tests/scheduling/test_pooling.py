"""Pools of past bids: who is in one, held against a plain twin, and what prices learn from them."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from scheduling.book.ledger import Ledger
from scheduling.book.state import HISTORY, NOBODY, Book
from scheduling.model.types import Floats, Ints
from scheduling.policies.dps import Dps
from scheduling.policies.oasis import Oasis
from scheduling.pricing.pooling import LEAST_BLOCK, LEAST_OWNERS, Pool, pooled, pools_of
from scheduling.pricing.price_function import PriceFunction
from tests.draws import fresh, rounds
from tests.scheduling import test_dps, test_oasis


def pools_plainly(supports: NDArray[np.bool_], owners: Ints, block: int) -> list[Pool]:
    """Block by block and set of resources by set of resources; full pools in the order of their last bids."""
    found = []
    for first in range(0, len(owners), block):
        rows = range(first, min(first + block, len(owners)))
        for support in sorted({tuple(supports[row]) for row in rows if supports[row].any()}):
            pool: dict[object, list[int]] = {}
            for row in rows:
                if tuple(supports[row]) == support:
                    pool.setdefault(("nobody", row) if owners[row] == NOBODY else owners[row], []).append(row)
                if len(pool) == LEAST_OWNERS:
                    found.append(list(pool.values()))
                    pool = {}
    return sorted(found, key=lambda pool: max(max(mine) for mine in pool))


def drawn(rng: np.random.Generator) -> tuple[Floats, Ints, int]:
    bids, resources = int(rng.integers(0, 90)), int(rng.integers(1, 4))
    offers = rng.lognormal(0.0, 2.0, (bids, resources)) * (rng.random((bids, resources)) < rng.choice([0.7, 1.0]))
    owners = rng.integers(NOBODY, int(rng.integers(1, 9)), bids)
    return offers, owners, int(rng.choice([1, 3, 8, 32]))


def test_pools_are_those_of_a_plain_twin() -> None:
    rng, seed = fresh()
    for number in range(rounds(30)):
        offers, owners, block = drawn(rng)
        found = pools_of(offers > 0, owners, block=block)
        assert found == pools_plainly(offers > 0, owners, block), (seed, number)
        rows = rows_of(found)
        assert len(rows) == len(set(rows)), "a bid is in one pool at most"


def test_a_row_depends_on_the_offers_of_a_pool_by_their_product_alone() -> None:
    rng, seed = fresh()
    for number in range(rounds(30)):
        offers, owners, block = drawn(rng)
        pools, moved = pools_of(offers > 0, owners, block=block), offers.copy()
        for pool in pools:
            one, other = rng.choice(len(pool), 2, replace=False)
            by = rng.uniform(0.2, 5.0)
            moved[pool[one]] *= by
            moved[pool[other]] /= by
        moved[np.setdiff1d(np.arange(len(offers)), rows_of(pools))] *= 7.0
        one, other = (pooled(rows, np.zeros(0), owners, block=block)[0].tolist() for rows in (offers, moved))
        assert one == other, (seed, number)


def rows_of(pools: list[Pool]) -> list[int]:
    return [row for pool in pools for mine in pool for row in mine]


def test_each_owner_counts_the_same_however_many_bids_it_sends() -> None:
    offers = np.array([[1.0]] * 9 + [[16.0]] * 3)
    owners = np.array([1] * 9 + [2, 3, 4])
    found, worth = pooled(offers, offers[:, 0], owners, block=32)
    assert found.tolist() == [[pytest.approx(8.0, rel=1e-8)]]
    assert worth.tolist() == [pytest.approx((1 + 3 * 16) / 4)]


def test_three_owners_teach_nothing_and_bids_of_nobody_count_each() -> None:
    offers = np.ones((30, 2))
    assert len(pooled(offers, np.ones(30), np.arange(30) % 3, block=32)[0]) == 0
    assert len(pooled(offers, np.ones(30), np.full(30, NOBODY), block=32)[0]) == 7


def test_pools_spread_as_what_they_are_of() -> None:
    offers = np.random.default_rng(5).lognormal(1.0, 1.5, (4000, 1))
    found, _ = pooled(offers, np.zeros(0), np.full(4000, NOBODY), block=32)
    for quantile in (0.25, 0.5, 0.95):
        wanted = math.log(np.quantile(offers, quantile))
        assert math.log(np.quantile(found, quantile)) == pytest.approx(wanted, abs=0.2)


POLICIES: dict[str, Dps | Oasis] = {
    "DPS, quantile": Dps(refit_every=8),
    "DPS, fluid": Dps(price="fluid", refit_every=8),
    "DPS, printed": Dps(price="paper", refit_every=8),
    "OASiS, quantile": Oasis(refit_every=8),
    "OASiS, fluid": Oasis(price="fluid", refit_every=8),
    "OASiS, printed": Oasis(price="paper", refit_every=8),
}


def prices_of(name: str, offers: Floats, owners: Ints, *, decided: int | None = None) -> PriceFunction:
    inventory = (test_dps if name.startswith("DPS") else test_oasis).INVENTORY
    ledger = Ledger(inventory, start=0, slots=8)
    book = Book(
        0,
        ledger,
        history=offers[-HISTORY:],
        decided=len(offers) if decided is None else decided,
        slots=np.zeros(len(offers), dtype=np.int64)[-HISTORY:],
        standalone_values=offers.sum(axis=1)[-HISTORY:],
        owners=owners[-HISTORY:],
    )
    return POLICIES[name].price_function(book)


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("bids", [8, 40, 600])
def test_no_price_follows_from_the_only_bid_of_another(name: str, bids: int) -> None:
    """One bidder sends all bids but one: prices are the same whatever that one is."""
    mine, owners = np.full((bids, 2), 1e-3), np.zeros(bids, dtype=np.int64)
    place = bids - 5
    owners[place] = 1
    found = set()
    for value in (1e-6, 1.0, 1e6):
        offers = mine.copy()
        offers[place] = value
        found.add(prices_of(name, offers, owners))
    assert len(found) == 1
    # Where four others bid, prices learn.
    assert prices_of(name, np.full((bids, 2), 3.0), np.arange(bids) % 5) not in found


@pytest.mark.parametrize("name", POLICIES)
def test_a_pool_is_forgotten_whole(name: str) -> None:
    """However many bids follow, no two refits pool a bid with different others."""
    rng = np.random.default_rng(3)
    owners = rng.integers(0, 6, 3 * HISTORY)
    policy = POLICIES[name]
    block = policy.refit_every * math.ceil(LEAST_BLOCK / policy.refit_every)
    absolute = pools_of(np.ones((len(owners), 1), dtype=np.bool_), owners, block=block)
    offers = rng.lognormal(0.0, 1.0, (len(owners), 2))
    for decided in range(HISTORY - 9, 2 * HISTORY, 7):
        # An offer of a pool that is cut in two by the window's beginning moves nothing.
        first = decided - HISTORY
        cut = [row for pool in absolute if min(rows_of([pool])) < first for row in rows_of([pool]) if row >= first]
        other = offers.copy()
        other[cut] *= 9.0
        one, two = (prices_of(name, o[:decided], owners[:decided]) for o in (offers, other))
        assert one == two


def test_pools_that_are_kept_for_the_next_decision_cannot_be_changed() -> None:
    offers, owners = np.full((8, 1), 2.0), np.arange(8)
    for found in pooled(offers, np.full(8, 3.0), owners, block=8):
        with pytest.raises(ValueError, match="read-only"):
            found[0] = 1.0
