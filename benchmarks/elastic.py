"""Duration of one OASiS decision at the paper's largest setting, and its growth with the size."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from scheduling.best_response.chunked import ChunkKernel
from scheduling.best_response.elastic.kernel import ElasticKernel, warm_up
from scheduling.book.ledger import Ledger
from scheduling.book.state import Book
from scheduling.model.bid import Bid
from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.types import Floats
from scheduling.model.utility import Constant, Sigmoid
from scheduling.policies.oasis import Oasis
from scheduling.pricing.price_function import reserve_prices

MEDIAN_MS, MAX_MS = 8.0, 30.0
"""Limits of the time of one decision at the paper's scale, on one core."""
GPU_SERVERS = ((1, 4, 61), (8, 32, 488), (16, 64, 732), (1, 16, 122), (2, 32, 244), (4, 64, 488))
"""GPUs, vCPUs and GB of EC2's P2 and G3 instances."""
CPU_SERVERS = ((2, 4), (4, 8), (8, 15), (16, 30), (36, 60))
"""vCPUs and GB of its C4 instances."""
POOL = ("gpu", "vcpu", "gb", "disk", "hundred_mbps")
FILLERS = 80
LEARNT = 64
"""Bids decided before the first that is timed: prices are learned from them."""
HEADER = f"{'T':>5} {'servers':>9} {'worker-slots':>14} {'median':>8} {'p90':>8} {'max':>8} {'admitted':>9} {'used':>6}"


@dataclass(frozen=True)
class Scale:
    """The size of a market and of its jobs."""

    slots: int = 300
    servers: int = 50
    """Number of servers in each pool."""
    wanted: tuple[int, int] = (500, 20_000)
    """Worker-slots of a job, drawn evenly in the logarithm."""
    chunks: int = 100
    """Workers at once."""
    epochs: int = 200
    full: float = 0.6
    """Share of the scarcest worker resource that earlier jobs hold."""


PAPER = Scale()
SMALL = Scale(slots=60, servers=10, wanted=(100, 500), chunks=10, epochs=20, full=0.3)
"""Small enough for the printed recursion."""


@dataclass(frozen=True)
class Measurement:
    """Measured times of decisions."""

    milliseconds: Floats
    """Time on the processor of each decision."""
    admitted: int
    full: float


def draw(scale: Scale, rng: np.random.Generator, jobs: int) -> tuple[Inventory, list[Bid]]:
    """Servers as in Section V of the paper, and jobs with a worker type and a PS type of their own."""
    gpu = [GPU_SERVERS[i] for i in rng.integers(0, len(GPU_SERVERS), scale.servers)]
    cpu = [CPU_SERVERS[i] for i in rng.integers(0, len(CPU_SERVERS), scale.servers)]
    rate = [int(x) for x in rng.integers(200, 501, 2 * scale.servers)]
    none = (0,) * len(POOL)
    rows = [(*row, 1000, rate[s], *none) for s, row in enumerate(gpu)]
    rows += [(*none, 0, *row, 500, rate[scale.servers + s]) for s, row in enumerate(cpu)]
    workers, pss = [], []
    for i in range(jobs):
        slow, fast = int(rng.integers(1, 51)), int(rng.integers(50, 201))
        workers.append(MachineType(f"w{i}", (int(rng.integers(0, 5)), *_sizes(rng), slow, *none), Fraction(slow)))
        pss.append(MachineType(f"p{i}", (*none, 0, *_sizes(rng), fast), Fraction(fast)))
    inventory = Inventory(
        resources=tuple(f"{pool}-{resource}" for pool in ("worker", "ps") for resource in POOL),
        servers=tuple(f"{pool}-{s}" for pool in ("worker", "ps") for s in range(scale.servers)),
        cloud=(False,) * (2 * scale.servers),
        capacity=np.array(rows, np.int64),
        workers=tuple(workers),
        parameter_servers=tuple(pss),
    )
    return inventory, [_bid(scale, rng, inventory, i, jobs) for i in range(jobs)]


