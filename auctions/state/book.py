"""The book that decisions are made against: rebuilt from rows, or kept in this process's memory.

A book in memory is only used if its ledger version equals the one that was read, under the market's lock or in a
snapshot. Decisions of other processes are applied to it event by event; after other changes the book is rebuilt.
Decisions have their own book, which changes. Readers share books that never change, one for each version and slot.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from operator import itemgetter
from threading import Lock
from typing import Any
from uuid import UUID

import numpy as np
from django.db.models import Q

from auctions.domain.bid_conversion import core_bid
from auctions.domain.inventory_snapshot import Holding, InventorySnapshot, snapshot_in_force
from auctions.domain.lock import MOVES_THE_LEDGER
from auctions.domain.owners import pool_owner
from auctions.models import Bid, BidState, Commitment, Event, EventKind, Market, PolicyVersion
from auctions.state import queue_rows
from auctions.state.history import realigned, recorded_history
from auctions.state.queue_rows import RecordedWork
from cluster.database.prepared import Prepared
from scheduling.book.ledger import Ledger
from scheduling.book.running import RunningBook
from scheduling.book.state import HISTORY, Book, Job
from scheduling.model.bid import Bid as CoreBid
from scheduling.model.decision import Decision, Move, parse
from scheduling.model.inventory import Inventory
from scheduling.model.schedule import Schedule
from scheduling.model.types import Floats, Ints, Json
from scheduling.policies.base import Policy
from scheduling.preemptive.record import Ran
from scheduling.preemptive.use import slots_of, units_in_use
from scheduling.registry import POLICIES

CATCH_UP_EVENTS = 256
"""Largest number of events that are caught up; with more, reading the last receipts and all jobs again is as fast.

An event takes 0.2 ms, and reading all again 50 ms with 100 jobs.
"""
JOBS_PER_EVENT = 4
"""Number of jobs in the book for which one more event is caught up, beyond `CATCH_UP_EVENTS`."""
CAUGHT_UP = frozenset({EventKind.STANDING, EventKind.ADMITTED, EventKind.REJECTED, EventKind.SLOT})
"""Event kinds that are caught up; after any other event that changes the ledger, the book is rebuilt."""

SHARED_BOOKS = 4
"""Number of shared books kept for each market: readers of an earlier version may not have finished."""

Tables = tuple[Inventory, dict[str, object]]
"""Tables of kernels, and the servers that they are of."""

CATCH_UP_SLOTS = 64
"""After a long stop, prices are stored for this many of the latest slots within the horizon; the others have no row.

