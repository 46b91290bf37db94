"""Capacity of the servers of a market, and what machines take of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from auctions.models import Market
from auctions.state.market_snapshot import market_snapshot
from execution.steps import Demands

UNLIMITED: Final = 2**62
"""More units of a resource than all jobs together take."""


@dataclass(frozen=True)
class Room:
    """Capacity of the servers of a cluster, and what machines take of it."""

    capacity: Mapping[int, Sequence[int]]
    """Units of each resource, by key of the server."""
    demands: Demands


def room_of(market: Market) -> Room:
    """Return what the servers of a market have, in the version that this block reads."""
    book = market_snapshot(market).book
    snapshot, inventory = book.snapshot, book.snapshot.inventory
    demands = {
        ("worker", key): row for key, row in zip(snapshot.worker_ids, inventory.worker_demand.tolist(), strict=True)
    }
    demands |= {("ps", key): row for key, row in zip(snapshot.ps_ids, inventory.ps_demand.tolist(), strict=True)}
    units = inventory.capacity.copy()
    if book.view.queues is not None:  # a job in queues always finds a parameter server in a cloud, whatever that has
        for cloud in (s for s, is_cloud in enumerate(inventory.cloud) if is_cloud):
            units[cloud, inventory.ps_demand.any(axis=0)] = UNLIMITED
    return Room(dict(zip(snapshot.server_ids, units.tolist(), strict=True)), demands)
