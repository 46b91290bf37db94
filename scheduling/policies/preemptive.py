"""Preemptive scheduling over edge and cloud: chunks in workers' queues, highest average processing rate first."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from scheduling.book.state import Book, Cause, Job
from scheduling.model.bid import Bid
from scheduling.model.decision import Decision, Move, Reason
from scheduling.model.errors import InvalidField
from scheduling.model.inventory import Inventory
from scheduling.model.parameters import parameter
from scheduling.model.schedule import CLOUD, Schedule
from scheduling.model.types import Floats
from scheduling.policies.base import Objective, PolicyBase, greatest_value, value_with
from scheduling.preemptive.dispatch import Dispatch, dispatch
from scheduling.preemptive.queues import Queues
from scheduling.preemptive.record import Window
from scheduling.preemptive.storage import fits
from scheduling.preemptive.workers import LATEST, Task, machines

FURTHEST = LATEST // 2
"""Largest time that a job may need on one worker, ticks; more would overflow together with other jobs."""
MOST_WORKERS = 1_000_000
"""Largest number of workers at the edge: each takes some 250 bytes in every book."""
_NO_WORKER = "No server has a worker and a parameter server of types that could process one of its chunks in {} slots."
_NO_STORAGE = "Even empty, the servers whose workers could process its chunks have no storage for all of them."
Placed = dict[str, Dispatch]
"""The dispatch of each job whose chunks join queues now, by bid id."""


@dataclass(frozen=True)
class Preemptive(PolicyBase):
    """A_online: each chunk is sent once, to a worker where it ends soon and delays others little (eq. 5).

    Execution is exact in continuous time. The work between events is deterministic, so every completion is a forecast
    that holds until the next arrival, end or change of servers. docs/algorithms/preemptive.md lists the deviations from
    the paper and their reasons.
    """

    cloud: str = parameter(
        "marginal",
        "Edge or cloud: marginal chooses what adds least to the times of all jobs, with a price for the edge's work; "
        "jobmax compares when the whole job would end and what it would delay; paper lets the first "
        "chunk decide (Algorithm 2); cloud sends every job to the cloud, edge none.",
        choices=("marginal", "jobmax", "paper", "cloud", "edge"),
        absent="jobmax",
    )
    ageing: float = parameter(
        0.0,
        "A job is passed by shorter ones only if they come soon: less than its own chunks x slots a chunk, divided by "
        "this, after it. 0: by all of them (as in the paper).",
        low=0,
        high=1000,
    )

    storage: str = parameter(
        "ignored",
        "limited: chunks only go where the server has storage for them, which they take until their job is complete "
        "(Section VI); ignored: what servers can store does not matter.",
        choices=("ignored", "limited"),
    )
    only_with_ps: bool = parameter(
        True,
        "After servers lost parameter servers, jobs that would run without one go back in line, those of the greatest "
        "ranks. Without this they go on without one.",
        absent=False,
    )

    name = "preemptive"
    title = "Preemptive: short jobs pass long ones on every worker, edge or cloud, nobody pays"
    objective = Objective.COMPLETION
    queues = True

    def decide(self, bid: Bid, book: Book) -> Decision:
        """Send the job's chunks to queues, or let it wait in line while no parameter server is free; never reject for
        a price."""
        queues = _queues(book)
        if not self._can_run(bid, queues, book):
            return _impossible(bid, book, why=_NO_WORKER.format(book.ledger.end - book.now))
        if not self._can_be_stored(bid, queues):
            return _impossible(bid, book, why=_NO_STORAGE)
        placed = self._dispatch([bid], queues)
        mine = _schedule(queues.windows()[bid.id], placed[bid.id], queues) if bid.id in placed else None
        moves = _moves(book.jobs, queues, placed)
        return Decision.admit(
            bid.id,
            mine,
            self._explain(mine, bid, later=len(moves)),
            slot=book.now,
            value=value_with(bid, mine),
            standalone_value=greatest_value(bid),
            density=(0.0,) * len(book.inventory.resources),
            moves=moves,
        )

    def plan(self, book: Book, cause: Cause) -> tuple[Move, ...]:
        """Dispatch waiting chunks, with the ranks their jobs had, and return the jobs whose forecast changed."""
        queues = _queues(book)
        waiting = [job.bid for job in book.jobs if not job.held and queues.waiting(job.bid)]
        if not waiting and cause is Cause.SLOT:
            return ()
        return _moves(book.jobs, queues, self._dispatch(waiting, queues))

    def prices(self, book: Book) -> Floats:
        """Return the congestion of each server's workers, T x S x R: the cost of delaying all waiting chunks by one
        slot.

        This is the dual variable beta of the paper: the sum of 1 / D over incomplete chunks, averaged over the workers
        of the type that demands the resource, in jobs (not money) per slot.
        """
        ledger = book.ledger
        prices = np.zeros(ledger.used.shape)
        if book.queues is not None:
            of_types = book.queues.congestion(len(ledger.used))
            for m, machine in enumerate(book.inventory.workers):
                for r in np.flatnonzero(machine.demand):
                    prices[:, :, r] += of_types[:, :, m] / machine.demand[r]
        return prices

    def check(self, inventory: Inventory) -> None:
        """Check that only one machine type demands each resource, and that there are not too many workers at the edge:
        they are counted one by one."""
        demands = np.vstack([inventory.worker_demand, inventory.ps_demand])
        shared = np.flatnonzero((demands > 0).sum(axis=0) > 1)
        if len(shared):
            names = ", ".join(inventory.resources[r] for r in shared)
            raise InvalidField(
                "resources", f"expected a resource for each machine type, got {names}, which several types use"
            )
        edge = ~np.array(inventory.cloud, dtype=np.bool_)
        workers = machines(inventory.capacity, inventory.worker_demand)[edge].sum(axis=0).tolist()
        if sum(workers) > MOST_WORKERS:
            got = ", ".join(f"{n:,} {machine.name}" for n, machine in zip(workers, inventory.workers, strict=True) if n)
            raise InvalidField(
                "capacity", f"expected at most {MOST_WORKERS:,} workers on all servers of the edge, got {got}"
            )

    def _can_run(self, bid: Bid, queues: Queues, book: Book) -> bool:
        """Whether a worker that the rule allows could process one of the job's chunks within the horizon."""
        task = queues.task(bid, self._handicap(bid, queues))
        if task is None or task.each > (book.ledger.end - book.now) * queues.ticks or bid.chunks * task.each > FURTHEST:
            return False
        hosts = np.flatnonzero(queues.workers.count[:, task.worker]).tolist()
        return any(not book.inventory.cloud[s] or self._fits_cloud(bid, queues, s, task) for s in hosts)

    def _can_be_stored(self, bid: Bid, queues: Queues) -> bool:
        """Whether all chunks of the job could be stored if no other chunks were stored."""
        task = queues.task(bid, self._handicap(bid, queues))
        if task is None or self.storage == "ignored":
            return True
        inventory = queues.workers.inventory
        hosts = np.flatnonzero(queues.workers.count[:, task.worker]).tolist()
        edge = [s for s in hosts if not inventory.cloud[s]]
        clouds = [s for s in hosts if inventory.cloud[s] and self._fits_cloud(bid, queues, s, task)]
        return fits(inventory, bid.chunk_size, bid.chunks, edge=edge, clouds=clouds)

    def _explain(self, mine: Schedule | None, bid: Bid, *, later: int) -> str:
        if mine is None:
            stored = self.storage == "limited" and bid.chunk_size > 0
            wanted = "a worker, storage and a parameter server" if stored else "a worker and a parameter server"
            return f"Admitted: it is in line until {wanted} for it are free. Nobody pays here."
        others = (
            "" if not later else " One job is delayed by it." if later == 1 else f" {later} jobs are delayed by it."
        )
        return (
            f"Admitted: its {bid.chunks} chunks go to {_where(mine)}. If no shorter job comes, the first is begun in "
            f"slot {mine.start} and the last is complete by slot {mine.completion}.{others} Nobody pays here."
        )

    def _fits_cloud(self, bid: Bid, queues: Queues, server: int, task: Task) -> bool:
        return self.cloud != "edge" and bool(queues.workers.count[server, task.worker] >= bid.chunks)

    def _dispatch(self, bids: Iterable[Bid], queues: Queues) -> Placed:
        """Push the waiting chunks of jobs to queues, in order of rank; return where they went."""
        placed: Placed = {}
        able = (bid for bid in bids if queues.has_ps(bid))  # of thousands in line perhaps none
        for bid in sorted(able, key=lambda bid: queues.rank(bid, self._handicap(bid, queues))):
            handicap = self._handicap(bid, queues)
            task = queues.task(bid, handicap)
            if task is None or not queues.has_ps(bid) or not queues.can_count(bid, task):
                continue
            room = queues.room(bid) if self.storage == "limited" else None
            count = queues.waiting(bid)
            found = dispatch(bid, queues, rule=self.cloud, count=count, room=room, handicap=handicap)
            if found is None:
                queues.take(bid.id)  # all or nothing: a job that cannot complete would delay others
            else:
                found.send(bid, queues)
                placed[bid.id] = found
        while self.only_with_ps and (without := queues.without_ps()):
            for name in without:
                queues.take(name)
                placed.pop(name, None)
        return placed

    def _handicap(self, bid: Bid, queues: Queues) -> int:
        """Return the rank added for late arrival: D p0 + ageing x arrival gives the same order as D p0 - ageing x
        waiting time."""
        return min(LATEST, int(self.ageing * bid.arrival * queues.ticks))


