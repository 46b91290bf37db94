"""Submit a bid, which stores it with its number, or request a quote for it."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from django.contrib.auth.models import User

from accounts.errors import NotAllowed
from accounts.rights import check_may_bid, membership_of, needs_team, sees
from auctions.domain.bid_conversion import check_finite, core_bid, resolve
from auctions.domain.errors import CannotDecide, KeyReused, MarketClosed, NoMarket
from auctions.domain.inventory_snapshot import InventorySnapshot
from auctions.domain.policy_errors import PolicyFailed
from auctions.engine import intake, standing, team_credits
from auctions.engine.bid_samples import sample_for
from auctions.engine.decide import decide, unpayable
from auctions.engine.intake import Offer, Request, Submitted
from auctions.kernels import warming
from auctions.models import Bid, Market
from auctions.state.market_snapshot import market_snapshot, one_version
from cluster.models import Cluster
from scheduling.book.state import NOBODY
from scheduling.model.bid import Bid as CoreBid
from scheduling.model.decision import Decision, Reason, canonical
from scheduling.model.errors import InvalidField, refuse_all
from scheduling.model.types import Json
from scheduling.policies.base import Policy
from scheduling.policies.standing import rule_for
from web.parsers import MOST_WRONG

log = logging.getLogger(__name__)


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
    """Last slot in which it would be tried again if it was submitted; None if it would not stand.

    Where bids compete it may stand though the decision is an admission: other bids that stand may come first.
    """
    standing_wait: float | None = None
    """Median time from arrival to admission of recent standing bids that may be published, slots; None if unknown."""
    standing_admitted_share: float | None = None
    """Share of recent standing bids that were admitted in the end, as far as it may be published; None if unknown."""

    @property
    def offered(self) -> float:
        """The stated value."""
        return self.core.utility.value


def page_key(form: str) -> str:
    """Return the key under which the bid of a form is stored.

    Keys of requests have no spaces (`web/headers.py`), so this one, and those of many bids, are no request's.
    """
    return f"page {form}"


def _key_in_bulk(key: str, place: int) -> str:
    """Return the key of the bid at this place of those that were sent together under a key."""
    return f"{key} {place}"


def submit_bid(*, cluster: Cluster | str, owner: User, body: Json, idempotency_key: str | None = None) -> Submitted:
    """Store a bid and notify a worker. `cluster` is a row, or the name of a cluster.

    Raises
    ------
    NoMarket, MarketClosed
        If there is nowhere to bid.
    Cluster.DoesNotExist
        If there is no cluster of this name.
    KeyReused
        If the key was used before with another body.
    TooManyWaiting
        If too many bids of the owner would wait for their decisions, or stand.
    accounts.errors.NotAllowed
        If the owner is a viewer of a team, or is in none and the cluster's bids need one.
    scheduling.model.errors.InvalidField
        If the body is wrong; the message names the field.
    """
    return _submit(cluster, owner, [body], [idempotency_key])[0]


def submit_bids(
    *, cluster: Cluster | str, owner: User, bodies: Sequence[Json], idempotency_key: str | None = None
) -> list[Submitted]:
    """Store all of these bids in this order, or none of them; errors name fields as `bids[i].field`.

    Raises
    ------
    scheduling.model.errors.InvalidField
        If there are no bids, or one of them is wrong.
    KeyReused
        If the key was used before with other bids, or with another number of them.
    NoMarket, MarketClosed, TooManyWaiting, Cluster.DoesNotExist, accounts.errors.NotAllowed
        As `submit_bid`.
    """
    if not bodies:
        raise InvalidField("bids", "expected at least one bid, got none")
    # If the same key was used before with more bids, the key with the next index is in the database.
    if idempotency_key is not None and _came_before(cluster, owner, _key_in_bulk(idempotency_key, len(bodies))):
        raise KeyReused("This idempotency key came before with more bids.")
    keys = [None if idempotency_key is None else _key_in_bulk(idempotency_key, i) for i in range(len(bodies))]
    return _submit(cluster, owner, bodies, keys, where="bids[{}].")


def check_bids(*, cluster: Cluster, owner: User, bodies: Sequence[Json], where: str = "bids[{}].") -> None:
    """Raise one InvalidField that names all wrong fields of these bids; store nothing.

    `where` is the name of a bid, with a place for its index.
    """
    # Read again: after a change of policy, the terms that are known would name other fields.
    _resolve(intake.read_terms(cluster), owner, bodies, where)


def refusal(cluster: Cluster, owner: User) -> str:
    """Return why this user submits no bids to a cluster, whatever they are; empty if that is not so."""
    try:
        team = check_may_bid(owner)
    except NotAllowed as error:
        return str(error)
    return _team_needed(cluster) if team is None and needs_team(cluster) else ""


@one_version()
def quote(*, market: Market, body: Json, bidder: User | None = None) -> Quote:
    """Return the decision that this bid would get now, from the same function on a copy of the book; change nothing.

    What a worker does when it processes a slot that has begun is not foreseen: a drained server may leave service, and
    standing bids have their turn. `auctions.tasks.sweep` processes slots every two seconds. `bidder` is the user who
    would submit the bid, if anybody: the program that it names must be one that this user may run.

    Raises
    ------
    CannotDecide
        If the policy fails on this bid.
    MarketClosed
        If the market takes no bids.
    NotReady
        While the kernels of the market's policy are being compiled.
    scheduling.model.errors.InvalidField
        If the body is wrong; the message names the field.
    """
    seen = market_snapshot(market)
    cluster = seen.market.cluster
    if not seen.market.is_open:
        raise MarketClosed(f"The market of {cluster.name} takes no bids.")
    warming.check_market(market.pk)
    shared = seen.book
    resolved = resolve(body, cluster, shared.snapshot, type(shared.policy), bidder=bidder)
    now = seen.moment.now
    membership = None if bidder is None else membership_of(bidder)
    left = None if membership is None else team_credits.left_at(membership.team_id, seen.moment.wall)
    # The bid gets the number it would have: some policies seed random draws with it.
    core = core_bid(resolved, shared.snapshot, bid_id=str(seen.market.submitted + 1), arrival=now)
    try:
        with shared.trial() as book:
            made = decide(book, core, owner=NOBODY, left=left)
            behind = _behind_others(made.decision) if book.policy.competes else made.decision
            stands_until = standing.last_slot(resolved, core, book, behind, rule_for(book.policy), left)
    except PolicyFailed as failed:
        log.error("a quote of market %s failed", market.pk, exc_info=failed.error)
        raise CannotDecide("The policy of this market fails on this bid, so there is no quote for it.") from None
    words = _beside_sealed_bids(made.decision) if shared.policy.competes else made.decision.explanation
    if resolved.get("standing"):
        words = f"{words} {unpayable(core, behind, shared.policy, left)}".rstrip()
    return Quote(
        decision=replace(made.decision, bid_id="quote", explanation=words),
        ledger_version=shared.version,
        slot=now,
        core=core,
        snapshot=shared.snapshot,
        policy=shared.policy,
        stands_until=stands_until,
    )


def _beside_sealed_bids(decision: Decision) -> str:
    """Return a quote's decision in words where bids compete: those that stand are sealed, and quotes are free."""
    if decision.admitted:
        return (
            f"If no bid that stands comes first, it is admitted now and complete by slot {decision.due}. It then pays "
            "what this takes from the bids that stand, less than what it is worth."
        )
    if decision.reason is Reason.NO_ROOM:
        return (
            "It would not be admitted now: jobs with a promise need the machines. If it stands, it competes when "
            "machines are freed."
        )
    return decision.explanation


