"""Bids and their receipts as documents of the API: names instead of positions, and times in addition to slots."""

from typing import Any

from django.contrib.auth.models import User

from auctions.domain.inventory_snapshot import InventorySnapshot, snapshots_at
from auctions.domain.money import money_of
from auctions.engine.submission import Quote
from auctions.models import Bid, Commitment, DecisionRecord, PlanChange, QueuedChunks
from auctions.readings import market_readings
from auctions.readings import queues as queue_readings
from cluster.clock import instant_of_slot
from cluster.models import Cluster, MachineType, Server
from cluster.units import seconds
from scheduling.model.decision import Decision, parse
from scheduling.model.schedule import CLOUD, Role
from scheduling.model.types import Json


def brief(bid: Bid, cluster: Cluster) -> Json:
    """A bid in a list."""
    money = money_of(bid)
    return {
        "sequence": bid.sequence,
        "cluster": cluster.name,
        "owner": bid.owner.get_username(),
        "label": bid.label,
        "state": bid.state,
        "submitted_at": bid.submitted_at.isoformat(),
        "submitted_s": bid.submitted_s,
        **slot_times(cluster, "arrival", bid.arrival_slot),
        **slot_times(cluster, "start", bid.start_slot),
        "started": bid.started,
        **slot_times(cluster, "completion", bid.completion_slot),
        **slot_times(cluster, "ended", bid.ended_slot),
        "value": None if money is None else money.value,
        "payment": bid.payment,
        "refund": bid.refund,
        "payoff": None if money is None else money.payoff,
        "ended_why": bid.ended_why,
        **slot_times(cluster, "kept_from", bid.kept_from),
    }


def full(bid: Bid, cluster: Cluster) -> Json:
    """A bid with what was sent and its receipt, if it is decided."""
    record = DecisionRecord.objects.select_related("policy").filter(bid=bid).first()
    return {**brief(bid, cluster), "body": bid.body, "decision": record and _receipt(record, bid, cluster)}


def quoted(quote: Quote, cluster: Cluster) -> Json:
    """Return the decision that a bid would get."""
    return {"ledger_version": quote.ledger_version, **_decision(quote.decision, cluster, quote.snapshot)}


def schedule_of(bid: Bid, cluster: Cluster) -> Json | None:
    """Return what is held for a bid at present, up to its end if the job was ended; None if nothing was granted."""
    if bid.start_slot is None:
        return None
    rows = Commitment.objects.filter(bid=bid).select_related("server", "machine_type")
    placements = [
        _placement(
            cluster,
            {"server": r.server.name, "machine_type": r.machine_type.name, "role": r.machine_type.role},
            (r.count, r.start, r.end),
        )
        for r in rows
        if r.end > r.start
    ]
    queued = QueuedChunks.objects.filter(bid=bid, until=None).select_related("server", "machine_type")
    chunks = [_chunks(r.server.name, r.machine_type.name, r.worker, r.count) for r in queued]
    return _schedule(cluster, bid.start_slot, bid.completion_slot, placements, chunks)


def changes_of(bid: Bid, cluster: Cluster) -> list[Json]:
    """Return the plans of a job with the times from which they held, oldest first."""
    return [
        {
            "version": row.version,
            "at": row.at.isoformat(),
            **slot_times(cluster, "now", row.slot),
            **slot_times(cluster, "start", row.start),
            **slot_times(cluster, "completion", row.completion),
        }
        for row in PlanChange.objects.filter(bid=bid)
    ]


def machines_of(bid: Bid, cluster: Cluster) -> list[Json]:
    """Return the numbers of machines of a job in each slot in which it holds any, past and planned."""
    held = market_readings.machines(bid)
    rows = enumerate(zip(held.workers.tolist(), held.pss.tolist(), strict=True), start=held.start)
    return [
        {**slot_times(cluster, "start", slot), "workers": workers, "pss": pss}
        for slot, (workers, pss) in rows
        if workers or pss
    ]


