"""Servers as an operator sees them: whether each is in service, and which jobs hold machines there until when."""

from collections import defaultdict
from dataclasses import dataclass

from django.db.models import F

from auctions.engine.outages import state_of
from auctions.models import Bid, BidState, Commitment, Market, Outage, QueuedChunks
from auctions.state.market_snapshot import market_snapshot, one_version
from cluster.models import Server, ServerKind

GOING = (BidState.PLANNED, BidState.RUNNING)


@dataclass(frozen=True)
class Held:
    """Machines of one type that a job holds on a server from now on, or chunks that wait in its workers' queues."""

    sequence: int
    owner: str
    label: str
    state: BidState
    machine_type: str
    role: str
    count: int
    """Number of machines, or of data chunks for a queued job."""
    start: int
    end: int | None
    """First slot in which it is no longer held. For a queued job this is a forecast; None if there is no forecast."""
    queued: bool


@dataclass(frozen=True)
class ServerReading:
    """One server: its state, its outage, and what is held there."""

    name: str
    kind: ServerKind
    state: str
    """One of in_service, draining, drained and lost (`outages.state_of`)."""
    outage: Outage | None
    """The outage in force; None while the server is in service."""
    held: tuple[Held, ...]
    """Sorted by start, then bid."""
    now: int
    """The first slot that can still be traded."""

    @property
    def free_from(self) -> int | None:
        """The first slot from which on no job holds the server, by present plans; None if a forecast is missing."""
        ends = [one.end for one in self.held]
        known = [end for end in ends if end is not None]
        return max(known, default=self.now) if len(known) == len(ends) else None

    @property
    def jobs(self) -> int:
        """The number of jobs that hold something there."""
        return len({one.sequence for one in self.held})


@one_version()
def servers(market: Market) -> tuple[ServerReading, ...]:
    """Return all servers of a market, in order."""
    now = market_snapshot(market).moment.now
    held = _held(market, now)
    said = Outage.objects.filter(server__cluster=market.cluster, ended_version=None).select_related("reported_by")
    outages = {row.server_id: row for row in said}
    return tuple(
        ServerReading(
            name=row.name,
            kind=ServerKind(row.kind),
            state=state_of(outages.get(row.pk)),
            outage=outages.get(row.pk),
            held=tuple(sorted(held[row.pk], key=lambda one: (one.start, one.sequence, one.machine_type))),
            now=now,
        )
        for row in Server.objects.filter(cluster=market.cluster)
    )


def server_of(market: Market, name: str) -> ServerReading | None:
    """Return the server of this name; None if there is none."""
    return next((one for one in servers(market) if one.name == name), None)


def _held(market: Market, now: int) -> dict[int, list[Held]]:
    found: dict[int, list[Held]] = defaultdict(list)
    columns = ("bid__sequence", "bid__owner__username", "bid__label", "bid__state")
    types = ("machine_type__name", "machine_type__role", "count")
    booked = Commitment.objects.filter(bid__market=market, end__gt=now).filter(end__gt=F("start"))
    for server, number, owner, label, state, name, role, count, start, end in booked.values_list(
        "server_id", *columns, *types, "start", "end"
    ):
        found[server].append(Held(number, owner, label, BidState(state), name, role, count, start, end, queued=False))
    going = Bid.objects.filter(market=market, state__in=GOING)
    queued = QueuedChunks.objects.filter(bid__in=going, until=None)
    for server, number, owner, label, state, name, role, count, start, end in queued.values_list(
        "server_id", *columns, *types, "since", "bid__completion_slot"
    ):
        found[server].append(Held(number, owner, label, BidState(state), name, role, count, start, end, queued=True))
    return found
