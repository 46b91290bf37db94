"""Checks of a market's history: submitted bids, effects of events, and the certificate."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from math import ceil

import numpy as np
from django.db.models import Sum

from auctions.domain.bid_conversion import core_bid
from auctions.domain.inventory_snapshot import InventorySnapshot, snapshots_at
from auctions.domain.lock import MOVES_THE_LEDGER
from auctions.domain.totals import VALUE_KEPT
from auctions.domain.transitions import Window
from auctions.history.archive_file import digest_of
from auctions.history.audit_rows import TOLERANCE
from auctions.history.grants_of_events import GrantsOfEvents
from auctions.history.recorded import Source, keys_without
from auctions.models import (
    TERMINAL,
    WITHDRAWABLE,
    Bid,
    BidState,
    BoundKind,
    Certificate,
    DecisionRecord,
    Event,
    EventKind,
    Market,
    SlotPrice,
)
from auctions.state.grants import Grant, Grants
from cluster.database.paging import in_pages
from scheduling.model.bid import Bid as CoreBid
from scheduling.model.decision import canonical
from scheduling.model.types import Json

GOING = (BidState.PLANNED, BidState.RUNNING)


def bids_as_sent(market: Market) -> list[str]:
    """Check that each bid was decided as it was sent: its body, offer, core, label and arrival agree."""
    bids = Bid.objects.filter(market=market, seal=None).order_by("sequence")
    known = snapshots_at(market.pk, set(bids.order_by().values_list("inventory_version", flat=True)))
    decided = dict(DecisionRecord.objects.filter(bid__market=market).values_list("bid_id", "inventory_version"))
    problems = []
    for bid in in_pages(bids, by="sequence"):
        changed = [
            key
            for key, sent in bid.body.items()
            if key not in ("label", "model") and bid.resolved_request.get(key) != sent
        ]  # fmt: skip
        problems += [f"bid {bid.sequence}: {key} is not what was sent" for key in changed]
        if bid.ended_slot is not None and bid.state not in (BidState.CANCELLED, BidState.FAILED, BidState.COMPLETED):
            problems.append(f"bid {bid.sequence} is {bid.state}, yet it ended in slot {bid.ended_slot}")
        if bid.program != bid.body.get("program"):
            problems.append(f"bid {bid.sequence}: its program is not what was sent")
        if bid.label != bid.body.get("label", ""):
            problems.append(f"bid {bid.sequence}: its label is not what was sent")
        if bid.body_digest and bid.body_digest != digest_of(canonical(bid.body)):
            problems.append(f"bid {bid.sequence}: its digest is not that of what was sent")
        if bid.inventory_version not in known or decided.get(bid.pk, bid.inventory_version) != bid.inventory_version:
            problems.append(f"bid {bid.sequence}: its core speaks of inventory version {bid.inventory_version}")
        elif CoreBid.from_json(bid.core_bid) != _core(bid, known[bid.inventory_version]):
            problems.append(f"bid {bid.sequence}: its core is not its offer in slots")
        if bid.arrival_slot < ceil(bid.submitted_s / market.cluster.slot_seconds):
            problems.append(f"bid {bid.sequence}: submitted {bid.submitted_s} s, arrived in slot {bid.arrival_slot}")
    return problems


def _core(bid: Bid, snapshot: InventorySnapshot) -> CoreBid:
    return core_bid(bid.resolved_request, snapshot, bid_id=str(bid.sequence), arrival=bid.arrival_slot)


class RecordedStates:
    """The states of the bids and of the market after the events so far; the rows should have those after the last.

    `granted` returns the grants after the same event.
    """

    def __init__(self, market: Market, granted: Callable[[], GrantsOfEvents], source: Source) -> None:
        self._market, self._granted, self._source = market, granted, source
        self._states: dict[int, BidState] = {}
        """State of each bid, by its key."""
        self._going: dict[int, _Going] = {}
        """The jobs that are planned or running."""
        self._stood: set[int] = set()
        """Keys of the bids that have stood."""
        self._ended: set[int] = set()
        """Keys of the bids whose jobs an event ended before their last slot."""
        first = source.first_slot()
        self._slot: int = market.slot if first is None else first - 1
        self._now = 0
        self._traded = 0
        """First slot on sale when slots last passed, or when the market opened."""
        self._ledger_version = 0

    def over(self) -> set[int]:
        """Return the keys of the bids in a state in which they stay."""
        return {pk for pk, state in self._states.items() if state in TERMINAL}

    def to_json(self, gone: Collection[int]) -> Json:
        """Return the states without those of the bids in `gone`, as `resume` reads them."""
        going = [[pk, job.number, *job.window] for pk, job in self._going.items()]
        return {
            "states": [[pk, state.value] for pk, state in self._states.items() if pk not in gone],
            "going": going,
            "stood": keys_without(self._stood, gone),
            "ended": keys_without(self._ended, gone),
            "slot": self._slot,
            "now": self._now,
            "traded": self._traded,
            "ledger_version": self._ledger_version,
        }

    def resume(self, document: Json) -> None:
        """Go on from the states that `to_json` wrote."""
        self._states = {pk: BidState(state) for pk, state in document["states"]}
        self._going = {pk: _Going(number, (start, end)) for pk, number, start, end in document["going"]}
        self._stood, self._ended = set(document["stood"]), set(document["ended"])
        self._slot, self._now, self._traded = document["slot"], document["now"], document["traded"]
        self._ledger_version = document["ledger_version"]

    def finish(self) -> Iterator[str]:
        """Compare the states with the rows."""
        rows = Bid.objects.filter(market=self._market, seal=None)
        columns = ("pk", "sequence", "state", "ended_slot", "unrecorded_withdrawal")
        for bid in in_pages(rows.only(*columns), by="sequence"):
            state = self._states.get(bid.pk)
            if state != (BidState.STANDING if bid.unrecorded_withdrawal else bid.state):
                yield f"bid {bid.sequence} is {bid.state}; its events leave it {state or 'unknown'}"
            if bid.ended_slot is not None and bid.pk not in self._ended:
                yield f"bid {bid.sequence} ended in slot {bid.ended_slot}; no event says so"
        market = self._market
        if (market.slot, market.now) != (self._slot, self._now):
            yield (
                f"market.slot is {market.slot} and market.now {market.now}; events lead to {self._slot} and {self._now}"
            )

    def take(self, event: Event) -> Iterator[str]:
        """Apply one event; yield what is wrong with it."""
        where = f"event version {event.version} ({event.kind})"
        granted = self._granted()
        if event.kind == EventKind.OPENED:
            self._traded = event.slot
        if event.kind == EventKind.SLOT:
            self._traded = event.payload.get("now", event.slot + 1)
            yield from (f"{where}: {problem}" for problem in self._slots_pass(event))
        elif event.bid is not None:
            yield from (f"{where}: {problem}" for problem in self._bid_moves(event, event.bid, granted.grants))
        if event.kind in MOVES_THE_LEDGER:
            if event.kind != EventKind.SLOT and event.slot < self._now:
                yield f"{where}: slot {event.slot} comes after slot {self._now}"
            self._now = max(
                self._now, event.payload.get("now", event.slot) if event.kind == EventKind.SLOT else event.slot
            )
            self._ledger_version = event.version
        for pk in granted.moved:
            self._grant(granted.grants.all[pk], pk)

    def _slots_pass(self, event: Event) -> Iterator[str]:
        first, last = event.payload["from"], event.payload["to"]
        if first != self._slot + 1 or last < first or event.slot != last:
            yield f"slots {first} to {last} follow slot {self._slot}"
        self._slot = last
        running = self._move(BidState.PLANNED, BidState.RUNNING, lambda job: job.window[0])
        completed = self._move(BidState.RUNNING, BidState.COMPLETED, lambda job: job.window[1])
        if (event.payload["running"], event.payload["completed"]) != (running, completed):
            yield f"it should say that {running} began and {completed} were completed"
        withdrawn = event.payload.get("withdrawn", ())
        ended = event.payload.get("standing", {}).get("ended", ())
        named = {*withdrawn, *ended}
        bids = self._source.numbered(named)
        for number in withdrawn:
            pk = bids[number].pk if number in bids else 0
            if self._states.get(pk) != BidState.STANDING:
                yield f"bid {number} is withdrawn; it was {self._states.get(pk, 'not there')} before"
            self._states[pk] = BidState.WITHDRAWN
        for number in ended:
            yield from self._ends(event, number, bids.get(number))

    def _ends(self, event: Event, number: int, bid: Bid | None) -> Iterator[str]:
        """A standing bid ends when a slot begins."""
        pk = 0 if bid is None else bid.pk
        state, record = self._states.get(pk), getattr(bid, "decision", None)
        self._states[pk] = BidState.REJECTED
        made = record and (record.version, record.ledger_version, record.decided_at, record.slot)
        if state != BidState.STANDING or made != (event.version, event.version, event.at, event.payload["now"]):
            yield f"it does not fit the end of bid {number}, which was {state or 'not there'} before"

    def _move(self, old: BidState, new: BidState, slot_of: "Callable[[_Going], int | None]") -> list[int]:
        due = [
            (job.number, pk)
            for pk, job in self._going.items()
            if self._states[pk] == old and (slot := slot_of(job)) is not None and slot <= self._slot
        ]
        for _, pk in due:
            self._states[pk] = new
            if new not in GOING:
                del self._going[pk]
        return sorted(number for number, _ in due)

    def _bid_moves(self, event: Event, bid: Bid, grants: Grants) -> Iterator[str]:
        state, who = self._states.get(bid.pk), f"bid {bid.sequence}"
        self._going.pop(bid.pk, None)
        match event.kind:
            case EventKind.SUBMITTED:
                right = state is None and (event.slot, event.at) == (bid.arrival_slot, bid.submitted_at)
                self._states[bid.pk] = BidState.SUBMITTED
            case EventKind.STANDING | EventKind.ADMITTED | EventKind.REJECTED:
                right = self._fits(event, bid, state)
                self._states[bid.pk] = BidState(event.kind) if event.kind != EventKind.ADMITTED else BidState.PLANNED
                self._stood |= {bid.pk} if event.kind == EventKind.STANDING else set()
                if event.kind == EventKind.ADMITTED:
                    self._grant(grants.all[bid.pk], bid.pk)
            case EventKind.WITHDRAWN:
                right = state in WITHDRAWABLE
                self._states[bid.pk] = BidState.WITHDRAWN
            case EventKind.QUARANTINED:
                right = state in (BidState.SUBMITTED, BidState.STANDING)
                self._states[bid.pk] = BidState.QUARANTINED
            case EventKind.RETRIED:
                right = state == BidState.QUARANTINED
                self._states[bid.pk] = BidState.STANDING if bid.pk in self._stood else BidState.SUBMITTED
            case _:  # cancelled, failed or completed early
                before = (BidState.RUNNING,) if event.kind == EventKind.COMPLETED else GOING
                right = state in before and bid.ended_slot == event.slot
                self._states[bid.pk] = BidState(event.kind)
                self._ended.add(bid.pk)
        if not right:
            yield f"it does not fit {who}, which was {state or 'not there'} before"

    def _fits(self, event: Event, bid: Bid, state: BidState | None) -> bool:
        """Return whether a deciding event fits the bid's state before it and its receipt."""
        record = bid.first_decision if event.kind == EventKind.STANDING else bid.decision
        stood = event.kind == EventKind.ADMITTED and bid.decision.stood_from is not None
        return state == (BidState.STANDING if stood else BidState.SUBMITTED) and (
            event.slot,
            event.at,
            self._ledger_version,
            event.version,
        ) == (record.slot, record.decided_at, record.ledger_version, record.version)

    def _grant(self, grant: Grant, pk: int) -> None:
        """Note what a job was granted last, and that it is planned, or runs if its start has come."""
        start, _ = grant.window
        running = start is not None and start <= self._slot
        self._states[pk] = BidState.RUNNING if running else BidState.PLANNED
        self._going[pk] = _Going(grant.number, grant.window)


