"""The history that prices depend on: densities and standalone values of earlier bids, read from receipts."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from auctions.domain.inventory_snapshot import InventorySnapshot, align, snapshots_at
from auctions.domain.owners import pool_owner
from auctions.models import Bid, BidState, DecisionRecord, Event, EventKind, FirstDecision, Market
from auctions.state.seals import state_at_cut
from scheduling.book.state import HISTORY
from scheduling.model.decision import counted_offer, parse


def realigned(
    history: Iterable[tuple[float, ...]], *, old: InventorySnapshot, new: InventorySnapshot
) -> deque[tuple[float, ...]]:
    """Return densities with the resources in the order of snapshot `new`; 0 for a resource that did not exist then."""
    rows = np.array(list(history), dtype=np.float64).reshape(-1, len(old.resource_ids))
    moved = align(rows, old=old.resource_ids, new=new.resource_ids, axis=1)
    return deque((tuple(row) for row in moved.tolist()), maxlen=HISTORY)


@dataclass(frozen=True)
class Learned:
    """Data of earlier bids from which prices learn. Each bid counts once, when it was first decided."""

    history: deque[tuple[float, ...]]
    """Densities of the last bids, with resources in the order of the snapshot."""
    offers: deque[tuple[int, float, int]]
    """Slots, standalone values and owners of the same bids."""
    decided: int
    """Number of all bids decided so far."""


def recorded_history(
    market: Market, snapshot: InventorySnapshot, *, in_force: int, before: int | None = None
) -> Learned:
    """Return what prices learn from receipts, those of events before version `before` if it is given.

    `in_force` is the version of the snapshot. Receipts before the cut may be archived: what prices learned from these
    is in the state at the cut.
    """
    market_id = market.pk
    rows = _last_receipts(market, before)
    others = {version for _, _, version, _ in rows} - {in_force}
    known = snapshots_at(market_id, others)
    history: deque[tuple[float, ...]] = deque(maxlen=HISTORY)
    offers: deque[tuple[int, float, int]] = deque(maxlen=HISTORY)
    if len(rows) < HISTORY and (state := state_at_cut(market)) is not None:
        sealed = state["replay"]["state"]
        old, book = InventorySnapshot.from_json(sealed["snapshots"][sealed["snapshot"]]), sealed["book"]
        history.extend(realigned(map(tuple, book["history"]), old=old, new=snapshot))
        offers.extend((slot, value, owner) for slot, value, owner in book["offers"])
    for _, text, version, owner in rows:
        receipt = parse(text)
        density, value = counted_offer(
            receipt["density"], receipt["standalone_value"], receipt.get("offer_factors", ())
        )
        offers.append((receipt["slot"], value, owner))
        history.extend(realigned([density], old=known[version], new=snapshot) if version in known else [density])
    return Learned(history, offers, decided=_decided(market, before))


def _last_receipts(market: Market, before: int | None) -> list[tuple[int, str, int, int]]:
    """Return version, text, version of the inventory and owner of the last receipts, one for each bid, in order.

    The events, which have an index by version, lead to the rows: their tables grow with the market.
    """
    rows: list[tuple[int, str, int, int]] = []
    after = market.sealed_version or 0
    for kinds, receipt in (
        ((EventKind.ADMITTED, EventKind.REJECTED), "decision"),
        ((EventKind.STANDING,), "first_decision"),
    ):
        events = Event.objects.filter(market=market, kind__in=kinds, version__gt=after)
        if before is not None:
            events = events.filter(version__lt=before)
        if receipt == "decision":
            events = events.filter(bid__decision__stood_from=None)  # else its first decision counts
        columns = "version", f"bid__{receipt}__receipt", f"bid__{receipt}__inventory_version", "bid__owner", "bid__team"
        rows += (
            (version, *found, pool_owner(user=user, team=team, version=version, teams_from=market.teams_pooled_from))
            for version, *found, user, team in events.order_by("-version").values_list(*columns)[:HISTORY]
        )
        if len(rows) >= HISTORY:
            after = max(after, rows[-1][0])
    return sorted(rows)[-HISTORY:]


def _decided(market: Market, before: int | None) -> int:
    """Return the number of bids that were decided, each counted once."""
    if before is None:  # few bids are not decided, and an index has their states
        states = (BidState.SUBMITTED, BidState.QUARANTINED, BidState.WITHDRAWN)
        without = Bid.objects.filter(market=market, state__in=states, decision=None, first_decision=None)
        return market.submitted - without.count()
    once = DecisionRecord.objects.filter(bid__market=market, stood_from=None, version__lt=before)
    return once.count() + FirstDecision.objects.filter(bid__market=market, version__lt=before).count()
