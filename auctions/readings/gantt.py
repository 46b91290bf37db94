"""Bars of Gantt charts: one for each holding of a job that the viewer may see, and sums for all other jobs.

They come from `Commitment` rows, or from workers' queues under a policy that queues. `frontend.figures.gantt` draws
them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from django.contrib.auth.models import User
from django.db.models import F

from accounts.rights import operates
from auctions.models import Bid, BidState, Commitment, Market
from auctions.readings import queues as queue_readings
from auctions.readings.types import Bar
from auctions.state.market_snapshot import one_version
from cluster.models import MachineRole, MachineType, Server

_COLUMNS: Final = (
    "bid__sequence",
    "bid__label",
    "bid__owner_id",
    "bid__state",
    "server__name",
    "machine_type__name",
    "machine_type__role",
    "count",
    "start",
    "end",
)


@one_version()
def bars(market: Market, *, start: int, end: int, viewer: User | None) -> tuple[Bar, ...]:
    """Return what is held in slots [start, end), by server: a bar for each holding of a job that the viewer may see.

    For other people's jobs, a bar only gives the number of machines that they hold together.
    """
    sees_all = viewer is not None and operates(viewer, market.cluster)
    viewer_id = None if viewer is None else viewer.pk
    named: list[_Holding] = []
    others: dict[_Place, list[tuple[float, int]]] = defaultdict(list)
    for row in [*_held(market, start=start, end=end), *_queued(market, start=start, end=end)]:
        if sees_all or row.owner_id == viewer_id:
            named.append(row)
        else:
            others[row.place] += [(row.start, row.count), (row.end, -row.count)]
    if not others:
        return tuple(row.bar(viewer_id) for row in named)
    shown = [(row.place, row.bar(viewer_id)) for row in named]
    for place, steps in others.items():
        shown += [(place, place.bar(count, first, last)) for count, first, last in _levels(steps)]
    return tuple(bar for place, bar in sorted(shown, key=lambda one: one[0].order))


@dataclass(frozen=True)
class _Place:
    """Machines of one type on one server."""

    order: tuple[int, int, int]
    """Position and key of the server, and key of the type."""
    server: str
    machine_type: str
    role: MachineRole

    def bar(self, count: int, start: float, end: float) -> Bar:
        """Return a bar of machines that other people's jobs hold."""
        return Bar(None, "", False, self.server, self.machine_type, self.role, count, start, end, None)


@dataclass(frozen=True)
class _Holding:
    """Machines that one job holds."""

    place: _Place
    sequence: int
    label: str
    owner_id: int
    state: str
    count: int
    start: float
    end: float

    def bar(self, viewer_id: int | None) -> Bar:
        """Return a bar with the job's number and label."""
        place, mine = self.place, self.owner_id == viewer_id
        where = (place.server, place.machine_type, place.role)
        return Bar(self.sequence, self.label, mine, *where, self.count, self.start, self.end, BidState(self.state))


def _levels(steps: list[tuple[float, int]]) -> Iterator[tuple[int, float, float]]:
    """Yield count, start and end of each interval in which the sum of the counts stays the same and is not 0."""
    change: Counter[float] = Counter()
    for at, count in steps:
        change[at] += count
    held, since = 0, 0.0
    for at in sorted(at for at, count in change.items() if count):
        if held:
            yield held, since, at
        held, since = held + change[at], at


def _held(market: Market, *, start: int, end: int) -> list[_Holding]:
    """Return machines booked in slots [start, end)."""
    # Columns, not objects: a busy cluster has thousands of rows, and pages reload them after every decision.
    rows = Commitment.objects.filter(bid__market=market, start__lt=end, end__gt=F("start")).filter(end__gt=start)
    ordered = rows.order_by("server__position", "server_id", "start", "machine_type_id", "pk")
    places: dict[tuple[int, int], _Place] = {}
    found = []
    for position, server_id, type_id, *job in ordered.values_list(
        "server__position", "server_id", "machine_type_id", *_COLUMNS
    ):
        sequence, label, owner_id, state, server, name, role, count, first, last = job
        place = places.get((server_id, type_id))
        if place is None:
            place = _Place((position, server_id, type_id), server, name, MachineRole(role))
            places[server_id, type_id] = place
        found.append(_Holding(place, sequence, label, owner_id, state, count, first, last))
    return found


def _queued(market: Market, *, start: int, end: int) -> list[_Holding]:
    """Return what workers process from queues in slots [start, end), and the jobs' parameter servers."""
    workers = queue_readings.stretches(market, start=start, end=end)
    if not workers:
        return []
    found = [(s, MachineRole.WORKER) for s in workers]
    found += [(s, MachineRole.PS) for s in queue_readings.ps_assignments(market, start=start, end=end)]
    bids = Bid.objects.filter(market=market, sequence__in={s.sequence for s, _ in found})
    known = {row[0]: row for row in bids.values_list("sequence", "label", "owner_id", "state")}
    servers = {row.pk: row for row in Server.objects.filter(cluster=market.cluster)}
    types = dict(MachineType.objects.filter(cluster=market.cluster).values_list("pk", "name"))
    found.sort(
        key=lambda row: (servers[row[0].server_id].position, row[0].server_id, row[1], row[0].worker, row[0].start)
    )
    return [
        _Holding(
            _Place(
                (servers[s.server_id].position, s.server_id, s.machine_type_id),
                servers[s.server_id].name,
                types[s.machine_type_id],
                role,
            ),
            *known[s.sequence],
            s.count,
            s.start,
            s.end,
        )
        for s, role in found
    ]