@dataclass(frozen=True, slots=True)
class _Going:
    """A job that is planned or running."""

    number: int
    """Sequence number of its bid."""
    window: Window


def certificate_adds_up(market: Market) -> list[str]:
    """Check that the certificate states the smaller bound and covers all decisions, and its sums match the rows."""
    row = Certificate.objects.filter(market=market).first()
    if row is None:
        return []
    records = DecisionRecord.objects.filter(bid__market=market, version__lte=row.version).order_by("version", "pk")
    standalone_values = list(records.values_list("standalone_value", flat=True))
    kept = records.filter(bid__state__in=sorted(VALUE_KEPT)).aggregate(v=Sum("bid__value"))["v"] or 0.0
    capacity = _capacity_of_slots(market, before=row.settled_through)
    smaller = BoundKind.POSTED_PRICE if row.posted_price <= row.zero_price else BoundKind.ZERO_PRICE
    claims = {
        "it speaks of a version that was": 0 < row.version <= market.version,
        "it covers every decision up to its version": row.decided == len(standalone_values),
        "its value and kind are those of the smaller bound": (row.value, row.kind)
        == (min(row.posted_price, row.zero_price), smaller),
        "its zero-price bound is the sum of the standalone values": _equal(row.zero_price, sum(standalone_values)),
        "its welfare is no less than what was kept": row.welfare >= kept - TOLERANCE * max(1.0, kept),
        "its welfare is below both bounds": row.welfare <= row.value * (1 + TOLERANCE),
        "its gap is that of its value and welfare": _equal(
            row.gap, (row.value - row.welfare) / row.value if row.value > 0 else 0.0
        ),
        "its settled standalone values are those of its first bids": row.settled_bids <= len(standalone_values)
        and _equal(row.settled_standalone_values, sum(standalone_values[: row.settled_bids])),
        "its settled terms are below their standalone values": 0
        <= row.settled_terms
        <= row.settled_standalone_values * (1 + TOLERANCE),
        "its settled capacity is that of its slots": _equal(row.settled_capacity, capacity),
        "its settled slots have begun": row.settled_through is None or row.settled_through <= market.slot + 1,
        "its loose bids are among those that it covers": row.settled_loose <= row.settled_bids
        and 0 <= row.loose - row.settled_loose <= row.decided - row.settled_bids,
        "its posted-price bound holds what is settled": row.posted_price
        >= (row.settled_terms + row.settled_capacity) * (1 - TOLERANCE),
    }
    return [f"certificate: it is not so that {claim}" for claim, holds in claims.items() if not holds]


def _capacity_of_slots(market: Market, *, before: int | None) -> float:
    if before is None:
        return 0.0
    rows = list(
        SlotPrice.objects.filter(market=market, slot__lt=before)
        .order_by("slot")
        .values_list("inventory_version", "prices")
    )
    known = snapshots_at(market.pk, {version for version, _ in rows})
    return float(sum((np.array(prices) * known[version].inventory.capacity).sum() for version, prices in rows))


def _equal(a: float, b: float) -> bool:
    return abs(a - b) <= TOLERANCE * max(1.0, abs(a), abs(b))
