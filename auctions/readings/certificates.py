"""A proved upper bound on welfare, renewed in the background: weak duality at the posted prices.

For any prices p >= 0, no scheduler can have had more welfare from the bids decided so far than

    sum over bids of max(0, best payoff at p, ignoring what others hold)  +  sum of p x capacity,

where a bid may use the slots that its own decision could use: from the slot of the decision to the end of the horizon
then. A standing bid counts once it stands no longer, and may use the slots from its first decision on. p is the stored
price for a past slot (0 where none is stored) and the present posted price for a future slot. A term may always be
replaced by the bid's value on an empty cluster at price 0, which its receipt contains (`standalone_value`). This is
done when time runs out, for bids decided under an earlier inventory or another policy, whose schedules may be of a
kind that the policy in force has not, and for jobs that were complete early: they needed less than their bids say, and
what they freed was sold again. The sum of all standalone values alone is also a bound.
`renew` takes the smaller of the two; the proof is in `scheduling.best_response.dual_bound`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from time import perf_counter, thread_time
from typing import Final

import numpy as np
from django.db import IntegrityError, transaction

from auctions.domain.announcements import announce
from auctions.domain.inventory_snapshot import InventorySnapshot, snapshots_at
from auctions.domain.lock import MarketTime
from auctions.models import Bid, BidState, BoundKind, Certificate, DecisionRecord, Market, SlotPrice
from auctions.readings import sums
from auctions.readings.market_readings import kept_prices
from auctions.state.market_snapshot import MarketSnapshot, market_snapshot, one_version
from cluster.clock import now
from scheduling.best_response.dual_bound import Terms
from scheduling.model.bid import Bid as CoreBid
from scheduling.model.types import Floats
from scheduling.policies.base import Objective, Policy

BUDGET_S = 0.5
"""Processor time that one renewal may use for the terms, seconds; later bids count with standalone values."""

LONGEST_WINDOW: Final = 3
"""A bid that stood for more horizons than this, less one, counts with its standalone value: tables would be long."""

PAUSE_FACTOR: Final = 39
"""After a renewal of t seconds the next one waits 39 t seconds: certificates use 1/40 of a core for each market, or
less on a busy machine, where a renewal takes longer."""


BIDS_AT_ONCE: Final = 256
"""Number of bids that are read in one query for their terms."""


@dataclass(frozen=True, slots=True)
class _Decided:
    """The columns of a decision that a renewal reads; the bid itself is read only if its term is computed."""

    bid: int
    slot: int
    """First slot on sale when it was decided."""
    first: int
    """First slot that the bid could use: the first one on sale when it was first decided."""
    standalone_value: float
    comparable: bool
    """Whether its term may be computed: the inventory and the policy are those in force, and it did all its work."""


@dataclass(frozen=True)
class _Inputs:
    """The input of one renewal, read from one version of the market."""

    market: Market
    moment: MarketTime
    snapshot: InventorySnapshot
    policy: Policy
    decisions: list[_Decided]
    """Decisions whose terms may still change, in order."""
    welfare: float
    """Welfare of all decided bids."""
    past: dict[int, Floats]
    """Stored prices of past slots, S x R each."""
    future: Floats
    """Prices posted from the moment's first slot to the end of the horizon, T x S x R."""
    value_of_past: float
    """Sum of price x capacity over past slots that are in no certificate yet, with the capacity of that time."""

    def prices(self, start: int, end: int) -> Floats:
        """Return prices of slots [start, end), T x S x R; 0 where no price is stored or posted."""
        window = np.zeros((end - start, *self.future.shape[1:]))
        for t in range(start, min(end, self.moment.now)):
            window[t - start] = self.past.get(t, 0.0)
        first, last = max(start, self.moment.now), min(end, self.moment.now + len(self.future))
        if first < last:
            window[first - start : last - start] = self.future[first - self.moment.now : last - self.moment.now]
        return window

    @property
    def gone(self) -> int:
        """Slots before this one have begun and been processed, and can no longer be traded."""
        return min(self.moment.now, self.market.slot + 1)


