"""Duration of preemptive scheduling: one dispatch with its push, forecasts of all jobs, and growth with the size."""

import gc
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from benchmarks.weighted import Sample
from scheduling.instances.answer_preemptive import run
from scheduling.instances.preemptive import read_preemptive
from scheduling.model.bid import Bid
from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.utility import Constant
from scheduling.preemptive.dispatch import dispatch
from scheduling.preemptive.queues import Queues
from scheduling.preemptive.warming import warm_up
from tests.scheduling.twins.preemptive_exact import simulate

MEAN_MS, P99_MS, LARGE_P50_MS, CROWDED_MS = 0.1, 1.0, 0.5, 5.0
TYPES = 3


@dataclass(frozen=True)
class Scale:
    """Numbers of edge workers, servers and jobs; jobs arrive a mean of `gap` slots apart."""

    workers: int
    servers: int
    jobs: int
    gap: float
    rule: str = "marginal"


PAPER = Scale(workers=554, servers=100, jobs=300, gap=0.8)
LARGE = Scale(workers=5000, servers=900, jobs=300, gap=0.1)
CROWDED = Scale(workers=554, servers=100, jobs=800, gap=0.0, rule="edge")
"""All at once and none to the cloud: more than 10,000 blocks wait in queues."""


@dataclass(frozen=True)
class Timed:
    """Milliseconds of every dispatch, and of every forecast of all jobs; the most blocks that waited."""

    dispatch: Sample
    forecast: Sample
    blocks: int


