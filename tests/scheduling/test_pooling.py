"""Pools of past bids: who is in one, held against a plain twin, and what prices learn from them."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from scheduling.book.ledger import Ledger
from scheduling.book.running import RunningBook
from scheduling.book.state import HISTORY, NOBODY, Book
from scheduling.model.decision import Decision, Reason
from scheduling.model.types import Floats, Ints
from scheduling.model.utility import Constant
from scheduling.model.validation import LARGEST_MONEY
from scheduling.policies.dps import Dps
from scheduling.policies.oasis import Oasis
from scheduling.pricing.pooling import (
    LEAST_BLOCK,
    LEAST_OWNERS,
    NO_LIMIT,
    RECENT_POOLS,
    Learning,
    Pool,
    pooled,
    pools_of,
)
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


def with_the_same_products(rng: np.random.Generator, offers: Floats, pools: list[Pool]) -> Floats:
    """Other offers: in each pool, one owner offers more by the factor by which another one offers less."""
    moved = offers.copy()
    for pool in pools:
        one, other = rng.choice(len(pool), 2, replace=False)
        by = rng.uniform(0.2, 5.0)
        moved[pool[one]] *= by
        moved[pool[other]] /= by
    return moved


def test_a_row_depends_on_the_offers_of_a_pool_by_their_product_alone() -> None:
    rng, seed = fresh()
    for number in range(rounds(30)):
        offers, owners, block = drawn(rng)
        pools = pools_of(offers > 0, owners, block=block)
        moved = with_the_same_products(rng, offers, pools)
        moved[np.setdiff1d(np.arange(len(offers)), rows_of(pools))] *= 7.0
        one, other = (pooled(rows, np.zeros(0), owners, block=block)[0].tolist() for rows in (offers, moved))
        assert one == other, (seed, number)


def rows_of(pools: list[Pool]) -> list[int]:
    return [row for pool in pools for mine in pool for row in mine]


def test_each_owner_counts_the_same_however_many_bids_it_sends() -> None:
    offers = np.array([[1.0]] * 9 + [[16.0]] * 3)
    owners = np.array([1] * 9 + [2, 3, 4])
    found, worth, _ = pooled(offers, offers[:, 0], owners, block=32)
    assert found.tolist() == [[pytest.approx(8.0, rel=1e-8)]]
    assert worth.tolist() == [pytest.approx((1 + 3 * 16) / 4)]


def test_three_owners_teach_nothing_and_bids_of_nobody_count_each() -> None:
    offers = np.ones((30, 2))
    assert len(pooled(offers, np.ones(30), np.arange(30) % 3, block=32)[0]) == 0
    assert len(pooled(offers, np.ones(30), np.full(30, NOBODY), block=32)[0]) == 7


def test_pools_spread_as_what_they_are_of() -> None:
    offers = np.random.default_rng(5).lognormal(1.0, 1.5, (4000, 1))
    found = pooled(offers, np.zeros(0), np.full(4000, NOBODY), block=32).densities
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


def book_of(offers: Floats, owners: Ints) -> Book:
    """A book in which these bids were decided."""
    ledger = Ledger(test_dps.INVENTORY, start=0, slots=8)
    return Book(0, ledger, history=offers, decided=len(offers), standalone_values=offers[:, 0], owners=owners)


def factors_of(density: tuple[float, ...], book: Book, limit: float = 4.0) -> tuple[float, ...]:
    return Learning(8, limit).factors(density, book)


def test_an_offer_is_limited_in_the_mean_and_in_its_shape() -> None:
    book = book_of(np.tile([2.0, 32.0], (32, 1)), np.arange(32))
    for within in ((2.0, 32.0), (8.0, 128.0), (0.5, 8.0), (2.0 * 16.0, 32.0), (8.0, 0.0), (0.0, 0.0), (8.0, 8.0)):
        assert factors_of(within, book) == ()
    # Sixteen times as much, and a sixty-fourth.
    assert factors_of((32.0, 512.0), book) == (0.25, 0.25)
    assert factors_of((2.0 / 64, 32.0 / 64), book) == (16.0, 16.0)
    assert factors_of((0.0, 32.0 * 64), book) == (1.0, 1 / 16)
    # An ordinary mean, but 2^10 times the one and a part in 2^10 of the other: four times, and a quarter.
    assert factors_of((2.0 * 2**10, 32.0 / 2**10), book) == (2.0**-8, 2.0**8)
    # 2^12 times in the mean, of which 2^4 times more for the one: the mean and the shape within the limit.
    assert factors_of((2.0 * 2**16, 32.0 * 2**8), book) == (2.0**-12, 2.0**-8)
    assert factors_of((1e12, 1e12), book, NO_LIMIT) == factors_of((1e-9, 1e12), book, NO_LIMIT) == ()


def test_a_limited_offer_stays_among_those_that_prices_learn_from() -> None:
    """A resource that no pool offers for has nothing to be compared with but the mean of the others."""
    alone = book_of(np.tile([1e-9, 0.0], (32, 1)), np.arange(32))
    factors = factors_of((1.0, 1e-8), alone)
    assert 1e-9 <= factors[1] * 1e-8 < 2e-9
    alone = book_of(np.tile([1e14, 0.0], (32, 1)), np.arange(32))
    factors = factors_of((1.0, 1e12), alone)
    assert factors[1] * 1e12 <= LARGEST_MONEY


def test_an_offer_is_compared_with_the_last_pools_at_the_last_refit() -> None:
    bids = LEAST_OWNERS * (RECENT_POOLS + 4)
    offers = np.full((bids, 2), 1.0)
    offers[: 4 * LEAST_OWNERS] = 1e9
    assert factors_of((4.0, 4.0), book_of(offers, np.arange(bids))) == ()
    assert factors_of((16.0, 16.0), book_of(offers, np.arange(bids))) == (0.25, 0.25)
    # Nothing is known before there is a pool, and bids after the last refit do not count.
    assert factors_of((1e12, 1e12), book_of(offers[:7], np.arange(7))) == ()
    later = np.concatenate([offers, np.full((7, 2), 1e9)])
    assert factors_of((16.0, 16.0), book_of(later, np.arange(len(later)))) == (0.25, 0.25)
    # Offers of three owners are no pool.
    assert factors_of((1e12, 1e12), book_of(offers, np.arange(bids) % 3)) == ()


def test_the_factors_are_those_of_a_plain_twin_and_do_not_depend_on_the_unit_of_money() -> None:
    rng, seed = fresh()
    for number in range(rounds(30)):
        bids, resources = int(rng.integers(1, 90)), 2
        offers = rng.lognormal(0.0, 2.0, (bids, resources)) * (rng.random((bids, resources)) < 0.9)
        owners, offer = rng.integers(NOBODY, 8, bids), tuple(rng.lognormal(0.0, 4.0, resources).tolist())
        found, limit = factors_of(offer, book_of(offers, owners), 3.0), math.log(3.0)
        scaled = factors_of(tuple(1024 * one for one in offer), book_of(1024 * offers, owners), 3.0)
        assert found == pytest.approx(scaled, rel=1e-12)
        pools = pools_of(offers > 0, owners, block=32)
        pools = [pool for pool in pools if max(rows_of([pool])) < bids - bids % 8]
        above = {}
        for r in range(resources):
            means = [
                np.mean([np.mean(np.log(offers[mine, r])) for mine in pool])
                for pool in pools
                if offers[pool[0][0], r] > 0
            ]
            if means:
                above[r] = math.log(offer[r]) - np.median(means[-RECENT_POOLS:])
        level = float(np.mean(list(above.values()))) if above else 0.0
        shape = {r: one - level for r, one in above.items()}
        drawn_together = min(1.0, limit / max([limit, *map(abs, shape.values())]))
        for r in range(resources):
            wanted = np.clip(level, -limit, limit) - level + (drawn_together - 1.0) * shape.get(r, 0.0)
            assert math.log(found[r] if found else 1.0) == pytest.approx(wanted, abs=1e-8), (seed, number)


def test_with_a_limit_a_pool_shows_nothing_of_its_bids_but_the_product_and_their_sizes() -> None:
    """Otherwise a sum of values beside a product would show the third of three offers if two are at the limit."""
    rng, seed = fresh()
    for number in range(rounds(30)):
        offers, owners, block = drawn(rng)
        pools = pools_of(offers > 0, owners, block=block)
        moved = with_the_same_products(rng, offers, pools)
        sizes = rng.uniform(1.0, 50.0, len(offers))
        values = [np.where(rows > 0, rows, 0.0).max(axis=1) * sizes for rows in (offers, moved)]
        one, other = (
            pooled(*both, owners, block=block, limit=4.0) for both in zip((offers, moved), values, strict=True)
        )
        for before, after in zip(one, other, strict=True):
            assert np.array_equal(before, after, equal_nan=True), (seed, number)
        assert (one.standalone_values > 0).all()


def after_attack(value: float, *, limit: float, every: int = 3) -> PriceFunction:
    """Prices after five owners offered 1.0, and another one, one bid of `every`, this value from the 33rd bid on."""
    ledger, policy = Ledger(test_dps.INVENTORY, start=0, slots=8), Dps(offer_limit=limit)
    book = RunningBook(ledger)
    for number in range(HISTORY):
        attacks = number >= 32 and number % every == 0
        offered = (value if attacks else 1.0,) * 2
        rejected = Decision.reject(str(number), Reason.PRICE, "", slot=0, density=offered, standalone_value=offered[0])
        decision = policy.limited(rejected, book.view())
        book.apply_decision(test_dps.bid(Constant(1.0)), decision, bound=True, owner=9 if attacks else number % 5)
    return policy.price_function(book.view())


def full_bits(prices: PriceFunction) -> Floats:
    """Logarithms of the prices of full resources, to base two."""
    return (np.array(prices.log_scale) + prices.log_growth) / math.log(2.0)


def test_who_bids_extreme_values_all_the_time_moves_prices_by_a_bounded_factor() -> None:
    """In every pool the one counts a quarter: its limit, and what recent pools already moved."""
    usual = after_attack(1.0, limit=4.0)
    for value in (1e12, 1e6, 1e-6):
        found, free = (after_attack(value, limit=limit) for limit in (4.0, NO_LIMIT))
        moved, unlimited = (abs(full_bits(one) - full_bits(usual)) for one in (found, free))
        # x = (2 + x) / 4 bits, where pools are moved by x; the first of them were not, so prices spread to twice that.
        assert np.all(moved <= 2 * 2 / 3 + 0.1), value
        assert np.all(unlimited > 4), value
