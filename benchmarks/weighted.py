"""Duration of weighted completion: one job, one replanning of all waiting jobs, a whole run; and its growth."""

import gc
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from scheduling.batch.consumption import ConsumptionPrice, consumption_price, consumptions
from scheduling.batch.maxweight import pack
from scheduling.batch.planner import plan_batch
from scheduling.book.ledger import Ledger
from scheduling.book.running import RunningBook
from scheduling.book.state import Cause, Job
from scheduling.model.bid import Architecture, Bid
from scheduling.policies.simulation import Simulation
from scheduling.policies.weighted_completion import WeightedCompletion, doubling
from studies.workloads.generated.weighted_completion import Setting, draw
from tests.scheduling.twins import planner_slow

MEDIAN_MS = {Architecture.PS: 12.0, Architecture.RING: 10.0}
P95_MS = 50.0
OVER_SLOTS = {150: 15.0, 50: 20.0, 1: 50.0}
"""Slots over which the jobs of a run arrive, each with the limit of any replanning, ms."""
CROWDED_MS = 150.0
"""Limit of one replanning with `CROWD` jobs waiting."""
CROWD = 200
RUN_SECONDS = 2.0
LAMBDA = 10.0
HORIZON = 300
HEADER = f"{'median':>8} {'p95':>8} {'max':>8}"
SMALL = Setting(jobs=12, servers=8, slots=1, workers=3, parameter_servers=3)
"""Small enough for best responses one by one."""


@dataclass(frozen=True)
class Sample:
    """Milliseconds of one core of whatever was timed."""

    times: Sequence[float]

    def quantile(self, share: float) -> float:
        """Milliseconds that this share stayed within."""
        return float(np.quantile(self.times, share))

    def __str__(self) -> str:
        return " ".join(f"{self.quantile(share):8.1f}" for share in (0.5, 0.95, 1.0))


def tables(*, quick: bool, seed: int) -> Iterator[str]:
    """All of it, line by line."""
    for architecture in Architecture:
        # What was loaded and compiled before is not this program's garbage: the collector need not look at it again.
        gc.collect()
        gc.freeze()
        yield from single_table(architecture, sample=20 if quick else 100, seed=seed)
        yield from run_table(architecture, seed=seed)
        yield from event_table(architecture, quick=quick, seed=seed)
        yield from twin_table(architecture, seed=seed)
    gc.unfreeze()


def single_table(architecture: Architecture, *, sample: int, seed: int) -> Iterator[str]:
    """One call of A_maxweight for one job, with commit and refresh, at no price and at the price (11)."""
    yield f"\none job by A_maxweight, {architecture}: ms of one core, horizon {HORIZON}, commit and refresh included"
    yield f"{'servers':>8} {'lambda':>7} {'held jobs':>10} {HEADER} {'placed':>9} {'used':>6}"
    for lambda_ in (1.0, LAMBDA):
        for filled in (0, 100):
            taken, placed, used = _single(architecture, lambda_, filled=filled, sample=sample, seed=seed)
            kept = taken.quantile(0.5) <= MEDIAN_MS[architecture] and taken.quantile(0.95) <= P95_MS
            yield (
                f"{150:8d} {lambda_:7g} {filled:10d} {taken} {placed:5d}/{sample} {used:6.0%}"
                f"  median <= {MEDIAN_MS[architecture]:g}, p95 <= {P95_MS:g}: {_verdict(kept)}"
            )


def _single(
    architecture: Architecture, lambda_: float, *, filled: int, sample: int, seed: int
) -> tuple[Sample, int, float]:
    load = draw(_setting(architecture, jobs=filled + sample + 1), np.random.default_rng(seed))
    ledger = Ledger(load.inventory, start=0, slots=HORIZON)
    bids = [replace(bid, arrival=0) for bid in load.bids]
    for schedule in plan_batch(bids[1 : filled + 1], ledger, doubling(0, HORIZON)).values():
        ledger.commit(schedule)
    prices = _prices(lambda_, bids, ledger)
    _place(bids[0], ledger, prices)
    taken, placed = [], 0
    for bid in bids[filled + 1 :]:
        began = time.thread_time()
        placed += _place(bid, ledger, prices)
        taken.append(1e3 * (time.thread_time() - began))
    return Sample(taken), placed, _used(ledger)


def _place(bid: Bid, ledger: Ledger, prices: ConsumptionPrice) -> bool:
    schedule = pack([bid], ledger, prices, [(ledger.start, ledger.end)]).get(bid.id)
    if schedule is not None:
        ledger.commit(schedule)
    return schedule is not None


def _prices(lambda_: float, bids: Sequence[Bid], ledger: Ledger) -> ConsumptionPrice:
    known = consumptions(bids, ledger)
    return consumption_price(lambda_, ((bid.utility.value, known[bid.id]) for bid in bids), ledger.inventory)


