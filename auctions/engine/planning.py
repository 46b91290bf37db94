"""Plan admitted jobs again and write the changes (moves) to rows under the market's lock."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from django.db.models import F, QuerySet

from auctions.domain import transitions
from auctions.domain.inventory_snapshot import Holding, InventorySnapshot
from auctions.domain.lock import MarketTime
from auctions.domain.policy_errors import PolicyFailed, policy_errors, store_error
from auctions.domain.transitions import Window
from auctions.models import Bid, Commitment, Event, Market, PlanChange
from auctions.state import queue_rows
from auctions.state.book import LiveBook
from scheduling.book.state import Cause, Job
from scheduling.model.decision import Move, canonical
from scheduling.model.errors import OutsideHorizon, OverCapacity
from scheduling.model.schedule import Schedule
from scheduling.model.types import Json
from scheduling.policies.preemptive import reforecast


@dataclass(frozen=True)
class Planned:
    """The result of planning again; it is in the book, but not yet in the rows."""

    moves: tuple[Move, ...]
    """New schedules of jobs from now on; they replace the earlier ones."""
    failed: PolicyFailed | None = None
    """Error of the policy if it failed to plan; all jobs then keep what they held."""

    def payload(self) -> Json:
        """Return what an event records of it."""
        return to_payload(self.moves) | ({"plan_failed": True} if self.failed else {})


NOTHING: Final = Planned(())
"""The result where no plan was made."""


def plan(book: LiveBook, cause: Cause) -> Planned:
    """Let the policy plan again. If it fails, all jobs keep what they hold."""
    before = book.running
    try:
        with policy_errors():
            moves = tuple(book.policy.plan(book.view(), cause))
            canonical(to_payload(moves))
            if moves:
                before = book.running.copy()
                book.running.apply(moves)
    except PolicyFailed as failed:
        # A copy, without caches that the policy may have left on the ledger, and without partly applied moves.
        book.running = before.copy()
        return unplanned(book, failed)
    return Planned(moves)


def unplanned(book: LiveBook, failed: PolicyFailed) -> Planned:
    """Return the result of a failed plan: only forecasts of queued jobs change, because earlier jobs have ended."""
    moves = reforecast(book.view())
    book.running.apply(moves)
    return Planned(moves, failed)


@dataclass(frozen=True)
class Rebased:
    """A book under another inventory, and what happened to the jobs in it."""

    book: LiveBook
    planned: Planned
    """New schedules of jobs, and whether planning failed."""
    failed: tuple[str, ...] = ()
    """Ids of bids, in order of admission, whose promise cannot be kept; their jobs are no longer in the book."""
    unkept: Mapping[str, PolicyFailed] = field(default_factory=dict)
    """Failed jobs on which the policy raised an error, with this error."""

    @property
    def moves(self) -> tuple[Move, ...]:
        """New schedules of jobs from now on; they replace the earlier ones."""
        return self.planned.moves


def keep_promise(book: LiveBook, job: Job) -> Schedule | None:
    """Return a schedule on other machines that keeps a job's promise; None if the policy in force offers none."""
    policy = book.policy
    able = policy.binding and job.bid.architecture in policy.architectures
    return policy.keep_promise(job, book.view()) if able else None


