"""The market's lock, the time of an operation, and the events that the operation records.

On SQLite a transaction begins IMMEDIATE, so the transaction itself is the lock. On Postgres the market's row is locked.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from auctions.domain.announcements import announce
from auctions.models import Bid, Event, EventKind, Market
from cluster import clock
from cluster.database.prepared import Prepared
from scheduling.model.types import Json

ENDS = frozenset({EventKind.CANCELLED, EventKind.FAILED, EventKind.COMPLETED})
"""Kinds of events that end a job before its last slot."""
QUEUE_EVENTS = frozenset({EventKind.SUBMITTED, EventKind.WITHDRAWN, EventKind.QUARANTINED, EventKind.RETRIED})
"""Events that change which bids wait for a decision, but nothing that decisions depend on."""
MOVES_THE_LEDGER = frozenset(EventKind) - QUEUE_EVENTS
"""Events after which a decision may have another result."""


# of=("self",): the cluster is read but not locked. no_key: inserting a bid that refers to the market need not wait.
_LOCKED = Prepared(
    lambda market: (
        Market.objects.select_related("cluster").select_for_update(no_key=True, of=("self",)).filter(pk=market)
    ),
    int,
)


@dataclass(frozen=True)
class MarketTime:
    """The time of an operation, read once from the clock; `slot` and `now` never go backwards."""

    wall: datetime
    seconds: float
    slot: int
    """The last slot that has begun."""
    now: int
    """The first slot that can still be traded; the slot under way is not."""


def market_time(market: Market, *, arrived: int | None = None) -> MarketTime:
    """Read the cluster's clock, once.

    With the arrival slot of a bid, the time is not before its arrival, though the clock may have been set back since.
    """
    instant = clock.read(market.cluster)
    # A virtual clock may be set back by hand, but processed slots stay in the past.
    slot, now = max(instant.slot, market.slot), max(instant.next_slot, market.now)
    if arrived is not None:  # the slot before had begun when the bid arrived
        slot, now = max(slot, arrived - 1), max(now, arrived)
    return MarketTime(wall=instant.wall, seconds=instant.seconds, slot=slot, now=max(now, slot))


@contextmanager
def locked_market(market_id: int) -> Iterator[Market]:
    """Hold the market's lock in a transaction of its own, committed when the block ends.

    Raises
    ------
    Market.DoesNotExist
        If there is no such market.
    RuntimeError
        If a transaction is open already.
    """
    with transaction.atomic(durable=True):
        yield lock(market_id)


def lock(market_id: int) -> Market:
    """Take the market's lock within the transaction that is open; raises Market.DoesNotExist."""
    found = _LOCKED.first(market_id)
    if found is None:
        raise Market.DoesNotExist(f"There is no market {market_id}.")
    return found


def record(
    market: Market, kind: EventKind, moment: MarketTime, *, bid: Bid | None = None, payload: Json | None = None
) -> Event:
    """Append an event under the market's lock; the caller saves the market with `save_counters`."""
    event = new_event(market, kind, moment, bid=bid, payload=payload)
    event.save(force_insert=True)
    return event


def record_bids(market: Market, kind: EventKind, moment: MarketTime, bids: Iterable[Bid]) -> list[Event]:
    """Append an event for each bid, in this order, in one statement unless there are too many for one."""
    return Event.objects.bulk_create([new_event(market, kind, moment, bid=bid) for bid in bids])


def new_event(
    market: Market, kind: EventKind, moment: MarketTime, *, bid: Bid | None = None, payload: Json | None = None
) -> Event:
    """Return the market's next event, under its lock; the caller saves it, and the market with `save_counters`."""
    slot = moment.slot if kind is EventKind.SLOT else moment.now
    market.version += 1
    if kind in MOVES_THE_LEDGER:
        market.ledger_version = market.version
        market.now = max(market.now, slot)
    return Event(
        market=market, version=market.version, kind=kind, at=moment.wall, slot=slot, bid=bid, payload=payload or {}
    )


def save_counters(market: Market) -> None:
    """Save the fields of the market's row that the lock protects, and announce the version after the commit."""
    market.save(
        update_fields=[
            "version",
            "ledger_version",
            "inventory_version",
            "policy_number",
            "submitted",
            "is_open",
            "slot",
            "now",
            "planning_failed",
            "standing_rule",
        ]
    )
    announce(market.pk, market.version)
