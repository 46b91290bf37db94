"""What a policy's plan changes for admitted jobs, written to rows under the market's lock."""

from collections.abc import Callable, Mapping, Sequence

from auctions import queue_rows, transitions
from auctions.book import LiveBook
from auctions.layout import Holding, Layout
from auctions.lock import Moment
from auctions.models import Bid, Commitment, PlanChange
from scheduling.arrays import Json
from scheduling.decision import Move
from scheduling.policy import Cause, Job


def plan(book: LiveBook, cause: Cause) -> tuple[Move, ...]:
    """Let the policy look at its plan again; the book then holds what it answered, the rows do not yet."""
    moves = book.policy.plan(book.view(), cause)
    book.running.apply(moves)
    return moves


def laid_anew(
    book: LiveBook,
    layout: Layout,
    offers: Mapping[str, Json],
    ask: Callable[[LiveBook, Cause], tuple[Move, ...]] = plan,
) -> tuple[LiveBook, tuple[Move, ...]]:
    """The book under another inventory, and what moves: jobs that have not started, if the policy may move them.

    `offers` are those of the book's jobs, by the bid's id; `ask` lets the policy look at its plan again.
    """
    back: tuple[Move, ...] = ()
    if not book.policy.binding:
        now = book.running.now
        loose = [job for job in book.view().jobs if job.held and not job.bound and not job.started(now)]
        back = tuple(Move(job.bid.id, None) for job in loose if job.completion is not None)
        book.running.apply(back)
    new = book.relaid(layout, offers)
    planned = ask(new, Cause.CHANGED)
    again = {move.job for move in planned}
    return new, (*(move for move in back if move.job not in again), *planned)


def offers_of(book: LiveBook) -> dict[str, Json]:
    """The offers of the book's jobs, by the bid's id."""
    return {str(bid.sequence): bid.offer for bid in _bids(book, [int(name) for name in book.running.jobs])}


def to_payload(moves: Sequence[Move]) -> Json:
    """What an event says of moves: nothing where there are none."""
    return {"moves": [move.to_json() for move in moves]} if moves else {}


def write(book: LiveBook, moves: Sequence[Move], moment: Moment, *, version: int) -> None:
    """Bring rows to what the book holds after these moves, recorded by the event of this version."""
    jobs = {move.job: book.running.jobs[move.job] for move in moves}
    if not jobs:
        return
    bids = {str(bid.sequence): bid for bid in _bids(book, [int(name) for name in jobs])}
    now = book.running.now
    future = Commitment.objects.filter(bid__in=[bid.pk for bid in bids.values()], end__gt=now)
    future.filter(start__gte=now).delete()
    future.update(end=now)
    rows: list[Commitment] = []
    for move in moves:
        if move.schedule is not None:
            rows += commitments(bids[move.job], book.layout.holdings(move.schedule.placements))
    Commitment.objects.bulk_create(rows)
    _queue(book, moves, bids)
    changed = [(bids[name], job) for name, job in jobs.items() if _differs(bids[name], job)]
    windows = [(bid, (job.start, job.completion)) for bid, job in changed]
    transitions.replan(windows, slot=moment.slot)
    note(changed, moment, version=version)


def _queue(book: LiveBook, moves: Sequence[Move], bids: Mapping[str, Bid]) -> None:
    """Write which chunks left queues and which joined them."""
    queues = book.running.queues
    if queues is None:
        return
    out = [bids[move.job] for move in moves if move.schedule is None]
    queue_rows.take_out(out, now=book.running.now)
    for move in moves:
        if move.schedule is not None:
            queue_rows.join(bids[move.job], move.schedule.chunks, queues, book.layout)


def commitments(bid: Bid, holdings: Sequence[Holding]) -> list[Commitment]:
    """Rows for what a bid holds, not stored yet."""
    return [
        Commitment(
            bid=bid,
            server_id=h.server_id,
            machine_type_id=h.machine_type_id,
            count=h.count,
            start=h.start,
            end=h.end,
        )
        for h in holdings
    ]


def note(changed: Sequence[tuple[Bid, Job]], moment: Moment, *, version: int) -> None:
    """Keep what was planned for these jobs from this event on."""
    PlanChange.objects.bulk_create(
        PlanChange(
            bid=bid,
            version=version,
            at=moment.wall,
            slot=moment.now,
            start=job.start,
            completion=job.completion,
        )
        for bid, job in changed
    )


def _differs(bid: Bid, job: Job) -> bool:
    """Whether the job's plan has another start or completion than the bid's row."""
    return (job.start, job.completion) != (bid.start_slot, bid.completion_slot)


def _bids(book: LiveBook, sequences: list[int]) -> list[Bid]:
    return list(Bid.objects.filter(market_id=book.market_id, sequence__in=sequences))