def _sizes(rng: np.random.Generator) -> tuple[int, ...]:
    return tuple(int(rng.integers(low, high + 1)) for low, high in ((1, 10), (2, 32), (5, 10)))


def _bid(scale: Scale, rng: np.random.Generator, inventory: Inventory, i: int, jobs: int) -> Bid:
    """A job that can meet its target completion, constant, patient or urgent (gamma_2 as in the paper)."""
    wanted = int(np.exp(rng.uniform(*np.log(scale.wanted))))
    chunks = max(1, min(scale.chunks, wanted // 4))
    steps, updates = [Fraction(scale.slots + 1)] * jobs, [Fraction(scale.slots + 1)] * jobs
    steps[i], updates[i] = Fraction(wanted, scale.epochs * chunks), Fraction(0)
    urgency = float(rng.choice([0.0, rng.uniform(0.01, 1.0), rng.uniform(4.0, 6.0)]))
    target = wanted / chunks * rng.uniform(1.0, 3.0) + rng.uniform(1.0, 15.0)
    return Bid(
        id=str(i),
        arrival=0,
        epochs=scale.epochs,
        chunks=chunks,
        minibatches=1,
        worker_time=tuple(steps),
        ps_time=tuple(updates),
        transfer_time=(Fraction(0),) * jobs,
        delay=(0,) * len(inventory.servers),
        utility=Sigmoid(float(rng.uniform(1.0, 100.0)) * wanted / 1000, urgency, target),
    )


def filled(scale: Scale, inventory: Inventory, bids: list[Bid], rng: np.random.Generator) -> Ledger:
    """A ledger in which jobs that pay any price hold `full` of the scarcest worker resource, some of them later."""
    ledger = Ledger(inventory, start=0, slots=scale.slots)
    market = ElasticKernel(ledger, reserve_prices([1.0] * len(inventory.resources), [100.0] * len(inventory.resources)))
    for bid in bids:
        if use(ledger) < scale.full:
            rich = replace(bid, utility=Constant(1e12))
            response = market.best(rich, first_start=int(rng.integers(0, scale.slots)) // 2 * 2) or market.best(rich)
            if response is not None:
                ledger.commit(response.schedule)
    return ledger


def use(ledger: Ledger) -> float:
    """Share of the worker resource most in use, over all slots."""
    capacity = ledger.inventory.capacity.sum(axis=0)
    return float((ledger.used.mean(axis=0).sum(axis=0) / np.maximum(capacity, 1))[: len(POOL)].max())


def measure(scale: Scale, *, decisions: int, seed: int) -> Measurement:
    """Time `decisions` whole decisions: with counter-offer, commit, and the tables' refresh after the last one.

    Each job admitted is released again, so that all meet a cluster that is just as full.
    """
    rng = np.random.default_rng(seed)
    inventory, bids = draw(scale, rng, FILLERS + LEARNT + decisions)
    ledger = filled(scale, inventory, bids[:FILLERS], rng)
    # Reserve prices so low that many of the bids are admitted, which takes longer.
    policy, full, taken, admitted = Oasis(worker_reserve_factor=0.05, ps_reserve_factor=0.01), use(ledger), [], 0
    history = np.zeros((0, len(inventory.resources)))
    for i, bid in enumerate(bids[FILLERS:]):
        book = Book(now=0, ledger=ledger, history=history, decided=i)
        began = time.thread_time()
        decision = policy.decide(bid, book)
        if decision.schedule is not None:
            ledger.commit(decision.schedule)
        taken.append(1e3 * (time.thread_time() - began))
        history = np.concatenate([history, [decision.counted[0]]])
        if decision.schedule is not None:
            admitted += i >= LEARNT
            ledger.release(decision.schedule, from_slot=0)
    return Measurement(np.array(taken[LEARNT:]), admitted, full)


def table(*, decisions: int, quick: bool, seed: int) -> Iterator[str]:
    """One line a setting: those with a limit first, then cost against T, servers and worker-slots."""
    yield "one OASiS decision with counter-offer, commit and index refresh: ms of one core"
    yield HEADER
    for full in (0.3, 0.6, 0.85):
        scale = replace(PAPER, full=full)
        run = measure(scale, decisions=decisions, seed=seed)
        kept = np.median(run.milliseconds) <= MEDIAN_MS and run.milliseconds.max() <= MAX_MS
        yield f"{line_of(scale, run)}  median <= {MEDIAN_MS:g}, max <= {MAX_MS:g}: {'kept' if kept else 'BROKEN'}"
    scales = [replace(PAPER, slots=slots, wanted=(500, 5000)) for slots in ((100,) if quick else (100, 300, 1000))]
    scales += [replace(PAPER, servers=servers) for servers in ((100,) if quick else (25, 100, 200))]
    scales += [replace(PAPER, wanted=(w, w + 1)) for w in ((5000,) if quick else (500, 2000, 5000, 10_000, 20_000))]
    for scale in scales:
        yield line_of(scale, measure(scale, decisions=decisions // 2, seed=seed))


def line_of(scale: Scale, run: Measurement) -> str:
    """One row of the table."""
    times = (
        f"{np.median(run.milliseconds):8.1f} {np.quantile(run.milliseconds, 0.9):8.1f} {run.milliseconds.max():8.1f}"
    )
    size = f"{scale.slots:5d} {f'{scale.servers} + {scale.servers}':>9} {_between(scale.wanted):>14}"
    return f"{size} {times} {f'{run.admitted}/{len(run.milliseconds)}':>9} {run.full:6.0%}"


def _between(wanted: tuple[int, int]) -> str:
    return f"{wanted[0]}" if wanted[1] - wanted[0] < 2 else f"{wanted[0]}..{wanted[1]}"


def compare(*, decisions: int, quick: bool, seed: int) -> Iterator[str]:
    """One line a size: milliseconds of the kernel and of the printed recursion, and how often that earns less."""
    yield "best response against Algorithm 2 (whole chunks, only counts that can matter), same ledgers and prices"
    yield f"{'T':>5} {'servers':>9} {'N x E':>9} {'kernel ms':>10} {'printed ms':>11} {'ratio':>8} {'earns less':>11}"
    medium = replace(SMALL, slots=100, servers=25, chunks=30, epochs=60, wanted=(500, 2000))
    for scale in (SMALL, medium) if quick else (SMALL, medium, PAPER):
        ours, theirs, less = _race(scale, decisions=decisions, seed=seed)
        size = f"{scale.slots:5d} {f'{scale.servers} + {scale.servers}':>9} {f'{scale.chunks} x {scale.epochs}':>9}"
        yield f"{size} {ours:10.2f} {theirs:11.1f} {theirs / ours:7.0f}x {f'{less} of {decisions}':>11}"


def _race(scale: Scale, *, decisions: int, seed: int) -> tuple[float, float, int]:
    rng = np.random.default_rng(seed)
    inventory, bids = draw(scale, rng, FILLERS + decisions)
    ledger = filled(scale, inventory, bids[:FILLERS], rng)
    prices = reserve_prices([1e-4] * len(inventory.resources), [1e-2] * len(inventory.resources))
    exact, printed = ElasticKernel(ledger, prices), ChunkKernel(ledger, prices)
    ours, theirs, less = [], [], 0
    for bid in bids[FILLERS:]:
        began = time.thread_time()
        response = exact.best(bid)
        between = time.thread_time()
        other = printed.best(bid)
        theirs.append(1e3 * (time.thread_time() - between))
        ours.append(1e3 * (between - began))
        earned = 0.0 if other is None else other.payoff
        less += response is not None and earned < response.payoff - 1e-9 * response.value
    return float(np.median(ours)), float(np.median(theirs)), less


if __name__ == "__main__":
    warm_up()
    for line in table(decisions=60, quick=False, seed=1):
        print(line, flush=True)
    for line in compare(decisions=10, quick=False, seed=1):
        print(line, flush=True)
