"""Submit a bid, which stores it with its place in the queue, or request a quote for it."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from django.contrib.auth.models import User

from auctions.domain.bid_conversion import check_finite, core_bid, resolve, resolver
from auctions.domain.errors import CannotDecide, KeyReused, MarketClosed
from auctions.domain.inventory_snapshot import InventorySnapshot, snapshot_in_force
from auctions.domain.lock import MarketTime, locked_market, market_time, record_bids, save_counters
from auctions.domain.policy_errors import PolicyFailed
from auctions.engine import decision_queue, standing
from auctions.engine.decide import decide
from auctions.engine.markets import market_of
from auctions.kernels import warming
from auctions.models import Bid, EventKind, Market
from auctions.state.market_snapshot import market_snapshot, one_version
from cluster.models import Cluster
from scheduling.book.state import NOBODY
from scheduling.model.bid import Bid as CoreBid
from scheduling.model.decision import Decision, canonical
from scheduling.model.errors import InvalidField
from scheduling.model.types import Json
from scheduling.policies.base import Policy

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Submitted:
    """A stored bid; `created` is False if an earlier request with its idempotency key had stored it."""

    bid: Bid
    created: bool


@dataclass(frozen=True)
class Quote:
    """The decision that a bid would get now. It is not binding, and it is valid until the ledger version changes."""

    decision: Decision
    ledger_version: int
    slot: int
    """First slot that could still be traded."""
    core: CoreBid
    """The bid that was decided, in the positions of `snapshot`."""
    snapshot: InventorySnapshot
    """The inventory snapshot that defines the positions in the schedule."""
    policy: Policy
    """The policy that decided it."""
    stands_until: int | None = None
    """Last slot in which it would be tried again if it was submitted; None if it would not stand."""
    standing_wait: float | None = None
    """Median time from arrival to admission of recent standing bids that may be published, slots; None if unknown."""


@dataclass(frozen=True)
class _Offer:
    body: Json
    resolved: Json
    digest: str
    key: str | None


def submit_bid(*, cluster: Cluster, owner: User, body: Json, idempotency_key: str | None = None) -> Submitted:
    """Store a bid and notify a worker.

    Raises
    ------
    NoMarket, MarketClosed
        If there is nowhere to bid.
    KeyReused
        If the key was used before with another body.
    scheduling.model.errors.InvalidField
        If the body is wrong; the message names the field.
    """
    return _submit(cluster, owner, [body], [idempotency_key])[0]


def submit_bids(
    *, cluster: Cluster, owner: User, bodies: Sequence[Json], idempotency_key: str | None = None
) -> list[Submitted]:
    """Store all of these bids in this order, or none of them; errors name fields as `bids[i].field`."""
    if not bodies:
        raise InvalidField("bids", "expected at least one bid, got none")
    # If the same key was used before with more bids, the key with the next index is in the database.
    beyond = Bid.objects.filter(
        market__cluster=cluster, owner=owner.pk, idempotency_key=f"{idempotency_key}/{len(bodies)}"
    )
    if idempotency_key is not None and beyond.exists():
        raise KeyReused("This idempotency key came before with more bids.")
    keys = [None if idempotency_key is None else f"{idempotency_key}/{i}" for i in range(len(bodies))]
    return _submit(cluster, owner, bodies, keys, where="bids[{}].")


def quote(*, cluster: Cluster, body: Json, bidder: User | None = None) -> Quote:
    """Return the decision that this bid would get now, from the same function on a copy of the book; change nothing.

    What a worker does when it processes a slot that has begun is not foreseen: a drained server may leave service, and
    standing bids have their turn. `auctions.tasks.sweep` processes slots every two seconds. `bidder` is the user who
    would submit the bid, if anybody: the program that it names must be one that this user may run.

    Raises
    ------
    CannotDecide
        If the policy fails on this bid.
    NoMarket, MarketClosed
        If there is nowhere to bid.
    NotReady
        While the kernels of the market's policy are being compiled.
    scheduling.model.errors.InvalidField
        If the body is wrong; the message names the field.
    """
    market = market_of(cluster)
    if not market.is_open:
        raise MarketClosed(f"The market of {cluster.name} takes no bids.")
    warming.check_market(market.pk)
    with one_version():
        seen = market_snapshot(market)
        book = seen.book.copy()  # a copy: kernels cache results on the ledger by the bid's number
        resolved = resolve(body, cluster, book.snapshot, bidder=bidder)
    now = seen.moment.now
    # The bid gets the number it would have: some policies seed random draws with it.
    core = core_bid(resolved, book.snapshot, bid_id=str(seen.market.submitted + 1), arrival=now)
    try:
        made = decide(book, core, owner=NOBODY)
    except PolicyFailed as failed:
        log.error("a quote of market %s failed", market.pk, exc_info=failed.error)
        raise CannotDecide("The policy of this market fails on this bid, so there is no quote for it.") from None
    return Quote(
        decision=replace(made.decision, bid_id="quote"),
        ledger_version=book.version,
        slot=now,
        core=core,
        snapshot=book.snapshot,
        policy=book.policy,
        stands_until=standing.last_slot(resolved, core, book, made.decision, standing.RULE),
    )


def _submit(
    cluster: Cluster, owner: User, bodies: Sequence[Json], keys: Sequence[str | None], where: str = ""
) -> list[Submitted]:
    market = market_of(cluster)
    digests = [_digest(body, where.format(i)) for i, body in enumerate(bodies)]
    # A repeated request is answered even if the market has closed or the models have changed since.
    known = _known(market, owner, keys, digests)
    if known:
        return known
    snapshot = snapshot_in_force(market)
    read = resolver(cluster, snapshot, bidder=owner)
    offers = [
        _Offer(body=body, resolved=_resolved(read, body, where.format(i)), digest=digest, key=key)
        for i, (body, digest, key) in enumerate(zip(bodies, digests, keys, strict=True))
    ]
    with locked_market(market.pk) as held:
        known = _known(held, owner, keys, digests)
        if known:
            return known
        if not held.is_open:
            raise MarketClosed(f"The market of {cluster.name} takes no bids.")
        moment = market_time(held)
        # The snapshot read above may be stale by now: its version is stored, and the decision queue rewrites the core.
        bids = [_bid(held, owner, offer, (snapshot, market.inventory_version), moment) for offer in offers]
        Bid.objects.bulk_create(bids)
        record_bids(held, EventKind.SUBMITTED, moment, bids)
        save_counters(held)
        decision_queue.wake(held.pk)
    return [Submitted(bid, created=True) for bid in bids]


def _digest(body: Json, where: str) -> str:
    check_finite(body, where.rstrip("."))
    return sha256(canonical(body).encode()).hexdigest()


def _resolved(read: Callable[[Json], Json], body: Json, where: str) -> Json:
    try:
        return read(body)
    except InvalidField as error:
        first, *others = (one.at(where + one.field) for one in (error, *error.also))
        first.also = tuple(others)
        raise first from None


def _known(market: Market, owner: User, keys: Sequence[str | None], digests: Sequence[str]) -> list[Submitted]:
    wanted = [key for key in keys if key is not None]
    if not wanted:
        return []
    found = {
        bid.idempotency_key: bid
        for bid in Bid.objects.filter(market=market, owner=owner.pk, idempotency_key__in=wanted)
    }
    if not found:
        return []
    matched = [found.get(key) for key in keys]
    if any(bid is None or bid.body_digest != digest for bid, digest in zip(matched, digests, strict=True)):
        raise KeyReused("This idempotency key came before with another body.")
    return [Submitted(bid=bid, created=False) for bid in matched if bid is not None]


def _bid(market: Market, owner: User, offer: _Offer, known: tuple[InventorySnapshot, int], moment: MarketTime) -> Bid:
    snapshot, inventory_version = known
    market.submitted += 1
    core = core_bid(offer.resolved, snapshot, bid_id=str(market.submitted), arrival=moment.now)
    return Bid(
        market=market,
        owner=owner,
        sequence=market.submitted,
        idempotency_key=offer.key,
        body_digest=offer.digest,
        label=offer.body.get("label", ""),
        submitted_at=moment.wall,
        submitted_s=moment.seconds,
        arrival_slot=moment.now,
        body=offer.body,
        resolved_request=offer.resolved,
        core_bid=core.to_json(),
        inventory_version=inventory_version,
    )
