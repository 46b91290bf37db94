"""Data of jobs that servers store, under a policy that limits storage: a check for operators, and an audit check."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from auctions.domain.inventory_snapshot import InventorySnapshot
from auctions.models import TERMINAL, Event, EventKind, Market, QueuedChunks
from auctions.state import book as books
from cluster.units import mb_of
from scheduling.model.types import Json
from scheduling.policies.base import Policy
from scheduling.policies.preemptive import Preemptive

LIMITED: Final = "limited"
T = TypeVar("T")


def limits_storage(policy: Policy) -> bool:
    """Return whether the policy only sends chunks to servers with enough free storage."""
    return isinstance(policy, Preemptive) and policy.storage == LIMITED


def storage_problems(market: Market, new: InventorySnapshot, *, now: int) -> list[str]:
    """Return a message for each server whose storage a change would make smaller than what it stores for jobs.

    Data sent while the policy ignored storage may stay, so a server that stores too much already prevents no other
    change.
    """
    book = books.private_copy(market, now=now)
    if book.running.queues is None or not limits_storage(book.policy):
        return []
    held = dict(zip(book.snapshot.server_ids, book.running.queues.stored, strict=True))
    limits = new.inventory.storage or (None,) * len(new.server_ids)
    now_in_force = book.snapshot.inventory.storage or (None,) * len(held)
    before = dict(zip(book.snapshot.server_ids, now_in_force, strict=True))
    return [
        f"Server {name} stores {mb_of(held[key]):g} MB for jobs that are not complete;"
        f" its storage_mb cannot be {mb_of(limit):g}."
        for key, name, limit in zip(new.server_ids, new.inventory.servers, limits, strict=True)
        if limit is not None and held.get(key, 0) > limit and _less(limit, before.get(key))
    ]


def _less(limit: int, before: int | None) -> bool:
    return before is None or limit < before


@dataclass(frozen=True)
class _Change:
    """A server stores `size` more bytes from a slot on (fewer if negative). Data is deleted before new data comes."""

    slot: int
    comes: bool
    size: int
    sequence: int


def storage_kept(market: Market) -> list[str]:
    """Check that, under a policy that limits storage, no chunk was sent to a server that then held more than it can."""
    rules = _Rules(market)
    problems = []
    for server, changes in _changes(market).items():
        held = 0
        for i, change in enumerate(changes):
            held += change.size
            last = i + 1 == len(changes) or changes[i + 1].slot != change.slot
            limit = rules.limit(server, change.slot)
            if last and change.comes and limit is not None and held > limit:
                problems.append(
                    f"server {server} held {held} bytes in slot {change.slot} with chunks of bid {change.sequence};"
                    f" it can store {limit}"
                )
    return problems


def _changes(market: Market) -> dict[int, list[_Change]]:
    """Return the changes of what each server stores, by its key and in order."""
    found: dict[int, list[_Change]] = defaultdict(list)
    rows = QueuedChunks.objects.filter(bid__market=market).select_related("bid")
    for row in rows:
        size, bid = int(row.bid.core_bid.get("chunk_size", 0)), row.bid
        if not size:
            continue
        over = bid.completion_slot if bid.ended_slot is None else bid.ended_slot
        kept = row.count if row.until is None else row.done or 0
        found[row.server_id].append(_Change(row.since, True, row.count * size, bid.sequence))
        if row.until is not None:
            found[row.server_id].append(_Change(row.until, False, (kept - row.count) * size, bid.sequence))
        if bid.state in TERMINAL and over is not None:
            found[row.server_id].append(_Change(over, False, -kept * size, bid.sequence))
    return {server: sorted(changes, key=lambda c: (c.slot, c.comes)) for server, changes in found.items()}


class _Rules:
    """Storage limits over time. In a slot with several limits the largest one holds, or none if one was unlimited."""

    def __init__(self, market: Market) -> None:
        kinds = (EventKind.OPENED, EventKind.INVENTORY, EventKind.POLICY)
        events = Event.objects.filter(market=market, kind__in=kinds).order_by("version")
        rows = list(events.values_list("slot", "kind", "payload"))
        self._limited = [(slot, _is_limited(payload)) for slot, kind, payload in rows if kind == EventKind.POLICY]
        self._snapshots = [(slot, _limits(payload)) for slot, kind, payload in rows if kind != EventKind.POLICY]

    def limit(self, server: int, slot: int) -> int | None:
        """Return the most that a server could store in a slot, bytes; None if it was not limited all the time."""
        if not all(_in_force(self._limited, slot)):
            return None
        limits = [snapshot.get(server) for snapshot in _in_force(self._snapshots, slot)]
        known = [limit for limit in limits if limit is not None]
        return max(known) if known and len(known) == len(limits) else None


def _in_force(rows: Sequence[tuple[int, T]], slot: int) -> Iterator[T]:
    """Yield the value in force when a slot began, and the values that replaced it in that slot."""
    before = [value for since, value in rows if since < slot]
    yield from before[-1:]
    yield from (value for since, value in rows if since == slot)


def _is_limited(payload: Json) -> bool:
    return bool(payload["parameters"].get("storage") == LIMITED)


def _limits(payload: Json) -> dict[int, int | None]:
    return dict(zip(payload["server_ids"], payload.get("storage") or [None] * len(payload["server_ids"]), strict=True))