@dataclass(frozen=True)
class _Terms:
    """The bids' terms, in order; `loose` marks the bids for which the standalone value was used."""

    values: list[float]
    loose: list[bool]


def keep_fresh(market_id: int) -> None:
    """Renew the market's certificate, unless the last renewal took long and was too recent."""
    last = Certificate.objects.filter(market=market_id).values_list("computed_at", "duration_ms").first()
    if last is None or now() >= last[0] + timedelta(milliseconds=(1 + PAUSE_FACTOR) * last[1]):
        renew(market_id)


def renew(market_id: int, *, budget_s: float = BUDGET_S) -> Certificate | None:
    """Compute the market's certificate again if there were events since; no lock is taken.

    Return None before the first decision, or if the policy in force has an objective other than welfare.
    """
    began = perf_counter()
    with one_version():
        market = Market.objects.get(pk=market_id)
        row = Certificate.objects.filter(market=market).first() or Certificate(market=market, version=0)
        if row.version == market.version:
            return row if row.pk else None
        inputs = _read_inputs(market_snapshot(market), row)
    if inputs is None or (not inputs.decisions and not row.settled_bids):
        return None
    terms = _terms(inputs, deadline=thread_time() + budget_s)
    row.version = inputs.market.version
    row.zero_price = row.settled_standalone_values + sum(d.standalone_value for d in inputs.decisions)
    row.posted_price = row.settled_terms + sum(terms.values) + _capacity_term(row, inputs)
    row.loose = row.settled_loose + sum(terms.loose)
    row.decided = row.settled_bids + len(inputs.decisions)
    row.kind, row.value = min(
        (BoundKind.POSTED_PRICE, row.posted_price), (BoundKind.ZERO_PRICE, row.zero_price), key=lambda bound: bound[1]
    )
    row.welfare = inputs.welfare
    row.gap = (row.value - row.welfare) / row.value if row.value > 0 else 0.0
    _settle(row, inputs, terms)
    row.computed_at = inputs.moment.wall
    row.duration_ms = (perf_counter() - began) * 1000
    try:
        with transaction.atomic():
            row.save()
            announce(market_id, row.version)
    except IntegrityError:  # meanwhile another worker stored this market's first certificate
        return Certificate.objects.get(market=market)
    return row


def _read_inputs(seen: MarketSnapshot, row: Certificate) -> _Inputs | None:
    """Read the input of a renewal; None if the policy in force has an objective other than welfare."""
    market, moment, book = seen.market, seen.moment, seen.book
    if book.policy.objective is not Objective.WELFARE:
        return None
    decisions = _decisions(market, book.policy, since=row.settled_bids)
    start = min([moment.now, *(decision.first for decision in decisions)])
    gone = min(moment.now, market.slot + 1)
    return _Inputs(
        market=market,
        moment=moment,
        snapshot=book.snapshot,
        policy=book.policy,
        decisions=decisions,
        welfare=float(sums.present_figures(market)["welfare"]),
        # Slots that began but are not processed yet have no row; their price is 0 until they have one.
        past=kept_prices(market, book.snapshot, start=start, end=gone),
        future=book.prices(),
        value_of_past=_value_of_past(market, book.snapshot, since=row.settled_through, end=gone),
    )


def _value_of_past(market: Market, snapshot: InventorySnapshot, *, since: int | None, end: int) -> float:
    fresh = SlotPrice.objects.filter(market=market, slot__lt=end)
    if since is not None:
        fresh = fresh.filter(slot__gte=since)
    known, total = {market.inventory_version: snapshot}, 0.0
    for version, prices in fresh.values_list("inventory_version", "prices"):
        if version not in known:
            known |= snapshots_at(market.pk, {version})
        total += float((np.array(prices) * known[version].inventory.capacity).sum())
    return total


