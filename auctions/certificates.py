"""A proved upper bound on welfare, kept fresh beside the market: weak duality at the prices that were posted.

For any prices p >= 0, no scheduler can have had more from the bids decided so far than

    sum over bids of max(0, best payoff at p, ignoring what others hold)  +  sum of p x capacity,

where a bid may use the slots its own decision could: from the slot it was decided in to the horizon then. p is
what was kept of past slots (0 where nothing was) and what is posted now for future ones. A term may always be
replaced by the bid's value on an empty cluster at no price, which its receipt holds (`ceiling`): that is done
when time runs out and for bids decided under an earlier inventory. The sum of all ceilings alone is a bound too.
"""

from dataclasses import dataclass
from time import perf_counter, thread_time

import numpy as np
from django.db import IntegrityError, transaction
from django.db.models import Sum

from auctions import book as books
from auctions.book import LiveBook
from auctions.layout import Layout, layouts
from auctions.lock import Moment, moment_of
from auctions.models import BoundKind, Certificate, DecisionRecord, Market, SlotPrice
from auctions.readings import VALUE_KEPT, kept_prices
from scheduling.arrays import Floats
from scheduling.bid import Bid as CoreBid
from scheduling.policy import Objective, Terms

BUDGET_S = 0.5
"""Processor time one renewal may take for the terms; bids beyond it count with their ceilings."""


@dataclass(frozen=True)
class _Sight:
    """What one renewal looks at: all as of one version of the market."""

    market: Market
    book: LiveBook
    moment: Moment
    decisions: list[DecisionRecord]
    """Those whose terms may still change, in order."""
    past: dict[int, Floats]
    """What was kept of slots that are gone, S x R each."""
    future: Floats
    """Prices posted from the moment's first slot to the end of the horizon, T x S x R."""

    def prices(self, start: int, end: int) -> Floats:
        """Prices of slots [start, end), T x S x R; 0 where nothing was kept or is posted."""
        window = np.zeros((end - start, *self.future.shape[1:]))
        for t in range(start, min(end, self.moment.now)):
            window[t - start] = self.past.get(t, 0.0)
        first, last = max(start, self.moment.now), min(end, self.moment.now + len(self.future))
        if first < last:
            window[first - start : last - start] = self.future[first - self.moment.now : last - self.moment.now]
        return window

    @property
    def gone(self) -> int:
        """Slots before this one have begun, are processed, and can no longer be traded."""
        return min(self.moment.now, self.market.slot + 1)


@dataclass(frozen=True)
class _Terms:
    """The bids' terms, in order; `loose` marks those for which the ceiling stood in."""

    values: list[float]
    loose: list[bool]


def renew(market_id: int, *, budget_s: float = BUDGET_S) -> Certificate | None:
    """Compute the market's certificate again if anything happened since; no lock is taken.

    None before the first decision, and where the policy in force has another objective than welfare.
    """
    began = perf_counter()
    market = Market.objects.select_related("cluster").get(pk=market_id)
    row = Certificate.objects.filter(market=market).first() or Certificate(market=market, version=0)
    if row.version == market.version:
        return row if row.pk else None
    sight = _look(market, row)
    if sight.book.policy.objective is not Objective.WELFARE:
        return None
    if not sight.decisions and not row.settled_bids:
        return None
    terms = _terms(sight, deadline=thread_time() + budget_s)
    row.version = market.version
    row.zero_price = row.settled_ceilings + sum(d.ceiling for d in sight.decisions)
    row.posted_price = row.settled_terms + sum(terms.values) + _capacity_term(row, sight)
    row.loose = row.settled_loose + sum(terms.loose)
    row.decided = row.settled_bids + len(sight.decisions)
    row.kind, row.value = min(
        (BoundKind.POSTED_PRICE, row.posted_price), (BoundKind.ZERO_PRICE, row.zero_price), key=lambda bound: bound[1]
    )
    row.welfare = _welfare(sight)
    row.gap = (row.value - row.welfare) / row.value if row.value > 0 else 0.0
    _settle(row, sight, terms)
    row.computed_at = sight.moment.wall
    row.took_ms = (perf_counter() - began) * 1000
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError:  # another worker's first certificate of this market came between
        return Certificate.objects.get(market=market)
    return row


def _look(market: Market, row: Certificate) -> _Sight:
    moment = moment_of(market)
    book = books.peek(market, now=moment.now)  # re-reads the market where it has moved on
    records = DecisionRecord.objects.filter(bid__market=market, version__lte=book.version)
    decisions = list(records.order_by("version").select_related("bid")[row.settled_bids :])
    start = min([moment.now, *(d.slot for d in decisions)])
    # Slots that began but are not processed yet have no row, now; at price 0 until they have.
    past = kept_prices(market, book.layout, start=start, end=min(moment.now, market.slot + 1))
    future = book.prices()
    return _Sight(market=market, book=book, moment=moment, decisions=decisions, past=past, future=future)


def _terms(sight: _Sight, *, deadline: float) -> _Terms:
    layout, policy = sight.book.layout, sight.book.policy
    horizon, values, loose = layout.horizon, [], []
    posted: Terms | None = None
    end = 0
    for decision in sight.decisions:
        exact = decision.inventory_version == sight.market.inventory_version and thread_time() < deadline
        term = decision.ceiling
        if exact and term > 0:
            if posted is None or decision.slot + horizon > end:
                # An index serves the bids of an eighth of the horizon: longer tables are slower to search.
                end = decision.slot + horizon + horizon // 8
                posted = policy.at_prices(layout.inventory, sight.prices(decision.slot, end), start=decision.slot)
            core = CoreBid.from_json(decision.bid.core)
            if posted is not None:
                term = min(term, posted.term(core, first=decision.slot, end=decision.slot + horizon))
        values.append(term)
        loose.append(not exact)
    return _Terms(values=values, loose=loose)


def _capacity_term(row: Certificate, sight: _Sight) -> float:
    """Sum of price x capacity over all slots from the first recorded one to the end of the horizon.

    The capacity of a past slot is what it was when the slot began. Sums of processed slots are kept in the row.
    """
    market, book = sight.market, sight.book
    fresh = SlotPrice.objects.filter(market=market, slot__lt=sight.gone)
    if row.settled_through is not None:
        fresh = fresh.filter(slot__gte=row.settled_through)
    known: dict[int, Layout] = {market.inventory_version: book.layout}
    for version, prices in fresh.values_list("inventory_version", "prices"):
        if version not in known:
            known |= layouts(market, {version})
        row.settled_capacity += float((np.array(prices) * known[version].inventory.capacity).sum())
    # A clock that was set back does not bring back a slot that is in the sum already.
    row.settled_through = max(sight.gone, row.settled_through or sight.gone)
    return row.settled_capacity + float((sight.future * book.layout.inventory.capacity).sum())


def _welfare(sight: _Sight) -> float:
    records = DecisionRecord.objects.filter(bid__market=sight.market, version__lte=sight.book.version)
    return float(records.filter(bid__state__in=sorted(VALUE_KEPT)).aggregate(total=Sum("bid__value"))["total"] or 0.0)


def _settle(row: Certificate, sight: _Sight, terms: _Terms) -> None:
    """Keep, as sums, the terms of the leading bids whose whole window lies in processed slots."""
    for decision, term, loose in zip(sight.decisions, terms.values, terms.loose, strict=True):
        if decision.slot + sight.book.layout.horizon > sight.gone:
            return
        row.settled_bids += 1
        row.settled_terms += term
        row.settled_ceilings += decision.ceiling
        row.settled_loose += loose
