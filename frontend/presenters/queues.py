"""Queue data for a bid's page: where its chunks are, which jobs displaced them, and the delay of its completion."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.contrib.auth.models import User

from auctions.models import Bid, QueuedChunks
from auctions.readings.queues import Displacement, Stretch, displacements
from cluster.models import MachineType, Server
from frontend.figures.base import Table
from frontend.figures.timeline import TimeLine
from frontend.presenters.plans import Step
from scheduling.model.schedule import CLOUD


@dataclass(frozen=True)
class Names:
    """Names of servers and machine types, by key."""

    servers: dict[int, str]
    machines: dict[int, str]

    @classmethod
    def of(cls, cluster_id: int) -> "Names":
        """Return the names of a cluster."""
        servers = Server.objects.filter(cluster=cluster_id)
        machines = MachineType.objects.filter(cluster=cluster_id)
        return cls(dict(servers.values_list("pk", "name")), dict(machines.values_list("pk", "name")))


@dataclass(frozen=True)
class Place:
    """Chunks in one worker's queue, or in the cloud."""

    server: str
    machine: str
    worker: str
    count: int
    since: int
    """Slot in which the chunks were sent."""
    note: str


@dataclass(frozen=True)
class Loss:
    """Workers interrupted chunks for chunks of one other job; jobs of other users are counted together."""

    first: float
    """Time of the first interruption, in slots."""
    times: int
    by: str


def places(bid: Bid) -> list[Place]:
    """Return where the chunks were sent, the oldest first."""
    rows = QueuedChunks.objects.filter(bid=bid).select_related("server", "machine_type")
    return [
        Place(
            server=row.server.name,
            machine=row.machine_type.name,
            worker="one each" if row.worker == CLOUD else f"number {row.worker + 1}",
            count=row.count,
            since=row.since,
            note="" if row.until is None else f"taken out in slot {row.until}, {row.done} complete by then",
        )
        for row in rows
    ]


def losses(bid: Bid, viewer: User) -> list[Loss]:
    """Return the jobs that displaced its chunks, by first time; jobs of other users have no name."""
    found: dict[int | None, list[float]] = {}
    for row in displacements(bid, viewer):
        found.setdefault(row.by, []).append(row.at)
    return [Loss(at[0], len(at), "others' jobs" if by is None else f"bid {by}") for by, at in found.items()]


def segments_table(found: Iterable[Stretch], names: Names, line: TimeLine) -> Table:
    """Return when workers process a job's chunks, in the past and as forecast; without a worker number in the cloud."""
    rows = (
        (
            names.servers[s.server_id],
            names.machines[s.machine_type_id],
            "" if s.worker == CLOUD else s.worker + 1,
            s.count,
            s.start,
            line.date(s.start),
            s.end,
            line.date(s.end),
        )
        for s in sorted(found, key=lambda s: (s.start, s.server_id, s.machine_type_id, s.worker))
    )
    return Table(("server", "machine", "worker", "count", "from_slot", "from_utc", "to_slot", "to_utc"), rows)


def preemptions_table(found: Iterable[Displacement], line: TimeLine) -> Table:
    """Return each interruption of a job's chunks; the other job is empty if it belongs to another user."""
    rows = ((row.at, line.date(row.at), row.server, row.worker + 1, "" if row.by is None else row.by) for row in found)
    return Table(("at_slot", "at_utc", "server", "worker", "by_bid"), rows)


def lateness(bid: Bid, steps: Sequence[Step]) -> int | None:
    """Return by how many slots its completion is later than first forecast; None without a forecast."""
    first = next((step.completion for step in steps if step.completion is not None), None)
    return None if first is None or bid.completed_slot is None else bid.completed_slot - first
