"""Servers that an operator takes out of service: record the outage and let it take effect.

A *lost* server has no machines from the next slot on. A *drained* server takes no new work from a given slot on. Jobs
keep what they hold there, unless there is a deadline: then the server is lost in that slot. A lost server is the only
failure of a job's machines that the market knows; `auctions.engine.planning.rebased` moves or fails the jobs. If a
process of the service dies, see `auctions.engine.decision_queue`.
"""

from dataclasses import dataclass
from typing import Final

from django.contrib.auth.models import User
from django.db.models import Q

from auctions.domain.inventory_snapshot import snapshot_of
from auctions.domain.lock import MarketTime
from auctions.engine import inventories
from auctions.models import Market, Outage, OutageKind
from auctions.state.book import LiveBook
from cluster.database.prepared import Prepared
from cluster.models import Server
from scheduling.model.types import Json

_PENDING: Final = Outage.objects.filter(ended_version=None, out_slot=None).select_related("server").order_by("version")
_DUE = Prepared(lambda cluster, now: _PENDING.filter(server__cluster=cluster, deadline__lte=now), int, int)
_BEGUN = Prepared(
    lambda cluster, now: _PENDING.filter(Q(deadline__lte=now) | Q(from_slot__lte=now), server__cluster=cluster),
    int,
    int,
)
"""Those due, and those that have begun."""


@dataclass(frozen=True)
class Report:
    """An operator's statement about a server; if `kind` is None, the server returns to service."""

    kind: OutageKind | None
    from_slot: int
    deadline: int | None
    reason: str
    by: User | None


def in_force(server: Server) -> Outage | None:
    """Return the outage of a server in force; None while the server is in service."""
    return Outage.objects.filter(server=server, ended_version=None).select_related("server").first()


def report_outage(market: Market, book: LiveBook, moment: MarketTime, server: Server, report: Report) -> LiveBook:
    """Record a statement about a server, under the market's lock; return the book under the new inventory."""
    before = in_force(server)
    version = market.version + 1
    if before is not None:
        before.ended_slot, before.ended_version = moment.now, version
        before.save(update_fields=["ended_slot", "ended_version"])
    row = None
    if report.kind is not None:
        lost = report.kind is OutageKind.LOST or (report.deadline is not None and report.deadline <= moment.now)
        row = Outage.objects.create(
            server=server,
            kind=report.kind,
            from_slot=report.from_slot,
            deadline=report.deadline,
            out_slot=moment.now if lost else None,
            reason=report.reason,
            reported_at=moment.wall,
            reported_by=report.by,
            version=version,
        )
    return _change_inventory(market, book, moment, server, row, report)


def take_effect(market: Market, book: LiveBook, moment: MarketTime) -> LiveBook:
    """Take servers out of service whose deadline has come, under the market's lock; return the resulting book."""
    # Under queues no slots are booked there, and queued chunks go to other workers.
    due = _BEGUN if book.policy.queues else _DUE
    for row in due(market.cluster_id, moment.now):
        row.out_slot = moment.now
        row.save(update_fields=["out_slot"])
        book = _change_inventory(market, book, moment, row.server, row, None)
    return book


def _change_inventory(
    market: Market, book: LiveBook, moment: MarketTime, server: Server, row: Outage | None, report: Report | None
) -> LiveBook:
    snapshot = snapshot_of(market.cluster)
    service: Json = {"server": server.name, "state": state_of(row)}
    if row is not None:
        service |= {"from_slot": row.from_slot, "deadline": row.deadline}
    if report is not None:
        service |= {"reason": report.reason, "by": "" if report.by is None else report.by.get_username()}
    return inventories.change_inventory(market, book, moment, snapshot, service=service, reason=_reason(server, row))


def state_of(row: Outage | None) -> str:
    """Return the state in one word: in_service, draining, drained (its deadline came) or lost."""
    if row is None:
        return "in_service"
    if row.kind == OutageKind.LOST:
        return "lost"
    return "draining" if row.out_slot is None else "drained"


def _reason(server: Server, row: Outage | None) -> str:
    if row is None or row.out_slot is None:
        return ""
    what = "was lost" if row.kind == OutageKind.LOST else "was taken out of service"
    more = f" ({row.reason})" if row.reason else ""
    return (
        f"Server {server.name} {what} from slot {row.out_slot} on{more}, and no other machines could complete the job"
        " by the slot it was promised."
    )
