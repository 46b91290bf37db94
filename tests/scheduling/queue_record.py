"""What a record of decisions, moves and segments says of queues: the queues read back, and each worker's past."""

from collections import defaultdict
from collections.abc import Iterator

from scheduling.model.inventory import Inventory
from scheduling.model.schedule import CLOUD, Chunks
from scheduling.policies.simulation import Simulation
from scheduling.preemptive.queues import Queues
from scheduling.preemptive.record import Part, Preemption, Restored, Segment

Place = tuple[int, int, int]


def segments(going: Simulation) -> list[Segment]:
    return [segment for ran in going.book.ran for segment in ran.segments]


def preemptions(going: Simulation) -> list[Preemption]:
    return [preemption for ran in going.book.ran for preemption in ran.preemptions]


def joined(going: Simulation) -> Iterator[tuple[str, int, Chunks]]:
    """Each job's chunks as they joined queues, with the slot."""
    for decision in going.decisions:
        if decision.schedule is not None:
            yield from ((decision.bid_id, decision.slot, chunks) for chunks in decision.schedule.chunks)
    for slot, move in going.moves:
        if move.schedule is not None:
            yield from ((move.job, slot, chunks) for chunks in move.schedule.chunks)


def place(row: Segment | Chunks) -> Place:
    return row.server, row.type, row.index


def queues_from_record(going: Simulation, inventory: Inventory) -> Queues | None:
    """The queues of a run without outages, read back from what was recorded."""
    now = going.book.queues
    if now is None:
        return None
    last: dict[Place, int] = defaultdict(int)
    for segment in segments(going):
        last[place(segment)] = max(last[place(segment)], segment.end)
    rows = []
    for name in now.jobs:
        mine = [segment for segment in segments(going) if segment.job == name]
        task, bid = now.task_of(name), going.book.jobs[name].bid
        sent = [(slot, chunks) for job, slot, chunks in joined(going) if job == name]
        parts = tuple(
            _part(
                chunks,
                task.alone if (chunks.index, chunks.count) == (CLOUD, bid.chunks) else task.each,
                slot + bid.delay[chunks.server],
                mine,
                last,
            )
            for slot, chunks in sent
        )
        rows.append(
            Restored(
                bid=bid,
                order=now.order_of(name),
                type=task.worker,
                each=task.each,
                handicap=task.handicap,
                complete=0,
                start=min((segment.start for segment in mine), default=None),
                completed_at=max((segment.end for segment in mine), default=0),
                parts=parts,
            )
        )
    return Queues.restored(inventory, now=now.now, next_order=1 + len(going.decisions), jobs=rows)


def _part(chunks: Chunks, each: int, release: int, mine: list[Segment], last: dict[Place, int]) -> Part:
    here = [segment for segment in mine if place(segment) == place(chunks)]
    worked = sum((segment.end - segment.start) * segment.count for segment in here)
    recent = max((segment.end for segment in here), default=-1) == last[place(chunks)]
    return Part(chunks, each, worked=worked, release=release, last=recent)