A slot without a row is unknown in charts and has price 0 in bounds, which keeps the bounds valid.
"""


@dataclass
class LiveBook:
    """A book that changes: commitments, recent decisions and the policy, up to one version of a market."""

    version: int
    """The ledger version of its contents."""
    market_id: int
    snapshot: InventorySnapshot
    policy: Policy
    policy_id: int
    running: RunningBook
    competitors: tuple[CoreBid, ...] = ()
    """Bids that stand, in order of arrival, while a policy decides under which bids compete; otherwise empty."""

    @property
    def ledger(self) -> Ledger:
        """The ledger of what jobs hold from now on."""
        return self.running.ledger

    def advance(self, now: int) -> bool:
        """Advance to slot `now`, where the horizon then starts.

        Return whether a job gave its last machines back, for the policy to plan with. A job that was admitted under DPS
        with inclusive windows does so a slot after its completion.
        """
        return bool(self.running.advance(now)) and not self.policy.binding

    def view(self) -> Book:
        """Return the part of the book that the policy may read."""
        return self.running.view(self.competitors)

    def choose(self, policy: Policy) -> None:
        """Let another policy decide. Unless it keeps promised slots, jobs with such a promise keep their machines."""
        self.policy = policy
        self.running.bind(not policy.keeps_slots)

    def apply_decision(self, bid: CoreBid, decision: Decision, *, owner: int, again: bool = False) -> None:
        """Apply the moves of a decision, reserve what it granted, and add the bid to the history used by prices.

        `owner` is the number of its owner in pools of prices. `again` is set for a standing bid, which is in the
        history already.
        """
        self.running.apply_decision(bid, decision, bound=self.policy.binding, owner=owner, again=again)

    def rebased(self, snapshot: InventorySnapshot, offers: Mapping[str, Json]) -> "LiveBook":
        """Return the book under another inventory; `offers` by the bid's id. Raises if what jobs hold does not fit."""
        jobs = [
            replace(
                job,
                bid=core_bid(offers[name], snapshot, bid_id=name, arrival=job.bid.arrival),
                held=tuple(sorted(snapshot.placements(self.snapshot.holdings(job.held)))),
            )
            for name, job in self.running.jobs.items()
        ]
        ledger = snapshot.ledger(start=self.running.now)
        ledger.restore(Schedule(start=0, completion=0, placements=job.held) for job in jobs)
        history = realigned(self.running.history, old=self.snapshot, new=snapshot)
        known = {job.bid.id: job for job in jobs}
        queues = self.running.queues
        if queues is not None:
            servers = _positions(self.snapshot.server_ids, snapshot.server_ids)
            types = _positions(self.snapshot.worker_ids, snapshot.worker_ids)
            bids = {name: job.bid for name, job in known.items()}
            queues = queues.relaid(snapshot.inventory, servers=servers, types=types, bids=bids)
        offered = deque(self.running.offers, maxlen=HISTORY)
        running = RunningBook(ledger, history, self.running.decided, known, queues, list(self.running.ran), offered)
        return replace(self, snapshot=snapshot, running=running, competitors=())

    def end(self, job_id: str) -> None:
        """Free what a job holds from now on; nothing happens if the job is over."""
        if job_id in self.running.jobs:
            self.running.end(job_id)

    def used(self) -> Ints:
        """Return units in use from now on, T x S x R: held units, and units of busy workers of queues as forecast.

        What workers do in a slot that has begun no longer changes, so the numbers of the first slot are final.
        """
        held, queues, inventory = self.ledger.held, self.running.queues, self.snapshot.inventory
        if queues is None:
            return held
        busy = slots_of(queues.planned(), queues.ticks)
        start, end = self.ledger.start, self.ledger.end
        servers = len(inventory.servers)
        return held + units_in_use(busy, inventory.worker_demand, servers=servers, start=start, end=end)

    def prices(self) -> Floats:
        """Return the posted price of one unit of each resource for one slot, from now on, T x S x R, money.

        A closed server sells nothing. Its prices are computed as if it was open, from what is held there.
        """
        view = self.view()
        prices = self.policy.prices(view)
        if not self.ledger.closed:
            return prices
        opened = self.policy.prices(replace(view, ledger=self.ledger.opened()))
        return np.where(self.ledger.is_closed()[:, :, np.newaxis], opened, prices)

    def slots_to_keep(self, *, last: int) -> range:
        """Return the slots whose prices and use are stored when slots up to `last` begin."""
        start, end = self.ledger.start, min(last + 1, self.ledger.end)
        return range(max(start, end - CATCH_UP_SLOTS), end)

    def copy(self) -> "LiveBook":
        """Return an independent book with the same contents."""
        return replace(self, running=self.running.copy())