def _decisions(market: Market, policy: Policy, *, since: int) -> list[_Decided]:
    """Return a market's decisions in order, without the first `since`."""
    columns = ("bid_id", "slot", "stood_from", "standalone_value", "inventory_version", "policy__name")
    rows = DecisionRecord.objects.filter(bid__market=market).order_by("version", "pk")
    found = rows.values_list(*columns, "bid__seal_id", "bid__state", "bid__ended_slot")[since:]
    return [
        _Decided(
            bid=bid,
            slot=slot,
            first=slot if stood_from is None else stood_from,
            standalone_value=value,
            comparable=inventory == market.inventory_version
            and name == policy.name
            and seal is None
            and not (state == BidState.COMPLETED and ended is not None),
        )
        for bid, slot, stood_from, value, inventory, name, seal, state, ended in found
    ]


def _terms(inputs: _Inputs, *, deadline: float) -> _Terms:
    snapshot, policy = inputs.snapshot, inputs.policy
    horizon = snapshot.horizon
    values = [decision.standalone_value for decision in inputs.decisions]
    loose = [not decision.comparable for decision in inputs.decisions]
    chosen = []
    for i, decision in enumerate(inputs.decisions):
        if decision.slot + horizon - decision.first > LONGEST_WINDOW * horizon:
            loose[i] = True
        elif decision.comparable and values[i] > 0:
            loose[i] = True  # until its term is computed
            chosen.append(i)
    chosen.sort(key=lambda i: inputs.decisions[i].first)
    posted: Terms | None = None
    end = 0
    for i, core in _with_bids(chosen, inputs):
        if thread_time() >= deadline:
            break
        decision = inputs.decisions[i]
        first, last = decision.first, decision.slot + horizon
        if posted is None or last > end:
            # An index serves the bids of an eighth of the horizon: longer tables are slower to search.
            end = last + horizon // 8
            posted = policy.at_prices(snapshot.inventory, inputs.prices(first, end), start=first)
        if posted is not None:
            values[i] = min(values[i], posted.term(core, first=first, end=last))
        loose[i] = False
    return _Terms(values=values, loose=loose)


def _with_bids(chosen: list[int], inputs: _Inputs) -> Iterator[tuple[int, CoreBid]]:
    """Yield the chosen decisions' positions with the bids, read in parts; a bid that was archived meanwhile is missing.

    No transaction is open: what a bid says for one version of the inventory never changes.
    """
    version = inputs.market.inventory_version
    for start in range(0, len(chosen), BIDS_AT_ONCE):
        part = chosen[start : start + BIDS_AT_ONCE]
        numbers = [inputs.decisions[i].bid for i in part]
        bids = Bid.objects.filter(pk__in=numbers, inventory_version=version, seal=None)
        cores = dict(bids.order_by().values_list("pk", "core_bid"))
        for i in part:
            if (core := cores.get(inputs.decisions[i].bid)) is not None:
                yield i, CoreBid.from_json(core)


def _capacity_term(row: Certificate, inputs: _Inputs) -> float:
    """Return the sum of price x capacity over all slots from the first recorded one to the end of the horizon.

    The sum over processed slots is stored in the row.
    """
    row.settled_capacity += inputs.value_of_past
    # If the clock was set back, a slot that is already in the sum is not added again.
    row.settled_through = max(inputs.gone, row.settled_through or inputs.gone)
    return row.settled_capacity + float((inputs.future * inputs.snapshot.inventory.capacity).sum())


def _settle(row: Certificate, inputs: _Inputs, terms: _Terms) -> None:
    """Add the terms of the first bids to the row's sums, as long as their whole windows lie in processed slots."""
    for decision, term, loose in zip(inputs.decisions, terms.values, terms.loose, strict=True):
        if decision.slot + inputs.snapshot.horizon > inputs.gone:
            return
        row.settled_bids += 1
        row.settled_terms += term
        row.settled_standalone_values += decision.standalone_value
        row.settled_loose += loose
