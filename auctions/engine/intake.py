"""Store bids: those of one market that arrive together are committed together.

Each request is checked in its own thread, by `auctions/domain/bid_check.py`. What does not change from bid to bid (the
inventory, the policy, models) is read once by each process. The request that finds nobody before it stores all that
wait for its market, in one transaction under the market's lock; the others wait for the commit, and give their
connections back meanwhile. Under the lock the versions in the row are compared with those of what the process has read,
so that no bid is stored by what holds no longer. A request that is refused does not affect the others.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final, TypeAlias
from uuid import UUID

from django.contrib.auth.models import User
from django.db import IntegrityError, connection

from accounts.errors import NotAllowed
from accounts.models import Team
from accounts.rights import needs_team, teams_allowed
from auctions.domain.bid_conversion import core_bid, policy_in_force, resolver
from auctions.domain.errors import KeyReused, MarketClosed
from auctions.domain.inventory_snapshot import InventorySnapshot, snapshot_in_force
from auctions.domain.lock import MarketTime, locked_market, market_time, record_bids, save_counters
from auctions.engine import decision_queue
from auctions.engine.markets import market_of
from auctions.engine.waiting_bids import WaitingBids
from auctions.models import Bid, EventKind, Market
from auctions.state.recent import Recent
from cluster.database.compact import Like, Sample
from cluster.database.prepared import Prepared
from cluster.database.waiting import never_in_transaction
from cluster.models import Cluster
from scheduling.model.types import Json
from web import tracing
from web.metrics import Laps

MOST_TOGETHER: Final = 64
"""Largest number of requests of one transaction."""

log = logging.getLogger(__name__)

Versions: TypeAlias = tuple[UUID, int, int, UUID]
Keys: TypeAlias = dict[tuple[int, str], Bid]
"""Bids by owner and idempotency key."""
_BY_KEY = Prepared(
    lambda market, owner, key: Bid.objects.filter(market=market, owner=owner, idempotency_key=key), int, int, str
)


@dataclass(frozen=True)
class Submitted:
    """A stored bid; `created` is False if an earlier request with its idempotency key had stored it."""

    bid: Bid
    created: bool


@dataclass(frozen=True)
class Terms:
    """The data by which bodies of a cluster are checked and converted."""

    cluster: Cluster
    market_id: int
    versions: Versions
    snapshot: InventorySnapshot
    policy: type[Any]
    profiles: dict[str, Json] = field(default_factory=dict)
    """The models that were read so far."""
    samples: dict[str, Sample] = field(default_factory=dict)
    """Samples that are stored, by model."""
    open_to: frozenset[int] | None = None
    """Teams that may bid, beside operators; None if all users may."""
    needs_team: bool = False
    """Whether each bid has to be of a team."""

    def resolver(self, *, bidder: User) -> Callable[[Json], Json]:
        """Return the function that checks a body and fills in its model."""
        return resolver(self.cluster, self.snapshot, self.policy, bidder=bidder, profiles=self.profiles)


@dataclass(frozen=True)
class Offer:
    """A bid that was checked."""

    body: Json
    resolved: Json
    digest: str
    key: str | None
    sample: Sample | None = None
    """A stored text that the bid's documents resemble."""


@dataclass
class Request:
    """Bids to be stored, all or none."""

    terms: Terms
    owner: User
    offers: tuple[Offer, ...]
    team: int | None = None
    """The owner's team."""
    trace_context: str = field(default_factory=tracing.current)
    """The place of the request's thread in a trace; another thread may store the bids."""
    answer: "Answer | None" = None


class Stale:
    """The answer to a request whose terms hold no longer."""


Answer: TypeAlias = list[Submitted] | Stale | BaseException
_terms: Recent[tuple[str], Terms] = Recent(100)
"""The terms of each cluster by its name."""


def known_terms(cluster: Cluster | str) -> Terms | None:
    """Return the terms that this process has read; they may hold no longer."""
    if isinstance(cluster, str):
        return _terms.get((cluster,))
    found = _terms.get((cluster.name,))
    return found if found is not None and found.cluster.pk == cluster.pk else None


