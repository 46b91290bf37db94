"""Checks against a replay of all events: receipts, moves, payments, and what was stored of slots and queues."""

import hashlib
from collections.abc import Collection, Iterable, Iterator

import numpy as np

from auctions.history.recorded import RecordedReceipts, Source
from auctions.history.replay import UNREADABLE, Replaying
from auctions.history.steps import Replayed
from auctions.models import Event, EventKind, Market, SlotPrice
from auctions.state.queue_rows import RecordedWork, together
from cluster.database.paging import in_pages
from scheduling.model.types import Json
from scheduling.policies.standing import StandingRule


class ReplayedRecord:
    """A replay that is compared with the record event by event."""

    def __init__(self, market: Market, source: Source) -> None:
        self._market, self._source = market, source
        self._state = Replaying(priced=True, source=source)
        self._receipts = RecordedReceipts(market, source)
        self._first_slot: int | None = None
        """First slot whose stored prices are compared; None for all."""
        self._slots: dict[int, tuple[int, bytes | None]] = {}
        """For each slot that began, the version of the inventory and the digest of the prices and the use."""
        self._inventory_version = 0
        self._broken_off: Exception | None = None

    @property
    def under_way(self) -> set[int]:
        """Numbers of the bids whose jobs are in the book."""
        return set(map(int, self._state.under_way))

    def to_json(self, gone: Collection[int], numbers: Collection[int], *, first_slot: int) -> Json:
        """Return the state without the bids with these keys and numbers, as `resume` reads it.

        Stored slots are compared from `first_slot` on afterwards.
        """
        self._whole()
        return {
            "state": self._state.state_json(numbers),
            "receipts": self._receipts.to_json(gone),
            "inventory_version": self._inventory_version,
            "first_slot": first_slot,
        }

    def resume(self, document: Json) -> None:
        """Go on from the state that `to_json` wrote."""
        self._state.resume_state(document["state"], self._market.pk, self._source)
        self._receipts.resume(document["receipts"])
        self._inventory_version, self._first_slot = document["inventory_version"], document["first_slot"]

    def take(self, event: Event) -> Iterator[str]:
        """Replay one event and compare its decisions and moves. After an error of the replay no event is replayed."""
        if self._broken_off is not None:
            return
        try:
            self._note_slots(event)
            steps = self._state.steps(event)
        except UNREADABLE as error:
            self._broken_off = error
            return
        made = self._receipts.compared([step for step in steps if isinstance(step, Replayed)], event.bid)
        recorded = {id(step): receipt for step, receipt in made}
        for step in steps:
            if step.moves != step.recorded_moves:
                yield f"version {step.version} moves jobs, or tries bids, otherwise when replayed"
            if isinstance(step, Replayed):
                yield from _decided_otherwise(step, recorded[id(step)])

    def broken(self) -> list[str]:
        """Return why the replay broke off; nothing if it did not."""
        if self._broken_off is None:
            return []
        return [f"the replay breaks off: {type(self._broken_off).__name__}: {self._broken_off}"]

    def finish(self) -> Iterator[str]:
        """Yield what is wrong once all events were read: the replay broke off, or receipts that it did not give."""
        if self._broken_off is not None:
            yield from self.broken()
            return
        for number, _ in self._receipts.left():
            yield f"bid {number} has a receipt that a replay does not give"
        kept, stated = self._market.standing_rule, self._state.standing.rule
        if kept is not None and StandingRule.from_json(kept) != stated:
            yield f"market.standing_rule is {kept}; the rule that an event stated last is {stated.to_json()}"

    def work(self) -> RecordedWork:
        """Return the work that workers did from queues; raises the error with which the replay broke off."""
        self._whole()
        return together(self._state.runs)

    def slots_otherwise(self, *, before: int | None = None) -> list[str]:
        """Compare the stored slots, up to slot `before` if it is given; raises the error that broke the replay off."""
        self._whole()
        stored = SlotPrice.objects.filter(market=self._market)
        if self._first_slot is not None:
            stored = stored.filter(slot__gte=self._first_slot)
        if before is not None:
            stored = stored.filter(slot__lt=before)
        numbers = set(stored.values_list("slot", flat=True))
        problems = [f"slot {slot} is missing" for slot in sorted(self._slots.keys() - numbers)]
        problems += [f"slot {slot} was never kept" for slot in sorted(numbers - self._slots.keys())]
        for row in in_pages(stored, by="slot", size=50):
            found = (row.inventory_version, _digest(row.prices, row.used))
            if row.slot in self._slots and found != self._slots[row.slot]:
                problems.append(f"slot {row.slot} began otherwise")
        return problems

    def _whole(self) -> None:
        if self._broken_off is not None:
            raise self._broken_off

    def _note_slots(self, event: Event) -> None:
        """Note the prices and the use that are stored for the slots that begin with an event, before it."""
        if event.kind in (EventKind.OPENED, EventKind.INVENTORY):
            self._inventory_version = event.version
            self._slots = {slot: row for slot, row in self._slots.items() if slot < event.slot}
        if event.kind != EventKind.SLOT:
            return
        book = self._state.at(event.payload["from"])
        rows = book.slots_to_keep(last=event.payload["to"])
        if not rows or event.payload.get("unpriced"):
            return
        prices, used, start = book.prices(), book.used(), book.ledger.start
        for slot in rows:
            digest = _digest(prices[slot - start].tolist(), used[slot - start].tolist())
            self._slots[slot] = self._inventory_version, digest


def _decided_otherwise(step: Replayed, recorded: str) -> Iterable[str]:
    if recorded != step.receipt:
        yield f"bid {step.sequence} (version {step.version}) is decided otherwise when replayed"
    paid = step.decision.payment
    if step.charged is not None and abs(paid - step.charged) > 1e-6 * max(1.0, abs(paid)):
        yield f"bid {step.sequence} pays {paid}; at posted prices it is {step.charged}"


def _digest(prices: Json, used: Json) -> bytes | None:
    """Return a digest of the numbers in two tables; None if they are not tables of numbers."""
    try:
        # Adding 0 turns -0.0, which PostgreSQL does not store, into 0.0.
        tables = [np.asarray(table, dtype=np.float64) + 0.0 for table in (prices, used)]
    except (TypeError, ValueError):
        return None
    found = hashlib.sha256()
    for table in tables:
        found.update(repr(table.shape).encode() + table.tobytes())
    return found.digest()