class SharedBook:
    """A book at one version and slot that never changes, shared by all readers.

    Results are computed once, by one reader at a time, because kernels cache arrays on the ledger.
    """

    def __init__(self, book: LiveBook, tables: deque[Tables]) -> None:
        self._book = book
        self._tables = tables
        self._computing = Lock()
        self._prices: Floats | None = None
        self._runs: RecordedWork | None = None
        self.version = book.version
        self.snapshot = book.snapshot
        self.policy = book.policy
        self.policy_id = book.policy_id
        self.view = book.view()
        """The part of the book that the policy may read; it must not be changed."""

    @property
    def now(self) -> int:
        """The first slot of the book."""
        return self.view.now

    @property
    def end(self) -> int:
        """First slot beyond the horizon."""
        return self.view.ledger.end

    def prices(self) -> Floats:
        """Return the posted price of one unit of each resource for one slot, T x S x R, money, read-only."""
        with self._computing:
            if self._prices is None:
                self._prices = self._book.prices()
                self._prices.flags.writeable = False
            return self._prices

    def runs(self) -> RecordedWork:
        """Return what workers took from queues and is not in rows yet, and what they will take as forecast."""
        with self._computing:
            if self._runs is None:
                ran, queues = list(self._book.running.ran), self.view.queues
                if queues is not None:
                    ran.append(Ran(queues.planned(), (), {}))
                self._runs = queue_rows.taken(ran, self.snapshot)
            return self._runs

    def copy(self) -> LiveBook:
        """Return an independent book with the same contents, which may be changed."""
        with self._computing:
            return self._book.copy()

    @contextmanager
    def trial(self) -> Iterator[LiveBook]:
        """Yield a copy on which a policy decides a bid that is not admitted afterwards.

        Kernels go on with the tables of the last such copy of this market, unless another trial has them: to build them
        takes longer than the rest of a decision.
        """
        book = self.copy()
        with suppress(IndexError):
            inventory, tables = self._tables.pop()
            if inventory is book.ledger.inventory:
                book.ledger.tables = tables
        yield book
        self._tables.append((book.ledger.inventory, book.ledger.tables))


_books: dict[UUID, LiveBook] = {}
"""Books that decisions change, by the market's token."""
_shelves: dict[UUID, "_Shelf"] = {}
"""Books that readers share, by the market's token."""
_guard = Lock()


def forget() -> None:
    """Discard all books of this process: the next book is rebuilt from rows."""
    with _guard:
        _books.clear()
        _shelves.clear()


def checkout(market: Market, *, now: int) -> LiveBook:
    """Return the book of a market whose lock is held, at slot `now`; the caller owns it until `store` puts it back."""
    with _guard:
        book = _books.pop(market.token, None)
    if book is not None and book.ledger.start <= now and _catch_up(book, market):
        book.advance(now)
        return book
    return rebuild(market, now=now)


def store(market: Market, book: LiveBook) -> None:
    """Store a book in memory; all its changes must have been committed."""
    with _guard:
        _books[market.token] = book


def private_copy(market: Market, *, now: int) -> LiveBook:
    """Return a copy of the book at slot `now`, for a holder of the market's lock who only reads."""
    book = _own_copy(market)
    if book is not None and book.ledger.start <= now:
        book.advance(now)
        return book
    return rebuild(market, now=now)


def shared(market: Market, *, now: int) -> SharedBook:
    """Return the book of a market's version at slot `now`, for readers, in the snapshot that read the market's row.

    It is made once for all readers of this process: the first reader makes it from the nearest known book.
    """
    with _guard:
        shelf = _shelves.setdefault(market.token, _Shelf())
    return shelf.find(market, now) or shelf.make(market, now)


class _Shelf:
    """The latest books of one market, shared by the readers of this process."""

    def __init__(self) -> None:
        self._making = Lock()
        self._tables: deque[Tables] = deque(maxlen=1)
        """Tables of kernels for the next trial."""
        self._books: dict[tuple[int, int], SharedBook] = {}
        """Books by ledger version and slot. Adding a book makes a new dictionary, so that reading needs no lock."""

    def find(self, market: Market, now: int) -> SharedBook | None:
        """Return the book of this version and slot, if it has been made."""
        return self._books.get((market.ledger_version, now))

    def make(self, market: Market, now: int) -> SharedBook:
        """Make the book of this version and slot; meanwhile other readers who need a new book of this market wait."""
        with self._making:
            found = self.find(market, now)
            if found is None:
                found = SharedBook(self._nearest(market, now) or rebuild(market, now=now), self._tables)
                books = {**self._books, (market.ledger_version, now): found}
                self._books = {key: books[key] for key in sorted(books)[-SHARED_BOOKS:]}
            return found

    def _nearest(self, market: Market, now: int) -> LiveBook | None:
        """Return a copy of a known book, advanced to this version and slot; None if no known book can be used."""
        book = _own_copy(market)
        if book is not None and book.ledger.start <= now:
            book.advance(now)
            return book
        for (version, start), known in sorted(self._books.items(), key=itemgetter(0), reverse=True):
            if version > market.ledger_version or start > now:
                continue
            book = known.copy()
            if _catch_up(book, market):
                book.advance(now)
                return book
        return None