def read_terms(cluster: Cluster | str) -> Terms:
    """Read the terms of a cluster's market, and remember them; raises NoMarket, or Cluster.DoesNotExist for a name."""
    market = market_of(Cluster.objects.get(name=cluster) if isinstance(cluster, str) else cluster)
    # The versions are read before what they are versions of: whatever is newer is found under the lock.
    row = market.cluster
    found = Terms(
        row,
        market.pk,
        _versions(market),
        snapshot_in_force(market),
        policy_in_force(row),
        open_to=teams_allowed(row),
        needs_team=needs_team(row),
    )
    _terms.store((row.name,), found)
    return found


def store(request: Request) -> list[Submitted] | None:
    """Store the bids of a request; None if its terms hold no longer.

    Raises
    ------
    MarketClosed
        If the market takes no bids.
    KeyReused
        If a key was used before with another body.
    TooManyWaiting
        If too many bids of the owner, or of the owner's team, would wait for their decisions, or stand.
    """
    answer = _line(request.terms.market_id).store(request)
    if isinstance(answer, BaseException):
        raise answer
    if isinstance(answer, Stale):
        return None
    tracing.note(market=request.terms.cluster.name, bid=[one.bid.sequence for one in answer])
    for one in answer if log.isEnabledFor(logging.INFO) else ():
        row = {"market": request.terms.cluster.name, "bid": one.bid.sequence, "is_new": one.created}
        log.info("bid %s of %s is stored", row["bid"], row["market"], extra=row)
    return answer


def stored_before(
    terms: Terms, owner: User, keys: Sequence[str | None], digests: Sequence[str]
) -> list[Submitted] | None:
    """Return the bids that an earlier request with these keys and bodies has stored; None if there was none.

    Raises
    ------
    KeyReused
        If a key was used before with another body.
    """
    wanted = [(owner.pk, key) for key in keys if key is not None]
    return _matched(_found(terms.market_id, wanted), owner, list(zip(keys, digests, strict=True)))


class _Line:
    """The requests of one market that wait to be stored."""

    def __init__(self) -> None:
        self._turn = Lock()
        self._guard = Lock()
        self._waiting: list[Request] = []

    def store(self, request: Request) -> Answer:
        """Store what waits if nobody does so yet, or wait until another thread has done it; return the answer."""
        with self._guard:
            self._waiting.append(request)
        if not self._turn.acquire(blocking=False):
            _give_connection_back()
            never_in_transaction("Another request")
            self._turn.acquire()
        try:
            while request.answer is None:
                with self._guard:
                    together, self._waiting = self._waiting[:MOST_TOGETHER], self._waiting[MOST_TOGETHER:]
                _store_and_answer(together)
        finally:
            self._turn.release()
        return request.answer


_lines: dict[int, _Line] = {}
_lines_guard = Lock()


def _line(market_id: int) -> _Line:
    with _lines_guard:
        return _lines.setdefault(market_id, _Line())


def _store_and_answer(together: Sequence[Request]) -> None:
    """Store these requests; if a row of one is refused by the database, store each alone."""
    answers: list[Answer]
    try:
        answers = _store(together)
    except IntegrityError as error:
        if len(together) > 1:
            for request in together:
                _store_and_answer([request])
            return
        answers = [_refused_by_the_database(together[0], error)]
    except Market.DoesNotExist:
        answers = [Stale() for _ in together]
    except BaseException as error:  # nothing is stored, and each of the threads raises it
        answers = [error for _ in together]
    for request, answer in zip(together, answers, strict=True):
        request.answer = answer


def _refused_by_the_database(request: Request, error: IntegrityError) -> BaseException:
    """Return why the rows of a request were refused: its team may have been deleted after the user was read."""
    if request.team is None or Team.objects.filter(pk=request.team).exists():
        return error
    return NotAllowed("Your team was deleted meanwhile, so nothing is stored. If you send it again, it is yours alone.")