def tables(*, quick: bool, seed: int) -> Iterator[str]:
    """All of it, line by line."""
    yield "one dispatch by marginal with its push: ms of one core; and a forecast of every job in queues"
    yield (
        f"{'workers':>8} {'jobs':>6} {'blocks':>7} {'mean':>8} {'p50':>8} {'p99':>8} {'max':>8}"
        f" {'forecast p50':>13} {'max':>8}"
    )
    warm_up()
    gc.collect()
    gc.freeze()
    for scale, limits in ((PAPER, (MEAN_MS, None, P99_MS, None)), (LARGE, (None, LARGE_P50_MS, None, None))):
        yield _line(scale, measure(scale, seed=seed), *limits)
    if not quick:
        yield _line(CROWDED, measure(CROWDED, seed=seed), None, None, None, CROWDED_MS)
        for workers in (100, 200, 1000, 2000):
            scale = Scale(workers, workers // 6, PAPER.jobs, PAPER.gap * PAPER.workers / workers)
            yield _line(scale, measure(scale, seed=seed), None, None, None, None)
    gc.unfreeze()
    yield from twin_table(seed=seed)


def _line(
    scale: Scale, timed: Timed, mean: float | None, p50: float | None, p99: float | None, most: float | None
) -> str:
    times = np.array(timed.dispatch.times)
    found = {"mean": times.mean(), "p50": np.median(times), "p99": np.quantile(times, 0.99), "max": times.max()}
    limits = {"mean": mean, "p50": p50, "p99": p99, "max": most}
    said = [f"{name} <= {limit:g}" for name, limit in limits.items() if limit is not None]
    kept = all(found[name] <= limit for name, limit in limits.items() if limit is not None)
    verdict = f"  {', '.join(said)}: {'kept' if kept else 'BROKEN'}" if said else ""
    numbers = " ".join(f"{found[name]:8.3f}" for name in found)
    forecast = f"{timed.forecast.quantile(0.5):13.2f} {timed.forecast.quantile(1.0):8.2f}"
    return f"{scale.workers:8d} {scale.jobs:6d} {timed.blocks:7d} {numbers} {forecast}{verdict}"


def measure(scale: Scale, *, seed: int) -> Timed:
    """Dispatch jobs as they arrive, and forecast all of them after each."""
    rng = np.random.default_rng(seed)
    inventory, bids = draw(scale, rng)
    queues = Queues(inventory, now=0)
    dispatched, forecast, most = [], [], 0
    for bid in bids:
        queues.advance(bid.arrival)
        began = time.process_time()
        sent = dispatch(bid, queues, rule=scale.rule)
        if sent is not None:
            sent.send(bid, queues)
        dispatched.append(1e3 * (time.process_time() - began))
        began = time.process_time()
        queues.windows()
        forecast.append(1e3 * (time.process_time() - began))
        most = max(most, queues.blocks)
    return Timed(Sample(dispatched), Sample(forecast), most)


def draw(scale: Scale, rng: np.random.Generator) -> tuple[Inventory, list[Bid]]:
    """Workers of three types on random servers and a cloud; jobs of 27 to 115 chunks of 0.1 to 5 slots, synthetic."""
    capacity = np.zeros((scale.servers + 1, TYPES + 1), dtype=np.int64)
    np.add.at(capacity, (rng.integers(0, scale.servers, scale.workers), rng.integers(0, TYPES, scale.workers)), 1)
    capacity[:, TYPES] = 2
    capacity[-1] = 10**9
    units = np.eye(TYPES + 1, dtype=np.int64).tolist()
    names = [f"s{s}" for s in range(scale.servers)] + ["cloud"]
    inventory = Inventory(
        resources=("a", "b", "c", "ps"),
        servers=tuple(names),
        cloud=tuple(name == "cloud" for name in names),
        capacity=capacity,
        workers=tuple(MachineType(name, tuple(units[i]), Fraction(1)) for i, name in enumerate("abc")),
        parameter_servers=(MachineType("ps", tuple(units[TYPES]), Fraction(1)),),
    )
    arrivals = np.floor(np.cumsum(rng.exponential(scale.gap, scale.jobs))).astype(int).tolist()
    return inventory, [_bid(f"{i}", arrival, scale, rng) for i, arrival in enumerate(arrivals)]


def _bid(name: str, arrival: int, scale: Scale, rng: np.random.Generator) -> Bid:
    steps = [Fraction(100)] * TYPES
    kind, transfer = int(rng.integers(TYPES)), Fraction(int(rng.integers(1, 100)), 100)
    steps[kind] = Fraction(int(rng.integers(10, 400)), 100)
    return Bid(
        id=name,
        arrival=arrival,
        epochs=1,
        chunks=int(rng.integers(27, 116)),
        minibatches=1,
        worker_time=tuple(steps),
        ps_time=(Fraction(0),),
        transfer_time=(transfer,) * TYPES,
        delay=(*rng.integers(1, 5, scale.servers).tolist(), int(rng.integers(10, 15))),
        utility=Constant(1.0),
    )


def twin_table(*, seed: int) -> Iterator[str]:
    """A whole run of 20 jobs on 12 workers against the slow twin, which finds the same."""
    rng = np.random.default_rng(seed)
    document = _document(rng)
    began = time.process_time()
    instance = read_preemptive(document)
    fast = run(instance, "marginal")
    middle = time.process_time()
    slow = simulate(document, "marginal")
    end = time.process_time()
    same = dict(zip(instance.ids, fast.completion, strict=True)) == slow.completion
    ratio = (end - middle) / (middle - began)
    yield (
        f"twin in exact fractions, 20 jobs on 12 workers: {ratio:.0f} times as long"
        f" ({1e3 * (end - middle):.0f} ms against {1e3 * (middle - began):.1f}), {'the same' if same else 'DIFFERENT'}"
    )


def _document(rng: np.random.Generator) -> dict[str, Any]:
    arrivals = np.cumsum(rng.integers(0, 4, 20)).tolist()
    return {
        "servers": [{"workers": [0, 0, 0], "pss": [0]} for _ in range(4)],
        "cloud": True,
        "jobs": [
            {
                "id": i,
                "r": arrival,
                "D": int(rng.integers(5, 20)),
                "p0": int(rng.integers(2, 7)),
                "p1": 1,
                "delta": rng.integers(0, 4, 4).tolist(),
                "delta_cloud": int(rng.integers(20, 40)),
            }
            for i, arrival in enumerate(arrivals)
        ],
    }
