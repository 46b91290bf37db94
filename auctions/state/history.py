"""The history that prices depend on: densities and standalone values of earlier bids, read from receipts."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from auctions.domain.inventory_snapshot import InventorySnapshot, align, snapshots_at
from auctions.models import DecisionRecord, FirstDecision, Market
from auctions.state.seals import state_at_cut
from scheduling.book.state import HISTORY
from scheduling.model.decision import parse


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
    market_id, cut = market.pk, market.sealed_version
    once = DecisionRecord.objects.filter(bid__market=market_id, stood_from=None)
    firsts = FirstDecision.objects.filter(bid__market=market_id)
    if before is not None:
        once, firsts = once.filter(version__lt=before), firsts.filter(version__lt=before)
    rows: list[tuple[int, str, int, int]] = []
    for found in (once, firsts):
        later = found.filter(version__gt=cut) if cut else found
        columns = later.order_by("-version").values_list("version", "receipt", "inventory_version", "bid__owner_id")
        rows += columns[:HISTORY]
    rows = sorted(rows)[-HISTORY:]
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
        density = tuple(receipt["density"])
        offers.append((receipt["slot"], receipt["standalone_value"], owner))
        history.extend(realigned([density], old=known[version], new=snapshot) if version in known else [density])
    return Learned(history, offers, decided=once.count() + firsts.count())