def rebased(
    book: LiveBook,
    snapshot: InventorySnapshot,
    offers: Mapping[str, Json],
    ask: Callable[[LiveBook, Cause], Planned] = plan,
    keep: Callable[[LiveBook, Job], Schedule | None] = keep_promise,
) -> Rebased:
    """Return the book under another inventory, with the moves of its jobs.

    A job that holds a server that is out of service from now on loses all its machines. If the job has a promise, the
    promise is kept with other machines where possible, so that the job is complete by the promised slot; otherwise
    the job fails. So does a job that was promised a slot of completion, if the policy finds no plan that keeps it. A
    job without a promise waits for a plan again and keeps its progress. Jobs without a promise that have not started
    wait for a plan again, too. The policy then plans these jobs again. If planning fails, jobs that have not started
    keep their plans where these are still feasible.

    `offers` holds the offers of the book's jobs, by the bid's id. `ask` lets the policy plan again, and `keep` lets it
    keep one promise.
    """
    running, now = book.running, book.running.now
    lost = [running.jobs[name] for name in hit(book, snapshot)]
    # A window may end later than the work (DPS does this): it holds machines that a complete job no longer needs.
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
    new = book.rebased(snapshot, offers)
    kept, failed, unkept = _keep(new, {job.bid.id: job.completion for job in broken}, keep)
    planned = ask(new, Cause.CHANGED)
    # Where planning failed nobody knows which slots cannot be kept: those jobs wait for the next plan.
    late = () if planned.failed else tuple(name for name, job in new.running.jobs.items() if _has_no_plan(job))
    for name in late:
        new.end(name)
    failed = tuple(name for name in book.running.jobs if name in {*failed, *late})
    stay = () if planned.failed is None else _stay(new, book.snapshot, [job for job in loose if job not in lost])
    again = {move.job for move in (*planned.moves, *stay)}
    back = tuple(move for move in back if move.job not in again and move.job not in late)
    moves = (*back, *done, *kept, *planned.moves, *stay)
    return Rebased(new, replace(planned, moves=moves), failed, unkept)


def _stay(book: LiveBook, old: InventorySnapshot, jobs: Sequence[Job]) -> tuple[Move, ...]:
    """Give jobs that have not started their old machines back, where the new inventory still allows it."""
    stay: list[Move] = []
    if (old.inventory.workers, old.inventory.parameter_servers) != (
        book.snapshot.inventory.workers,
        book.snapshot.inventory.parameter_servers,
    ):
        return ()
    for job in jobs:
        core = book.running.jobs[job.bid.id].bid
        placements = tuple(sorted(book.snapshot.placements(old.holdings(job.held))))
        uploaded = all(p.start >= core.arrival + core.delay[p.server] for p in placements)
        if job.start is None or job.completion is None or not uploaded or len(placements) < len(job.held):
            continue
        move = Move(job.bid.id, Schedule(job.start, job.completion, placements))
        with suppress(OverCapacity, OutsideHorizon):
            book.running.apply([move])
            stay.append(move)
    return tuple(stay)


def hit(book: LiveBook, snapshot: InventorySnapshot) -> list[str]:
    """Return jobs that hold, from now on, a server out of service in another inventory; in order of admission."""
    gone = {i for i, key in enumerate(book.snapshot.server_ids) if key in snapshot.out_ids}
    now, jobs = book.running.now, book.running.jobs
    return [name for name, job in jobs.items() if any(p.server in gone and p.end > now for p in job.held)]


def _has_no_plan(job: Job) -> bool:
    """Return whether a job was promised a slot of completion, and no plan keeps it."""
    return job.due is not None and not job.bound and job.completion is None


def _is_free(job: Job, now: int) -> bool:
    """Return whether a job may be planned again although its servers are in service: no promise, and not started."""
    return bool(job.held) and not job.bound and job.due is None and not job.started(now)


def _keep(
    book: LiveBook, promised: Mapping[str, int | None], keep: Callable[[LiveBook, Job], Schedule | None]
) -> tuple[tuple[Move, ...], tuple[str, ...], dict[str, PolicyFailed]]:
    """Keep promises one by one, in order of admission; end jobs for which that is impossible or the policy fails."""
    kept, failed, unkept = [], [], {}
    for name, completion in promised.items():
        schedule = None
        try:
            with policy_errors():
                schedule = keep(book, replace(book.running.jobs[name], completion=completion))
                if schedule is not None:
                    book.running.keep(Move(name, schedule))
        except PolicyFailed as error:
            schedule, unkept[name] = None, error
        if schedule is None:
            failed.append(name)
            book.end(name)
        else:
            kept.append(Move(name, schedule))
    return tuple(kept), tuple(failed), unkept


def offers_of(book: LiveBook) -> dict[str, Json]:
    """Return the offers of the book's jobs, by the bid's id."""
    found = _bids(book, book.running.jobs).values_list("sequence", "resolved_request")
    return {str(number): offer for number, offer in found}


def to_payload(moves: Sequence[Move]) -> Json:
    """Return what an event records of moves; empty if there are none."""
    return {"moves": [move.to_json() for move in moves]} if moves else {}