def _own_copy(market: Market) -> LiveBook | None:
    """Return a copy of the book that this process's decisions change, if it has the market's ledger version."""
    with _guard:
        book = _books.get(market.token)
        return book.copy() if book is not None and book.version == market.ledger_version else None


def rebuild(market: Market, *, now: int) -> LiveBook:
    """Rebuild the book from rows, in a few queries."""
    snapshot, chosen = snapshot_in_force(market), PolicyVersion.in_force(market.pk)
    known = _jobs(market, snapshot, now=now, keeps_slots=POLICIES[chosen.name].keeps_slots)
    jobs = [job for job in known.values() if not job.is_over(now)]
    ledger = snapshot.ledger(start=now)
    ledger.restore(Schedule(start=0, completion=0, placements=job.held) for job in jobs)
    learned = recorded_history(market, snapshot, in_force=market.inventory_version)
    book = LiveBook(
        version=market.ledger_version,
        market_id=market.pk,
        snapshot=snapshot,
        policy=chosen.policy(),
        policy_id=chosen.pk,
        running=RunningBook(
            ledger=ledger,
            history=learned.history,
            decided=learned.decided,
            jobs={job.bid.id: job for job in jobs},
            # A job in queues holds no machines.
            queues=queue_rows.restored({pk: job.bid for pk, job in known.items() if not job.held}, snapshot, market.pk),
            offers=learned.offers,
        ),
    )
    book.running.catch_up_queues()
    return book


def core_in_force(bid: Bid, market: Market, snapshot: InventorySnapshot) -> CoreBid:
    """Return the bid in the positions of the inventory in force."""
    if bid.inventory_version == market.inventory_version:
        return CoreBid.from_json(bid.core_bid)
    return _core(bid, bid.resolved_request, snapshot)


def _core(bid: Bid, resolved: Json, snapshot: InventorySnapshot) -> CoreBid:
    return core_bid(resolved, snapshot, bid_id=str(bid.sequence), arrival=bid.arrival_slot)


_OF_A_JOB = (
    *("sequence", "state", "arrival_slot", "start_slot", "completion_slot", "inventory_version", "core_bid"),
    *("decision__bid", "decision__version", "decision__policy__name"),
)
"""Fields of a bid and its decision that its job is made of."""


def _jobs(market: Market, snapshot: InventorySnapshot, *, now: int, keeps_slots: bool) -> dict[int, Job]:
    """Return jobs that are not over or still hold machines, by the bid's key, in order of admission.

    Only what a job needs is read of its bid and decision: their texts are long and stored compressed.
    """
    going = Q(state__in=(BidState.PLANNED, BidState.RUNNING))
    # A schedule with an inclusive window holds one slot more than the job needs. These few are looked up by what they
    # hold: the database would read all complete jobs.
    complete = Commitment.objects.filter(bid__market=market, bid__state=BidState.COMPLETED, bid__ended_slot=None)
    holding = Q(pk__in=list(complete.filter(end__gt=now).order_by().values_list("bid_id", flat=True).distinct()))
    known = Bid.objects.filter(going | holding, market=market)
    bids = list(known.select_related("decision__policy").only(*_OF_A_JOB))
    before = known.exclude(inventory_version=market.inventory_version)
    resolved = dict(before.values_list("pk", "resolved_request"))
    rows = Commitment.objects.filter(bid__in=known.values("pk"))
    held: dict[int, list[Holding]] = {bid.pk: [] for bid in bids}
    for pk, *row in rows.values_list("bid_id", "server_id", "machine_type_id", "count", "start", "end"):
        held[pk].append(Holding(*row))
    jobs = {
        bid.pk: Job(
            bid=_core(bid, resolved[bid.pk], snapshot) if bid.pk in resolved else CoreBid.from_json(bid.core_bid),
            held=tuple(sorted(snapshot.placements([h for h in held[bid.pk] if h.end > h.start]))),
            completion=bid.completion_slot,
            bound=POLICIES[bid.decision.policy.name].binding,
            due=_due(bid),
            queued_from=None if held[bid.pk] else bid.start_slot,
        )
        for bid in sorted(bids, key=lambda bid: bid.decision.version)
    }
    if keeps_slots:
        return jobs
    return {pk: job if job.due is None else replace(job, bound=True) for pk, job in jobs.items()}