def _behind_others(decision: Decision) -> Decision:
    """Return the rejection that comes instead of an admission if bids that stand come first."""
    if not decision.admitted:
        return decision
    return Decision.reject(decision.bid_id, Reason.NO_ROOM, "", slot=decision.slot, density=())


def _team_needed(cluster: Cluster) -> str:
    words = "need a team, and you are in none: ask an administrator of a team for an invitation"
    return f"Bids of {cluster.name} {words}."


def _came_before(cluster: Cluster | str, owner: User, key: str) -> bool:
    where = {"market__cluster__name": cluster} if isinstance(cluster, str) else {"market__cluster": cluster}
    return Bid.objects.filter(**where, owner=owner.pk, idempotency_key=key).exists()


def _submit(
    cluster: Cluster | str, owner: User, bodies: Sequence[Json], keys: Sequence[str | None], where: str = ""
) -> list[Submitted]:
    digests = [_digest(body, where.format(i)) for i, body in enumerate(bodies)]
    team = check_may_bid(owner)
    terms = intake.known_terms(cluster) or intake.read_terms(cluster)
    while True:
        if terms.open_to is not None and team not in terms.open_to and not sees(owner, terms.cluster.name):
            raise NoMarket(f"There is no cluster {terms.cluster.name}.")
        if terms.needs_team and team is None:
            known = intake.stored_before(terms, owner, keys, digests)
            if known:
                return known
            terms = intake.read_terms(cluster)
            if terms.needs_team:
                raise NotAllowed(_team_needed(terms.cluster))
        try:
            resolved = _resolve(terms, owner, bodies, where)
        except InvalidField:
            # A repeated request is answered even if the models have changed since.
            known = intake.stored_before(terms, owner, keys, digests)
            if known:
                return known
            fresh = intake.read_terms(cluster)
            if fresh.versions == terms.versions:
                raise
            terms = fresh
            continue
        offers = tuple(
            Offer(body, one, digest, key, sample_for(body, one, terms.snapshot, terms.samples))
            for body, one, digest, key in zip(bodies, resolved, digests, keys, strict=True)
        )
        answer = intake.store(Request(terms, owner, offers, team))
        if answer is not None:
            return answer
        terms = intake.read_terms(cluster)  # something changed since they were read


def _digest(body: Json, where: str) -> str:
    check_finite(body, where.rstrip("."))
    return sha256(canonical(body).encode()).hexdigest()


def _resolve(terms: intake.Terms, owner: User, bodies: Sequence[Json], where: str) -> list[Json]:
    read, resolved, wrong = terms.resolver(bidder=owner), [], []
    for i, body in enumerate(bodies):
        try:
            resolved.append(read(body))
        except InvalidField as error:
            wrong += [one.at((where.format(i) + one.field).rstrip(".")) for one in error.all_wrong]
            if len(wrong) >= MOST_WRONG:
                break
    refuse_all(wrong)
    return resolved