def write(book: LiveBook, moves: Sequence[Move], moment: MarketTime, *, version: int) -> None:
    """Update rows to what these moves say, which the event of this version records.

    The book may be ahead: in a turn of standing bids an admission may move jobs that an earlier one moved.
    """
    if not moves:
        return
    # Documents are left out: a decision may move hundreds of jobs.
    columns = ("market_id", "sequence", "state", "start_slot", "completion_slot")
    bids = {str(bid.sequence): bid for bid in _bids(book, [move.job for move in moves]).only(*columns)}
    now = book.running.now
    future = Commitment.objects.filter(bid__in=[bid.pk for bid in bids.values()], end__gt=now)
    future.filter(start__gte=now).delete()
    future.update(end=now)
    rows: list[Commitment] = []
    for move in moves:
        if move.schedule is not None:
            rows += commitments(bids[move.job], book.snapshot.holdings(move.schedule.placements))
    Commitment.objects.bulk_create(rows)
    _queue(book, moves, bids)
    windows = [(bids[move.job], _window(bids[move.job], move, now=now)) for move in moves]
    changed = [(bid, window) for bid, window in windows if window != (bid.start_slot, bid.completion_slot)]
    placed = [move.job for move in moves if move.schedule is not None and move.schedule.placements]
    kept = [bids[name].pk for name in placed if book.running.jobs[name].bound]
    Bid.objects.filter(pk__in=kept, kept_from=None).update(kept_from=now)
    transitions.replan(changed, slot=moment.slot)
    note(changed, moment, version=version)


def _queue(book: LiveBook, moves: Sequence[Move], bids: Mapping[str, Bid]) -> None:
    """Write which chunks left the workers' queues and which joined them."""
    queues = book.running.queues
    if queues is None:
        return
    out = [bids[move.job] for move in moves if move.schedule is None]
    queue_rows.take_out(out, now=book.running.now)
    for move in moves:
        if move.schedule is not None:
            queue_rows.join(bids[move.job], move.schedule.chunks, queues, book.snapshot)


def note_failure(
    market: Market,
    book: LiveBook,
    planned: Planned,
    event: Event,
    moment: MarketTime,
    *,
    others: Iterable[PolicyFailed | None] = (),
) -> None:
    """Record for operators whether the policy failed at this event, in planning or elsewhere.

    The caller holds the market's lock and saves its counters. One error is kept for each event: the plan's, or else
    the first of the others.
    """
    market.planning_failed = planned.failed is not None
    failed = next((error for error in (planned.failed, *others) if error is not None), None)
    if failed is not None:
        store_error(failed, event, moment, policy_id=book.policy_id)


def commitments(bid: Bid, holdings: Sequence[Holding]) -> list[Commitment]:
    """Return unsaved rows for what a bid holds."""
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
    """Free, in the rows, what an ended job holds from now on."""
    held = Commitment.objects.filter(bid=bid, end__gt=now)
    held.filter(start__gte=now).update(end=F("start"))
    held.filter(start__lt=now).update(end=now)
    queue_rows.take_out([bid], now=now)


def note(changed: Sequence[tuple[Bid, Window]], moment: MarketTime, *, version: int) -> None:
    """Store the plans of these jobs, valid from this event on."""
    PlanChange.objects.bulk_create(
        PlanChange(
            bid=bid,
            version=version,
            at=moment.wall,
            slot=moment.now,
            start=start,
            completion=completion,
        )
        for bid, (start, completion) in changed
    )


def _window(bid: Bid, move: Move, *, now: int) -> Window:
    """Return start and completion of a job after a move at slot `now`; the bid's row has those before it."""
    schedule, began = move.schedule, bid.start_slot is not None and bid.start_slot < now
    if schedule is None:
        return (bid.start_slot if began else None), None
    return (bid.start_slot if began and schedule.placements else schedule.start), schedule.completion


def _bids(book: LiveBook, names: Iterable[str]) -> QuerySet[Bid]:
    return Bid.objects.filter(market_id=book.market_id, sequence__in=[int(name) for name in names])