def _due(bid: Bid) -> int | None:
    """Return the promised completion slot of a job whose machines may change; None if nothing is promised."""
    if not POLICIES[bid.decision.policy.name].keeps_slots:
        return None
    due: int | None = parse(bid.decision.receipt)["due"]
    return due


def _positions(old: Sequence[int], new: Sequence[int]) -> list[int | None]:
    """Return the new position of each old row; None if the row is gone."""
    return [new.index(key) if key in new else None for key in old]


def _catch_up(book: LiveBook, market: Market) -> bool:
    """Apply what other processes decided since; return False if the book has to be rebuilt."""
    if book.version >= market.ledger_version:
        return book.version == market.ledger_version
    if book.version < market.sealed_version:
        return False  # the events that it missed may be archived
    most = CATCH_UP_EVENTS * max(1, len(book.running.jobs) // (JOBS_PER_EVENT * CATCH_UP_EVENTS))
    events = _missed(most)(market.pk, book.version, market.version)
    if len(events) > most or not CAUGHT_UP.issuperset(row[1] for row in events):
        return False
    for version, kind, slot, payload, number, user, team, inventory, text, receipt, stood_from, first in events:
        moves = [Move.from_json(move) for move in payload.get("moves", ())]
        now = payload["now"] if kind == EventKind.SLOT else slot
        if now < book.ledger.start:
            return False  # the book was already advanced beyond the slot of this event
        book.advance(now)
        if number is None:
            book.running.apply(moves)
            continue
        stands = kind == EventKind.STANDING
        decision = replace(Decision.from_json(parse(first if stands else receipt)), moves=tuple(moves))
        if inventory == market.inventory_version:
            core = CoreBid.from_json(text)
        else:
            core = core_in_force(Bid.objects.get(market=market, sequence=number), market, book.snapshot)
        owner = pool_owner(user=user, team=team, version=version, teams_from=market.teams_pooled_from)
        book.apply_decision(core, decision, owner=owner, again=not stands and stood_from is not None)
    book.running.ran.clear()  # the other process has written it
    book.version = market.ledger_version
    return True


_OF_AN_EVENT = (
    *("version", "kind", "slot", "payload", "bid__sequence", "bid__owner_id", "bid__team_id"),
    *("bid__inventory_version", "bid__core_bid", "bid__decision__receipt", "bid__decision__stood_from"),
    "bid__first_decision__receipt",
)
"""Columns of an event and its bid by which a book catches up; rows with all their columns take thrice the time."""


@cache
def _missed(most: int) -> "Prepared[tuple[Any, ...]]":
    """Return the query for the events after a version, up to another one, that change the ledger: `most` and one."""
    moves = Event.objects.filter(kind__in=sorted(MOVES_THE_LEDGER)).order_by("version")
    return Prepared(
        lambda market, version, last: moves.filter(market=market, version__gt=version, version__lte=last).values_list(
            *_OF_AN_EVENT
        )[: most + 1],
        int,
        int,
        int,
    )