def _store(together: Sequence[Request]) -> list[Answer]:
    """Store requests in one transaction; return their answers, which hold once this function has returned."""
    laps = Laps("submit")
    with locked_market(together[0].terms.market_id) as held:
        laps.lap("lock")
        moment = market_time(held)
        keys = [(one.owner.pk, offer.key) for one in together for offer in one.offers if offer.key is not None]
        known, bids, waiting = _found(held.pk, keys), list[Bid](), WaitingBids(held)
        answers = [_answer(request, held, known, moment, waiting) for request in together]
        for answer in answers:
            if isinstance(answer, list):
                bids += (one.bid for one in answer if one.created)
        if bids:
            Bid.objects.bulk_create(bids)
            record_bids(held, EventKind.SUBMITTED, moment, bids)
            save_counters(held)
            decision_queue.wake(held.pk)
        laps.lap("write")
    laps.lap("commit")
    laps.count(policy=together[0].terms.policy.name)
    return answers


def _answer(request: Request, held: Market, known: Keys, moment: MarketTime, waiting: WaitingBids) -> Answer:
    """Return the answer to a request if the transaction is committed; its bids are added to those that are known."""
    owner, offers, before = request.owner, request.offers, held.submitted
    try:
        matched = _matched(known, owner, [(offer.key, offer.digest) for offer in offers])
        if matched is not None:
            for one in matched:
                one.bid.market = held
            return matched
        if not held.is_open:
            return MarketClosed(f"The market of {request.terms.cluster.name} takes no bids.")
        if _versions(held) != request.terms.versions:
            return Stale()
        bids = [_bid(held, request, offer, moment) for offer in offers]
        waiting.add(owner.pk, request.team, len(bids))
    except Exception as error:  # it must not stop the others
        held.submitted = before
        return error
    known |= {(owner.pk, bid.idempotency_key): bid for bid in bids if bid.idempotency_key is not None}
    return [Submitted(bid, created=True) for bid in bids]


def _versions(market: Market) -> Versions:
    """Return the versions of what terms hold."""
    return (market.token, market.inventory_version, market.policy_number, market.cluster.revision)


def _found(market_id: int, keys: Sequence[tuple[int, str]]) -> Keys:
    """Return the stored bids with these owners and keys."""
    if not keys:
        return {}
    found: Iterable[Bid]
    if len(keys) == 1:
        found = _BY_KEY(market_id, *keys[0])
    else:
        owners, names = {owner for owner, _ in keys}, [key for _, key in keys]
        found = Bid.objects.filter(market=market_id, owner__in=owners, idempotency_key__in=names)
    return {(bid.owner_id, str(bid.idempotency_key)): bid for bid in found}


def _matched(known: Keys, owner: User, wanted: Sequence[tuple[str | None, str]]) -> list[Submitted] | None:
    """Return the stored bids of these keys and digests; None if no key was used; raises KeyReused."""
    matched = [None if key is None else known.get((owner.pk, key)) for key, _ in wanted]
    if not any(matched):
        return None
    if any(bid is None or bid.body_digest != digest for bid, (_, digest) in zip(matched, wanted, strict=True)):
        raise KeyReused("This idempotency key came before with another body.")
    return [Submitted(bid, created=False) for bid in matched if bid is not None]


def _bid(market: Market, request: Request, offer: Offer, moment: MarketTime) -> Bid:
    market.submitted += 1
    snapshot, sample = request.terms.snapshot, offer.sample
    core = core_bid(offer.resolved, snapshot, bid_id=str(market.submitted), arrival=moment.now).to_json()
    return Bid(
        market=market,
        owner=request.owner,
        team_id=request.team,
        sequence=market.submitted,
        idempotency_key=offer.key,
        body_digest="" if offer.key is None else offer.digest,
        label=offer.body.get("label", ""),
        trace_context=request.trace_context,
        submitted_at=moment.wall,
        submitted_s=moment.seconds,
        arrival_slot=moment.now,
        body=offer.body,
        program=offer.body.get("program"),
        resolved_request=offer.resolved if sample is None else Like(offer.resolved, sample),
        core_bid=core if sample is None else Like(core, sample),
        inventory_version=market.inventory_version,
    )


def _give_connection_back() -> None:
    """Let others use this thread's connection while it waits; SQLite's costs nothing."""
    if connection.vendor == "postgresql" and not connection.in_atomic_block:
        with suppress(Exception):  # a connection that is broken is opened again when it is needed
            connection.close()
