"""What an operator does to a server of a market: take it out of service, now or from a slot on, and return it."""

from django.contrib.auth.models import User

from auctions.domain.errors import WrongState
from auctions.domain.lock import MarketTime, locked_market, market_time, save_counters
from auctions.engine import outages
from auctions.engine.markets import market_of
from auctions.engine.outages import Said
from auctions.engine.slots import caught_up
from auctions.models import Outage, OutageKind
from auctions.state import book as books
from cluster.models import Server
from scheduling.model.errors import InvalidField


def lose_server(server: Server, *, why: str, by: User | None) -> Outage | None:
    """A server is lost: nobody holds it from the next slot on. Jobs move, or fail and are paid back.

    What jobs hold in the slot that is under way counts as delivered. Saying it again changes nothing.
    """
    return _say(server, OutageKind.LOST, from_slot=None, deadline=None, why=why, by=by)


def drain_server(
    server: Server, *, from_slot: int | None = None, deadline: int | None = None, why: str, by: User | None
) -> Outage | None:
    """A server takes no new work from a slot on (None: from now on). What jobs hold there they keep.

    With a deadline it is lost in that slot to jobs that still hold it then. Under a policy that queues nothing is held:
    the deadline is the slot from which it takes no new work. Saying the same again changes nothing.

    Raises
    ------
    InvalidField
        If a slot has passed, lies beyond the horizon, or the deadline comes before it takes no new work.
    WrongState
        If it is out of service already.
    """
    return _say(server, OutageKind.DRAIN, from_slot=from_slot, deadline=deadline, why=why, by=by)


def restore_server(server: Server, *, why: str, by: User | None) -> Outage | None:
    """A server returns to service with the capacity it has; one that is in service stays so."""
    return _say(server, None, from_slot=None, deadline=None, why=why, by=by)


def _say(
    server: Server, kind: OutageKind | None, *, from_slot: int | None, deadline: int | None, why: str, by: User | None
) -> Outage | None:
    """Record it under the market's lock, unless it is in force already; what is then in force."""
    with locked_market(market_of(server.cluster).pk) as market:
        moment = market_time(market)
        book = caught_up(market, moment)
        before = outages.in_force(server)
        first = moment.now if from_slot is None else from_slot
        if kind is OutageKind.DRAIN:
            _check_slots(first, deadline, moment, end=book.ledger.end)
            if book.policy.queues and deadline is None:
                deadline = first
        if not _is_said(before, kind, from_slot=from_slot, deadline=deadline, now=moment.now):
            if kind is OutageKind.DRAIN and before is not None and before.out_slot is not None:
                raise WrongState(f"Server {server.name} is out of service already; return it to service first.")
            book = outages.say(market, book, moment, server, Said(kind, first, deadline, why, by))
        save_counters(market)
    books.keep(market, book)
    return outages.in_force(server)


def _check_slots(first: int, deadline: int | None, moment: MarketTime, *, end: int) -> None:
    if not moment.now <= first <= end:
        raise InvalidField("from_slot", f"expected a slot from {moment.now} to {end}, got {first}")
    if deadline is not None and not first <= deadline <= end:
        raise InvalidField("deadline_slot", f"expected a slot from {first} to {end}, got {deadline}")


def _is_said(
    before: Outage | None, kind: OutageKind | None, *, from_slot: int | None, deadline: int | None, now: int
) -> bool:
    """Whether that is in force already: of a drain, the same slots, or from now on where it is drained already."""
    if before is None or kind is None:
        return before is None and kind is None
    if kind is OutageKind.LOST or before.kind != kind:
        return before.kind == kind
    same = before.from_slot == from_slot if from_slot is not None else before.from_slot <= now
    return same and before.deadline == deadline and before.out_slot is None
