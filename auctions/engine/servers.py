"""Operations of an operator on a market's server: take it out of service, now or from a slot on, and restore it."""

from typing import Final

from django.contrib.auth.models import User
from django.db import transaction

from auctions.domain.errors import WrongState
from auctions.domain.lock import MarketTime, locked_market, market_time, save_counters
from auctions.engine import outages
from auctions.engine.markets import market_of
from auctions.engine.outages import Report
from auctions.engine.slots import caught_up
from auctions.models import Outage, OutageKind
from auctions.state import book as books
from cluster import changes
from cluster.models import Server
from scheduling.model.errors import InvalidField, refuse_all

WORDS: Final = {
    OutageKind.LOST: "server lost",
    OutageKind.DRAIN: "server drained",
    None: "server returned to service",
}
"""Names of these changes in the record of who changed what."""


def lose_server(server: Server, *, reason: str, by: User | None) -> Outage | None:
    """Mark a server as lost: no job holds it from the next slot on. Its jobs move, or fail and are paid back.

    What jobs hold in the slot under way counts as delivered. Repeating the call changes nothing.
    """
    return _report(server, OutageKind.LOST, from_slot=None, deadline=None, reason=reason, by=by)


def drain_server(
    server: Server, *, from_slot: int | None = None, deadline: int | None = None, reason: str, by: User | None
) -> Outage | None:
    """Let a server take no new work from a slot on (None: from now on). Jobs keep what they hold there.

    With a deadline, jobs that still hold it in that slot lose it. Under a policy that queues, no slots are held: if no
    deadline is given, it is the slot from which the server takes no new work. Repeating the call changes nothing.

    Raises
    ------
    InvalidField
        If a slot has passed, lies beyond the horizon, or the deadline comes before it takes no new work.
    WrongState
        If the server is out of service already.
    """
    return _report(server, OutageKind.DRAIN, from_slot=from_slot, deadline=deadline, reason=reason, by=by)


def restore_server(server: Server, *, reason: str, by: User | None) -> Outage | None:
    """Return a server to service with its present capacity; a server in service stays so."""
    return _report(server, None, from_slot=None, deadline=None, reason=reason, by=by)


def _report(
    server: Server,
    kind: OutageKind | None,
    *,
    from_slot: int | None,
    deadline: int | None,
    reason: str,
    by: User | None,
) -> Outage | None:
    """Record the outage under the market's lock, unless it is in force already; return the outage then in force.

    If it is in force already, nothing is written: rows of what workers did would belong to no event.
    """
    with locked_market(market_of(server.cluster).pk) as market:
        moment = market_time(market)
        book = caught_up(market, moment)
        before = outages.in_force(server)
        first = moment.now if from_slot is None else from_slot
        if kind is OutageKind.DRAIN:
            _check_slots(first, deadline, moment, end=book.ledger.end)
            if book.policy.queues and deadline is None:
                deadline = first
        if _is_in_force(before, kind, from_slot=from_slot, deadline=deadline, now=moment.now):
            transaction.set_rollback(True)
            return before
        if kind is OutageKind.DRAIN and before is not None and before.out_slot is not None:
            raise WrongState(f"Server {server.name} is out of service already; return it to service first.")
        book = outages.report_outage(market, book, moment, server, Report(kind, first, deadline, reason, by))
        save_counters(market)
        changes.note(
            server,
            WORDS[kind],
            {
                "service": ("in service" if before is None else str(before.kind), str(kind or "in service")),
                "reason": ("" if before is None else before.reason, reason),
                "from_slot": (None if before is None else before.from_slot, None if kind is None else first),
                "deadline": (None if before is None else before.deadline, deadline),
            },
            cluster=server.cluster.name,
            name=f"server {server.name} of {server.cluster.name}",
        )
    books.store(market, book)
    return outages.in_force(server)


def _check_slots(first: int, deadline: int | None, moment: MarketTime, *, end: int) -> None:
    wrong = []
    if not moment.now <= first <= end:
        wrong.append(InvalidField("from_slot", f"expected a slot from {moment.now} to {end}, got {first}"))
        first = moment.now
    if deadline is not None and not first <= deadline <= end:
        wrong.append(InvalidField("deadline_slot", f"expected a slot from {first} to {end}, got {deadline}"))
    refuse_all(wrong)


def _is_in_force(
    before: Outage | None, kind: OutageKind | None, *, from_slot: int | None, deadline: int | None, now: int
) -> bool:
    """Return whether this statement is in force already.

    For a drain: the same slots, or no slot is given and the server takes no new work already.
    """
    if before is None or kind is None:
        return before is None and kind is None
    if kind is OutageKind.LOST or before.kind != kind:
        return before.kind == kind
    same = before.from_slot == from_slot if from_slot is not None else before.from_slot <= now
    return same and before.deadline == deadline and before.out_slot is None