def run_table(architecture: Architecture, *, seed: int) -> Iterator[str]:
    """Runs of 100 jobs that arrive over some slots: decisions, replannings, and the whole."""
    for slots, limit_ms in OVER_SLOTS.items():
        load = draw(replace(_setting(architecture, jobs=100), slots=slots), np.random.default_rng(seed))
        run = Simulation(WeightedCompletion(), RunningBook(Ledger(load.inventory, start=0, slots=HORIZON)))
        decided, events, most = [], [], 0
        began = time.thread_time()
        for bid in load.bids:
            events += _advance(run, bid.arrival)
            start = time.thread_time()
            run.arrive(bid)
            decided.append(1e3 * (time.thread_time() - start))
            most = max(most, _waiting(run.book))
        while run.book.jobs and run.book.now < 20 * HORIZON:
            events += _advance(run, run.book.now + 1)
        total = time.thread_time() - began
        yield f"\n100 jobs over {slots} slots, {architecture}, at most {most} in line: ms of one core"
        yield f"{'':>40} {HEADER}"
        for name, taken in (("a decision, others planned again", decided), ("a slot passing while jobs wait", events)):
            yield f"{name:>40} {Sample(taken)}  max <= {limit_ms:g}: {_verdict(max(taken, default=0.0) <= limit_ms)}"
        limit = f"<= {1e3 * RUN_SECONDS:g}: {_verdict(total <= RUN_SECONDS)}  " if slots == max(OVER_SLOTS) else ""
        yield f"{'the whole run':>40} {1e3 * total:8.0f}  {limit}{len(run.done)} jobs complete"


def _advance(run: Simulation, until: int) -> list[float]:
    """Milliseconds of every slot that passes while jobs wait."""
    taken = []
    while run.book.now < until:
        waiting = _waiting(run.book) > 0
        start = time.thread_time()
        run.advance(run.book.now + 1)
        if waiting:
            taken.append(1e3 * (time.thread_time() - start))
    return taken


def event_table(architecture: Architecture, *, quick: bool, seed: int) -> Iterator[str]:
    """One replanning of all that wait over all that runs, and its growth."""
    yield f"\nreplanning all that wait, {architecture}: ms of one core, moves included"
    yield f"{'T':>5} {'servers':>8} {'waiting':>8} {'running':>8} {HEADER}"
    sizes = [(HORIZON, 150, waiting) for waiting in ((CROWD,) if quick else (10, 50, 100, CROWD, 2 * CROWD))]
    if not quick:
        sizes += [(slots, 150, 100) for slots in (75, 150, 600)]
        sizes += [(HORIZON, servers, 100) for servers in (50, 300)]
    for slots, servers, waiting in sizes:
        taken, running = _events(architecture, slots=slots, servers=servers, waiting=waiting, seed=seed)
        line = f"{slots:5d} {servers:8d} {waiting:8d} {running:8d} {taken}"
        if (slots, servers, waiting) == (HORIZON, 150, CROWD):
            line += f"  max <= {CROWDED_MS:g}: {_verdict(taken.quantile(1.0) <= CROWDED_MS)}"
        yield line


def _events(architecture: Architecture, *, slots: int, servers: int, waiting: int, seed: int) -> tuple[Sample, int]:
    """Ten times a job that runs ends, and all that wait are planned again."""
    load = draw(_setting(architecture, jobs=2 * waiting + 400, servers=servers), np.random.default_rng(seed))
    book = RunningBook(Ledger(load.inventory, start=0, slots=slots))
    policy = WeightedCompletion()
    bids = iter(load.bids)
    while coming := list(islice(bids, min(20, waiting - _waiting(book)))):
        for bid in coming:
            book.jobs[bid.id] = Job(replace(bid, arrival=book.now), held=(), completion=None)
        book.advance(book.now + 1)
        book.apply(policy.plan(book.view(), Cause.ENDED))
    running = len(book.jobs) - _waiting(book)
    taken = []
    for _ in range(10):
        book.end(next(job.bid.id for job in book.jobs.values() if not _in_line(job, book.now)))
        start = time.thread_time()
        book.apply(policy.plan(book.view(), Cause.ENDED))
        taken.append(1e3 * (time.thread_time() - start))
    return Sample(taken), running


def _waiting(book: RunningBook) -> int:
    return sum(_in_line(job, book.now) for job in book.jobs.values())


def _in_line(job: Job, now: int) -> bool:
    return not job.held or job.held[0].start > now


def twin_table(architecture: Architecture, *, seed: int) -> Iterator[str]:
    """The batch planner against best responses one by one, on a case small enough for them."""
    load = draw(replace(SMALL, architecture=architecture), np.random.default_rng(seed))
    ledger = Ledger(load.inventory, start=0, slots=60)
    windows = list(doubling(0, 60))
    plan_batch(load.bids, ledger, windows)
    times, answers = [], []
    for planner in (plan_batch, planner_slow.plan_batch):
        start = time.thread_time()
        answers.append(planner(load.bids, ledger, windows))
        times.append(1e3 * (time.thread_time() - start))
    same = "the same schedules" if answers[0] == answers[1] else "DIFFERENT schedules"
    ratio = f"{times[1]:.1f} ms ({times[1] / times[0]:.0f}x), {same}"
    size = f"{SMALL.jobs} jobs on {SMALL.servers} servers, {architecture}"
    yield f"\na batch of {size}: {times[0]:.2f} ms; best responses one by one {ratio}"


def _setting(architecture: Architecture, *, jobs: int, servers: int = 150) -> Setting:
    """The paper's cluster for 100 jobs, whatever the number that come."""
    return Setting(jobs=jobs, servers=servers, slots=1, architecture=architecture, share=(20 / jobs, 50 / jobs))


def _used(ledger: Ledger) -> float:
    return float((ledger.used.sum(axis=(0, 1)) / (ledger.inventory.capacity.sum(axis=0) * HORIZON)).max())


def _verdict(kept: bool) -> str:
    return "kept" if kept else "BROKEN"


if __name__ == "__main__":
    for line in tables(quick=False, seed=1):
        print(line, flush=True)