def reforecast(book: Book) -> tuple[Move, ...]:
    """Return moves for jobs whose forecast changed, without dispatching: the result of the queues alone."""
    if book.queues is None:
        return ()
    return _moves(book.jobs, _queues(book), {})


def _queues(book: Book) -> Queues:
    """Return a copy of the book's queues that may be changed."""
    return Queues(book.inventory, now=book.now) if book.queues is None else book.queues.copy()


def _slots(window: Window, queues: Queues) -> tuple[int, int]:
    """Return start and completion in slots: the start is rounded down, the completion up."""
    return window.start // queues.ticks, -(-window.completion // queues.ticks)


def _schedule(window: Window, sent: Dispatch | None, queues: Queues) -> Schedule:
    start, completion = _slots(window, queues)
    if sent is None:
        return Schedule(start, completion, placements=())
    return Schedule(start, completion, placements=(), chunks=sent.chunks(queues), handicap=sent.handicap)


def _moves(jobs: Iterable[Job], queues: Queues, placed: Placed) -> tuple[Move, ...]:
    """Return moves: first jobs that go back in line, then jobs dispatched or with a new forecast, in queue-joining
    order.

    All jobs without waiting chunks have a forecast; most are as they were, so a schedule is made only of the others.
    """
    known, windows = {job.bid.id: job for job in jobs if not job.held}, queues.windows()
    back = [name for name, job in known.items() if job.completion is not None and name not in windows]
    moved = [
        name
        for name, window in windows.items()
        if (job := known.get(name)) and (name in placed or (job.start, job.completion) != _slots(window, queues))
    ]
    return (
        *(Move(name, None) for name in back),
        *(Move(name, _schedule(windows[name], placed.get(name), queues)) for name in moved),
    )


def _where(mine: Schedule) -> str:
    edge = sum(c.index != CLOUD for c in mine.chunks)
    in_cloud = sum(c.count for c in mine.chunks if c.index == CLOUD)
    parts = [f"{edge} worker{'s' * (edge > 1)} at the edge"] * (edge > 0) + ["the cloud"] * (in_cloud > 0)
    return " and ".join(parts)


def _impossible(bid: Bid, book: Book, *, why: str) -> Decision:
    offered = (0.0,) * len(book.inventory.resources)
    return Decision.reject(bid.id, Reason.IMPOSSIBLE, why, slot=book.now, density=offered)
