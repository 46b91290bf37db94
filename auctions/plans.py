"""What a policy's plan changes for admitted jobs, written to rows under the market's lock."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from django.db.models import F

from auctions import queue_rows, transitions
from auctions.book import LiveBook
from auctions.layout import Holding, Layout
from auctions.lock import Moment
from auctions.models import Bid, Commitment, PlanChange
from scheduling.arrays import Json
from scheduling.decision import Move
from scheduling.policy import Cause, Job
from scheduling.schedule import Schedule


def plan(book: LiveBook, cause: Cause) -> tuple[Move, ...]:
    """Let the policy look at its plan again; the book then holds what it answered, the rows do not yet."""
    moves = book.policy.plan(book.view(), cause)
    book.running.apply(moves)
    return moves


@dataclass(frozen=True)
class Relaid:
    """A book under another inventory, and what came of the jobs in it."""

    book: LiveBook
    moves: tuple[Move, ...]
    """What jobs hold from now on instead of what they held."""
    failed: tuple[str, ...] = ()
    """Jobs (by the bid's id, in order of admission) whose promise cannot be kept; they are no longer in the book."""


def keep_promise(book: LiveBook, job: Job) -> Schedule | None:
    """How a promise is kept with other machines than it had, if the policy in force makes promises and finds a way."""
    policy = book.policy
    able = policy.binding and job.bid.architecture in policy.architectures
    return policy.keep_promise(job, book.view()) if able else None


def laid_anew(
    book: LiveBook,
    layout: Layout,
    offers: Mapping[str, Json],
    ask: Callable[[LiveBook, Cause], tuple[Move, ...]] = plan,
    keep: Callable[[LiveBook, Job], Schedule | None] = keep_promise,
) -> Relaid:
    """The book under another inventory, and what moves.

    Jobs that hold a server that is out of service from now on lose all their machines. A promise is kept with others
    if it can be, so that the job is complete by the slot promised, else it fails. A job that was promised nothing goes
    back in line with what it has done, and so do jobs that have not started: the policy plans them again.

    `offers` are those of the book's jobs, by the bid's id; `ask` lets the policy look at its plan again, and `keep` at
    one promise.
    """
    running, now = book.running, book.running.now
    lost = [running.jobs[name] for name in hit(book, layout)]
    # Windows that end later than the work, as of DPS, hold machines that a complete job no longer needs.
    over = [job for job in lost if job.completion is not None and job.completion <= now]
    broken = [job for job in lost if job not in over and (job.bound or book.policy.binding)]
    done = tuple(Move(job.bid.id, Schedule(job.start or now, job.completion or now, ())) for job in over)
    for move in done:
        running.keep(move)
    for job in broken:
        running.lose(job.bid.id)
    loose = [job for job in lost if job not in over and job not in broken]
    if not book.policy.binding:
        loose += [job for job in book.view().jobs if job not in loose and _is_free(job, now)]
    back = tuple(Move(job.bid.id, None) for job in loose if job.completion is not None)
    running.apply(back)
    new = book.relaid(layout, offers)
    kept, failed = _keep(new, {job.bid.id: job.completion for job in broken}, keep)
    planned = ask(new, Cause.CHANGED)
    again = {move.job for move in planned}
    moves = (*(move for move in back if move.job not in again), *done, *kept, *planned)
    return Relaid(new, moves, failed)


def hit(book: LiveBook, layout: Layout) -> list[str]:
    """Jobs that hold, from now on, a server that is out of service under another inventory; in order of admission."""
    gone = {i for i, key in enumerate(book.layout.server_ids) if key in layout.out_ids}
    now, jobs = book.running.now, book.running.jobs
    return [name for name, job in jobs.items() if any(p.server in gone and p.end > now for p in job.held)]


def _is_free(job: Job, now: int) -> bool:
    """Whether it may be planned anew wherever it is: it was promised nothing and has not started."""
    return bool(job.held) and not job.bound and not job.started(now)


def _keep(
    book: LiveBook, promised: Mapping[str, int | None], keep: Callable[[LiveBook, Job], Schedule | None]
) -> tuple[tuple[Move, ...], tuple[str, ...]]:
    """Keep promises one by one, in order of admission, and end the jobs for which that cannot be."""
    kept, failed = [], []
    for name, completion in promised.items():
        schedule = keep(book, replace(book.running.jobs[name], completion=completion))
        if schedule is None:
            failed.append(name)
            book.end(name)
        else:
            kept.append(Move(name, schedule))
            book.running.keep(kept[-1])
    return tuple(kept), tuple(failed)


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
    placed = [move.job for move in moves if move.schedule is not None and move.schedule.placements]
    kept = [bids[name].pk for name in placed if jobs[name].bound]
    Bid.objects.filter(pk__in=kept, kept_from=None).update(kept_from=now)
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


def cut(bid: Bid, *, now: int) -> None:
    """Free, in rows, what a job that has ended holds from now on."""
    held = Commitment.objects.filter(bid=bid, end__gt=now)
    held.filter(start__gte=now).update(end=F("start"))
    held.filter(start__lt=now).update(end=now)
    queue_rows.take_out([bid], now=now)


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
