"""A market decided again from its events and recorded bids alone: the receipts must come out byte for byte."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from auctions.book import LiveBook, ledger_of, realigned
from auctions.layout import Holding, Layout
from auctions.models import Bid, DecisionRecord, Event, EventKind, Market
from scheduling.bid import Bid as CoreBid
from scheduling.decision import Decision, canonical
from scheduling.ledger import Ledger
from scheduling.policy import HISTORY, Policy
from scheduling.registry import make_policy


@dataclass(frozen=True)
class Replayed:
    """A decision made again."""

    sequence: int
    bid_id: int
    version: int
    """Version of the event that recorded it."""
    decision: Decision
    receipt: str
    posted: float | None
    """What its schedule cost at the prices posted then; None when rejected, or when not asked for."""


@dataclass(frozen=True)
class Mismatch:
    """A recorded receipt that is not what the replay gives."""

    sequence: int
    recorded: str
    """Empty when there is no record."""
    replayed: str


@dataclass(frozen=True)
class Replay:
    """What a replay gave."""

    decisions: int
    mismatches: tuple[Mismatch, ...]


def replay_market(market: Market) -> Replay:
    """Decide every decided bid again and compare with what was recorded."""
    again = list(replayed(market))
    recorded = dict(DecisionRecord.objects.filter(bid__market=market).values_list("bid_id", "receipt"))
    wrong = [
        Mismatch(sequence=r.sequence, recorded=recorded.get(r.bid_id, ""), replayed=r.receipt)
        for r in again
        if recorded.get(r.bid_id) != r.receipt
    ]
    return Replay(decisions=len(again), mismatches=tuple(wrong))


def replayed(market: Market, *, priced: bool = False) -> Iterator[Replayed]:
    """The decisions a market's events lead to, in order; recorded decisions are not looked at.

    With `priced`, the posted prices are computed at each admission and the schedule's cost summed from them.
    """
    state = _Replaying(priced=priced)
    bids = {bid.pk: bid for bid in Bid.objects.filter(market=market).only("pk", "sequence", "core")}
    for event in Event.objects.filter(market=market).order_by("version").iterator(chunk_size=500):
        bid = bids[event.bid_id] if event.bid_id is not None else None
        decision = state.apply(event, bid)
        if decision is not None and bid is not None:
            yield Replayed(
                sequence=bid.sequence,
                bid_id=bid.pk,
                version=event.version,
                decision=decision,
                receipt=canonical(decision.to_json()),
                posted=state.posted,
            )


def kept_by_replay(market: Market) -> dict[int, tuple[int, list[object], list[object]]]:
    """What is kept of each slot that began: version of the inventory, prices and use as a replay finds them."""
    state = _Replaying(priced=False)
    kept: dict[int, tuple[int, list[object], list[object]]] = {}
    inventory_version = 0
    bids = {bid.pk: bid for bid in Bid.objects.filter(market=market).only("pk", "sequence", "core")}
    for event in Event.objects.filter(market=market).order_by("version").iterator(chunk_size=500):
        if event.kind == EventKind.SLOT:
            book = state.book(event.payload["from"])
            rows = book.slots_to_keep(last=event.payload["to"])
            if rows:
                prices, used, start = book.policy.prices(book.view()), book.ledger.used, book.ledger.start
                for slot in rows:
                    kept[slot] = (inventory_version, prices[slot - start].tolist(), used[slot - start].tolist())
        elif event.kind in (EventKind.OPENED, EventKind.INVENTORY):
            inventory_version = event.version
            kept = {slot: row for slot, row in kept.items() if slot < event.slot}
        state.apply(event, bids[event.bid_id] if event.bid_id is not None else None)
    return kept


@dataclass
class _Replaying:
    """The state of a market between two events."""

    priced: bool
    posted: float | None = None
    layout: Layout | None = None
    policy: Policy | None = None
    ledger: Ledger | None = None
    history: deque[tuple[float, ...]] = field(default_factory=lambda: deque(maxlen=HISTORY))
    decided: int = 0
    held: dict[int, tuple[Holding, ...]] = field(default_factory=dict)
    """What each admitted bid holds, by the bid's key."""

    def apply(self, event: Event, bid: Bid | None) -> Decision | None:
        """Take one step; the decision it makes, if it makes one."""
        match event.kind:
            case EventKind.OPENED | EventKind.INVENTORY:
                self._lay_out(Layout.from_json(event.payload), now=event.slot)
            case EventKind.POLICY:
                self.policy = make_policy(event.payload["name"], event.payload["parameters"])
            case EventKind.CANCELLED | EventKind.FAILED if bid is not None:
                self._release(bid, from_slot=event.slot)
            case EventKind.ADMITTED | EventKind.REJECTED if bid is not None:
                return self._decide(bid, now=event.slot)
        return None

    def _lay_out(self, layout: Layout, *, now: int) -> None:
        if self.layout is not None:
            self.history = realigned(self.history, old=self.layout, new=layout)
        self.layout = layout
        self.ledger = ledger_of(layout, [h for holdings in self.held.values() for h in holdings], now=now)

    def _release(self, bid: Bid, *, from_slot: int) -> None:
        if self.layout is None:
            return
        self.held[bid.pk] = tuple(replace(h, end=min(h.end, max(h.start, from_slot))) for h in self.held[bid.pk])
        holdings = [h for mine in self.held.values() for h in mine]
        self.ledger = ledger_of(self.layout, holdings, now=from_slot)

    def _decide(self, bid: Bid, *, now: int) -> Decision:
        book = self.book(now)
        decision = book.policy.decide(CoreBid.from_json(bid.core), book.view())
        self.posted = _posted_cost(book, decision) if self.priced else None
        book.take_in(decision)
        self.decided = book.decided
        if decision.schedule is not None:
            self.held[bid.pk] = book.layout.holdings(decision.schedule)
        return decision

    def book(self, now: int) -> LiveBook:
        """The book as it stands at slot `now`."""
        if self.layout is None or self.policy is None or self.ledger is None:
            raise ValueError("something happened before the market opened")
        book = LiveBook(
            version=0,
            layout=self.layout,
            policy=self.policy,
            policy_id=0,
            ledger=self.ledger,
            history=self.history,
            decided=self.decided,
        )
        book.advance(now)
        return book


def _posted_cost(book: LiveBook, decision: Decision) -> float | None:
    if decision.schedule is None:
        return None
    view = book.view()
    price, first = book.policy.prices(view), view.now
    return float(
        sum(
            p.count * (price[p.start - first : p.end - first, p.server] @ p.machine(view.inventory).demand).sum()
            for p in decision.schedule.placements
        )
    )
