"""The history that prices depend on: densities and standalone values of earlier bids, read from receipts."""

from collections import deque
from collections.abc import Iterable

import numpy as np
from django.db.models import QuerySet

from auctions.domain.inventory_snapshot import InventorySnapshot, align, snapshots_at
from auctions.models import DecisionRecord
from scheduling.book.state import HISTORY
from scheduling.model.decision import parse


def realigned(
    history: Iterable[tuple[float, ...]], *, old: InventorySnapshot, new: InventorySnapshot
) -> deque[tuple[float, ...]]:
    """Return densities with the resources in the order of snapshot `new`; 0 for a resource that did not exist then."""
    rows = np.array(list(history), dtype=np.float64).reshape(-1, len(old.resource_ids))
    moved = align(rows, old=old.resource_ids, new=new.resource_ids, axis=1)
    return deque((tuple(row) for row in moved.tolist()), maxlen=HISTORY)


def recorded_history(
    decisions: "QuerySet[DecisionRecord]", snapshot: InventorySnapshot, *, market_id: int, in_force: int
) -> tuple[deque[tuple[float, ...]], deque[tuple[int, float, int]]]:
    """Return what prices learn from the last of these receipts.

    First densities, with resources in the order of `snapshot`, whose version is `in_force`; then slots, standalone
    values and owners.
    """
    rows = list(decisions.order_by("-version").values_list("receipt", "inventory_version", "bid__owner_id")[:HISTORY])
    others = {version for _, version, _ in rows} - {in_force}
    known = snapshots_at(market_id, others)
    history: deque[tuple[float, ...]] = deque(maxlen=HISTORY)
    offers: deque[tuple[int, float, int]] = deque(maxlen=HISTORY)
    for text, version, owner in reversed(rows):
        receipt = parse(text)
        density = tuple(receipt["density"])
        offers.append((receipt["slot"], receipt["standalone_value"], owner))
        history.extend(realigned([density], old=known[version], new=snapshot) if version in known else [density])
    return history, offers
