"""Schedules by name, for REST: what a decision granted, what a bid holds at present, and how its plan changed."""

from collections.abc import Sequence
from dataclasses import dataclass

from auctions.domain.inventory_snapshot import InventorySnapshot, snapshots_at
from auctions.models import Bid, BidState, Commitment, DecisionRecord, FirstDecision, QueuedChunks
from auctions.readings import market_readings, queues
from cluster.models import Cluster, MachineRole, MachineType, Server
from scheduling.model.decision import Decision, parse
from scheduling.model.schedule import CLOUD, Role


@dataclass(frozen=True)
class Held:
    """Machines of one type on one server in slots [start, end)."""

    server: str
    machine_type: str
    role: MachineRole
    count: int
    start: int
    end: int


@dataclass(frozen=True)
class Chunks:
    """Data chunks in the queue of one worker; for a segment, those that it processed from `start` to `end`."""

    server: str
    machine_type: str
    worker: int | None
    """Number of the worker on its server, from 1; None in the cloud, where each chunk has a worker of its own."""
    count: int
    start: float = 0
    end: float = 0


@dataclass(frozen=True)
class ScheduleReading:
    """The start and completion of a job, and what it holds."""

    start: int
    completion: int | None
    placements: Sequence[Held]
    chunks: Sequence[Chunks]


@dataclass(frozen=True)
class Receipt:
    """The stored decision on a bid, with the inventory that its positions refer to."""

    record: DecisionRecord | FirstDecision
    """The last decision, or for a bid that stands, or that was withdrawn while it stood, the first one."""
    decision: Decision
    snapshot: InventorySnapshot
    offered: float | None
    """The stated value; None if the bid states a weight."""

    @property
    def ledger_version(self) -> int:
        """The ledger that it was decided against."""
        return self.record.ledger_version


@dataclass(frozen=True)
class MachinesOfSlot:
    """Numbers of machines that a job holds in one slot."""

    slot: int
    workers: int
    num_ps: int


def receipt_of(bid: Bid) -> Receipt | None:
    """Return the receipt of a bid; None if it is not decided, or if it is archived."""
    record = last_record(bid)
    if record is None or bid.seal_id is not None:
        return None
    snapshot = snapshots_at(bid.market_id, {record.inventory_version})[record.inventory_version]
    offered = bid.resolved_request.get("utility", {}).get("value")
    return Receipt(record, Decision.from_json(parse(record.receipt)), snapshot, offered)


def last_record(bid: Bid) -> DecisionRecord | FirstDecision | None:
    """Return the row of a bid's last decision; None if it is not decided."""
    if bid.state == BidState.SUBMITTED:
        return None
    last = DecisionRecord.objects.select_related("policy").filter(bid=bid).first()
    if last is not None or bid.stands_until is None:
        return last
    return FirstDecision.objects.select_related("policy").filter(bid=bid).first()


def granted(decision: Decision, snapshot: InventorySnapshot) -> ScheduleReading | None:
    """Return the schedule of a decision; None if it has none."""
    schedule, inventory = decision.schedule, snapshot.inventory
    if schedule is None:
        return None
    placements = [
        Held(
            inventory.servers[p.server],
            p.machine(inventory).name,
            MachineRole.WORKER if p.role is Role.WORKER else MachineRole.PS,
            *(p.count, p.start, p.end),
        )
        for p in schedule.placements
    ]
    chunks = [
        Chunks(inventory.servers[c.server], inventory.workers[c.type].name, _worker_number(c.index), c.count)
        for c in schedule.chunks
    ]
    return ScheduleReading(schedule.start, schedule.completion, placements, chunks)


def schedule_of(bid: Bid) -> ScheduleReading | None:
    """Return what is held for a bid at present, up to its end if the job was ended; None if nothing was granted."""
    if bid.start_slot is None:
        return None
    rows = Commitment.objects.filter(bid=bid).select_related("server", "machine_type")
    placements = [
        Held(r.server.name, r.machine_type.name, MachineRole(r.machine_type.role), r.count, r.start, r.end)
        for r in rows
        if r.end > r.start
    ]
    queued = QueuedChunks.objects.filter(bid=bid, until=None).select_related("server", "machine_type")
    chunks = [Chunks(r.server.name, r.machine_type.name, _worker_number(r.worker), r.count) for r in queued]
    return ScheduleReading(bid.start_slot, bid.completion_slot, placements, chunks)


def machines_of(bid: Bid) -> list[MachinesOfSlot]:
    """Return the numbers of machines of a job in each slot in which it holds any, past and planned."""
    held = market_readings.machines(bid)
    rows = enumerate(zip(held.workers.tolist(), held.num_ps.tolist(), strict=True), start=held.start)
    return [MachinesOfSlot(slot, workers, pss) for slot, (workers, pss) in rows if workers or pss]


def segments_of(bid: Bid, cluster: Cluster) -> list[Chunks]:
    """Return when workers worked on a queued job's chunks, and will work as forecast, in order of time."""
    names = dict(Server.objects.filter(cluster=cluster).values_list("pk", "name"))
    types = dict(MachineType.objects.filter(cluster=cluster).values_list("pk", "name"))
    found = sorted(queues.stretches_of(bid), key=lambda s: (s.start, s.server_id, s.machine_type_id, s.worker))
    return [
        Chunks(
            names[s.server_id], types[s.machine_type_id], _worker_number(s.worker), s.count, start=s.start, end=s.end
        )
        for s in found
    ]


def _worker_number(worker: int) -> int | None:
    return None if worker == CLOUD else worker + 1
