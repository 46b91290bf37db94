"""The book a decision is made against: rebuilt from rows, or carried over in this process's memory.

A book in memory is only used when its ledger version is the one read under the market's lock (or, for a quote,
read before and after). Events of another process that only decided bids are caught up one by one; anything else
rebuilds.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from threading import Lock
from uuid import UUID

import numpy as np

from auctions.layout import Holding, Layout, align
from auctions.models import Commitment, DecisionRecord, Event, EventKind, Market, PolicyVersion
from scheduling.arrays import Floats
from scheduling.decision import Decision, parse
from scheduling.errors import SchedulingError
from scheduling.ledger import Ledger
from scheduling.policy import HISTORY, Book, Policy
from scheduling.registry import make_policy
from scheduling.schedule import Placement, Schedule

CATCH_UP_EVENTS = 32
"""More events than this are not caught up one by one: a rebuild is as quick."""

CATCH_UP_SLOTS = 64
"""After a long stop, prices are kept of this many of the latest slots within the horizon; the others have no row.

A slot without a row is unknown in charts and counts at price 0 in bounds, which is sound.
"""


@dataclass
class LiveBook:
    """A book that moves: what has been promised, learned and chosen up to one version of a market."""

    version: int
    """The ledger version it stands at."""
    layout: Layout
    policy: Policy
    policy_id: int
    ledger: Ledger
    history: deque[tuple[float, ...]]
    decided: int

    def advance(self, now: int) -> None:
        """Let slots pass; the horizon starts at `now`."""
        self.ledger.advance(now)

    def view(self) -> Book:
        """What the policy may look at."""
        return Book(now=self.ledger.start, ledger=self.ledger, history=self._densities(), decided=self.decided)

    def take_in(self, decision: Decision) -> None:
        """Reserve what a decision granted and learn from the bid it was about."""
        if decision.schedule is not None:
            self.ledger.commit(decision.schedule)
        self.history.append(decision.density)
        self.decided += 1

    def slots_to_keep(self, *, last: int) -> range:
        """The slots whose prices and use are kept when slots up to `last` begin."""
        start, end = self.ledger.start, min(last + 1, self.ledger.end)
        return range(max(start, end - CATCH_UP_SLOTS), end)

    def copy(self) -> "LiveBook":
        """An independent book with the same contents."""
        return LiveBook(
            version=self.version,
            layout=self.layout,
            policy=self.policy,
            policy_id=self.policy_id,
            ledger=self.ledger.copy(),
            history=deque(self.history, maxlen=HISTORY),
            decided=self.decided,
        )

    def _densities(self) -> Floats:
        return np.array(self.history, dtype=np.float64).reshape(len(self.history), len(self.layout.resource_ids))


_books: dict[UUID, LiveBook] = {}
_guard = Lock()


def forget() -> None:
    """Empty this process's memory: the next book is rebuilt from rows."""
    with _guard:
        _books.clear()


def take(market: Market, *, now: int) -> LiveBook:
    """The book of a market whose lock is held, at slot `now`; it is the caller's until `keep` gives it back."""
    with _guard:
        book = _books.pop(market.token, None)
    if book is not None and book.ledger.start <= now and _catch_up(book, market):
        book.advance(now)
        return book
    return rebuild(market, now=now)


def keep(market: Market, book: LiveBook) -> None:
    """Remember a book whose every change has been committed."""
    with _guard:
        _books[market.token] = book


def peek(market: Market, *, now: int) -> LiveBook:
    """A book of one's own at slot `now`, without the market's lock: for quotes and readings.

    `market` is re-read until nothing moved the ledger while the rows were read.
    """
    while True:
        with _guard:
            known = _books.get(market.token)
            book = known.copy() if known is not None and known.version == market.ledger_version else None
        if book is not None and book.ledger.start <= now:
            book.advance(now)
            return book
        version = market.ledger_version
        try:
            book = rebuild(market, now=now)
        except SchedulingError:
            # Rows of two versions need not fit together; rows of one must.
            market.refresh_from_db()
            if version == market.ledger_version:
                raise
            continue
        market.refresh_from_db()
        if version == market.ledger_version:
            with _guard:
                _books.setdefault(market.token, book.copy())
            return book