def segments_of(bid: Bid, cluster: Cluster) -> list[Json]:
    """Return when workers worked on a queued job's chunks, and will work as forecast."""
    names = dict(Server.objects.filter(cluster=cluster).values_list("pk", "name"))
    types = dict(MachineType.objects.filter(cluster=cluster).values_list("pk", "name"))
    found = sorted(queue_readings.stretches_of(bid), key=lambda s: (s.start, s.server_id, s.machine_type_id, s.worker))
    return [
        {
            **_chunks(names[s.server_id], types[s.machine_type_id], s.worker, s.count),
            "start_s": s.start * cluster.slot_seconds,
            "end_s": s.end * cluster.slot_seconds,
        }
        for s in found
    ]


def preemptions_of(bid: Bid, cluster: Cluster, viewer: User) -> list[Json]:
    """Return when workers interrupted chunks of a job for chunks of another job."""
    return [
        {
            "at_s": row.at * cluster.slot_seconds,
            "server": row.server,
            "worker": row.worker + 1,
            "by": row.by,
        }
        for row in queue_readings.displacements(bid, viewer)
    ]


def _receipt(record: DecisionRecord, bid: Bid, cluster: Cluster) -> Json:
    snapshot = snapshots_at(bid.market, {record.inventory_version})[record.inventory_version]
    return {
        "ledger_version": record.ledger_version,
        **_decision(Decision.from_json(parse(record.receipt)), cluster, snapshot),
        "version": record.version,
        "decided_at": record.decided_at.isoformat(),
        "decided_s": record.decided_s,
        "policy": record.policy.name,
        "policy_number": record.policy.number,
    }


def _decision(decision: Decision, cluster: Cluster, snapshot: InventorySnapshot) -> Json:
    counter = decision.counter
    return {
        "admitted": decision.admitted,
        "slot": decision.slot,
        "value": decision.value,
        "payment": decision.payment,
        "payoff": decision.payoff,
        "reason": None if decision.reason is None else str(decision.reason),
        "explanation": decision.explanation,
        "schedule": _granted(decision, cluster, snapshot),
        "counter_offer": None
        if counter is None
        else {
            "least_value": counter.least_value,
            **slot_times(cluster, "latest_start", counter.latest_start),
            **slot_times(cluster, "completion", counter.completion),
        },
        "prices": decision.prices,
    }


def _granted(decision: Decision, cluster: Cluster, snapshot: InventorySnapshot) -> Json | None:
    schedule, inventory = decision.schedule, snapshot.inventory
    if schedule is None:
        return None
    placements = [
        _placement(
            cluster,
            {
                "server": inventory.servers[p.server],
                "machine_type": p.machine(inventory).name,
                "role": "worker" if p.role is Role.WORKER else "ps",
            },
            (p.count, p.start, p.end),
        )
        for p in schedule.placements
    ]
    chunks = [
        _chunks(inventory.servers[c.server], inventory.workers[c.type].name, c.index, c.count) for c in schedule.chunks
    ]
    return _schedule(cluster, schedule.start, schedule.completion, placements, chunks)


def _chunks(server: str, machine_type: str, worker: int, count: int) -> Json:
    """Workers by number from 1 on; none in the cloud, where each chunk has one of its own."""
    worker_number = None if worker == CLOUD else worker + 1
    return {"server": server, "machine_type": machine_type, "worker": worker_number, "count": count}


def _schedule(cluster: Cluster, start: int, completion: int | None, placements: list[Json], chunks: list[Json]) -> Json:
    return {
        **slot_times(cluster, "start", start),
        **slot_times(cluster, "completion", completion),
        "placements": placements,
        "chunks": chunks,
    }


def _placement(cluster: Cluster, names: Json, held: tuple[int, int, int]) -> Json:
    count, start, end = held
    return {**names, "count": count, **slot_times(cluster, "start", start), **slot_times(cluster, "end", end)}


def slot_times(cluster: Cluster, name: str, slot: int | None) -> dict[str, Any]:
    """A slot by number, in seconds after the epoch and as a time."""
    return {
        f"{name}_slot": slot,
        f"{name}_s": None if slot is None else seconds(slot, cluster.slot_seconds),
        f"{name}_at": None if slot is None else instant_of_slot(cluster, slot).isoformat(),
    }