def rebuild(market: Market, *, now: int) -> LiveBook:
    """The book as the rows have it, in a handful of queries."""
    opening = Event.objects.get(market=market, version=market.inventory_version)
    layout = Layout.from_json(opening.payload)
    chosen = PolicyVersion.objects.filter(market=market).latest("number")
    held = Commitment.objects.filter(bid__market=market, end__gt=now).values_list(
        "server_id", "machine_type_id", "count", "start", "end"
    )
    return LiveBook(
        version=market.ledger_version,
        layout=layout,
        policy=make_policy(chosen.name, chosen.parameters),
        policy_id=chosen.pk,
        ledger=ledger_of(layout, [Holding(*row) for row in held], now=now),
        history=_recorded_history(market, layout),
        decided=DecisionRecord.objects.filter(bid__market=market).count(),
    )


def ledger_of(layout: Layout, holdings: Sequence[Holding], *, now: int) -> Ledger:
    """A ledger over [now, now + horizon) with these holdings reserved; raises if they do not fit."""
    ledger = Ledger(layout.inventory, start=now, slots=layout.horizon)
    ledger.restore(_one_by_one(layout.placements([h for h in holdings if h.end > max(h.start, now)])))
    return ledger


def realigned(history: Iterable[tuple[float, ...]], *, old: Layout, new: Layout) -> deque[tuple[float, ...]]:
    """Densities with the resources in another layout's order; 0 for one that did not exist then."""
    rows = np.array(list(history), dtype=np.float64).reshape(-1, len(old.resource_ids))
    moved = align(rows, old=old.resource_ids, new=new.resource_ids, axis=1)
    return deque((tuple(row) for row in moved.tolist()), maxlen=HISTORY)


def _one_by_one(placements: Iterable[Placement]) -> Iterable[Schedule]:
    return (Schedule(start=p.start, completion=p.end, placements=(p,)) for p in placements)


def _recorded_history(market: Market, layout: Layout) -> deque[tuple[float, ...]]:
    rows = list(
        DecisionRecord.objects.filter(bid__market=market)
        .order_by("-version")
        .values_list("receipt", "inventory_version")[:HISTORY]
    )
    others = {version for _, version in rows} - {market.inventory_version}
    events = Event.objects.filter(market=market, version__in=others) if others else []
    known = {event.version: Layout.from_json(event.payload) for event in events}
    history: deque[tuple[float, ...]] = deque(maxlen=HISTORY)
    for receipt, version in reversed(rows):
        density = tuple(parse(receipt)["density"])
        history.extend(realigned([density], old=known[version], new=layout) if version in known else [density])
    return history


def _catch_up(book: LiveBook, market: Market) -> bool:
    """Take in what other processes decided since; False when the book has to be rebuilt."""
    if book.version == market.ledger_version:
        return True
    missed = Event.objects.filter(market=market, version__gt=book.version)
    kinds = list(missed.values_list("kind", flat=True)[: CATCH_UP_EVENTS + 1])
    simple = {EventKind.SUBMITTED, EventKind.WITHDRAWN, EventKind.ADMITTED, EventKind.REJECTED, EventKind.SLOT}
    if book.version > market.ledger_version or len(kinds) > CATCH_UP_EVENTS or not simple.issuperset(kinds):
        return False
    receipts = DecisionRecord.objects.filter(bid__market=market, version__gt=book.version).order_by("version")
    for receipt, slot in receipts.values_list("receipt", "slot"):
        book.advance(slot)
        book.take_in(Decision.from_json(parse(receipt)))
    book.version = market.ledger_version
    return True
