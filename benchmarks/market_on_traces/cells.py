"""The result of one policy on one workload."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Self

from benchmarks.market_on_traces.contenders import Contender
from benchmarks.market_on_traces.idle import idle_while_wanted
from benchmarks.market_on_traces.workloads import Source, Workload, make_workload
from scheduling.model.inventory import Inventory
from scheduling.model.types import Json
from scheduling.offline import Covers, OfflineProblem, lagrangian
from studies.workloads.simulation.outcome import outcome_of
from studies.workloads.simulation.replay import run_trace
from studies.workloads.traces.mapping import TracedBids

BOUND_STEPS = 200
"""Steps of the bound: a number, no time limit, so that bounds are the same each time."""
SECONDS_PER_HOUR = 3600


@dataclass(frozen=True)
class Place:
    """A cell without its policy: a trace, a load, a family of values, a seed and the largest number of jobs."""

    trace: str
    load: float
    family: str
    seed: int
    jobs: int
    seeds: int


@dataclass(frozen=True)
class Cell:
    """A result: shares, hours, synthetic money, GPU-slots. Times are None if no job was completed."""

    place: Place
    contender: str
    settings: Json
    """The policy, all its parameters and its standing rule."""
    sha256: str
    """Digest of the trace."""
    submitted: int
    left_out: int
    gpus: int
    slot_s: int
    horizon: int
    reached_load: float
    bound_any: float
    """No schedule of any policy has more welfare."""
    bound: float
    """No schedule that this policy may choose has more welfare."""
    welfare: float
    revenue: float
    acceptance: float
    mean_jct_h: float | None
    p95_jct_h: float | None
    idle_while_wanted: float
    """GPU-slots that were idle while a job would have fitted and been worth running, over those of all jobs."""
    p50_ms: float
    p99_ms: float
    """Quantiles of the time of a decision."""
    between_ms: float
    """Time in which slots passed, with retries and completions, for each bid."""
    tries: int

    @property
    def over_bound(self) -> float:
        """Welfare over the bound that fits the policy."""
        return self.welfare / self.bound if self.bound > 0 else 1.0

    def to_json(self) -> Json:
        """Return a document that `from_json` reads."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Json) -> Self:
        """Read the output of `to_json`."""
        return cls(**{**document, "place": Place(**document["place"])})


class NoCells(ValueError):
    """A file has no cells, or other contents than these."""


def read_cell(line: str) -> Cell:
    """Read a cell from a line of JSON; raises NoCells if there is something else."""
    try:
        return Cell.from_json(json.loads(line))
    except (ValueError, TypeError, KeyError) as error:
        raise NoCells(f"expected a cell in each line, got {line[:60]!r}") from error


def cells_of(source: Source, place: Place, contenders: list[Contender]) -> Iterator[Cell]:
    """Run policies on one workload; policies with equal settings run once."""
    workload = make_workload(source, place.load, place.family, place.seed, seeds=place.seeds, jobs=place.jobs)
    bounds: dict[Covers, float] = {}
    known: dict[str, Cell] = {}
    for contender in contenders:
        for covers in (Covers.ANY, contender.covers):
            if covers not in bounds:
                bounds[covers] = bound_of(workload, covers)
        key = str(contender.to_json())
        if key not in known:
            known[key] = measure(source, place, workload, contender, bounds)
        yield Cell(**{**vars(known[key]), "contender": contender.name})


def placed(workload: Workload, contender: Contender) -> tuple[TracedBids, Inventory]:
    """Return the jobs and servers for a policy: OASiS has parameter servers on servers of their own."""
    if contender.covers is Covers.ELASTIC:
        return workload.traced_apart, workload.apart
    return workload.traced, workload.inventory


def bound_of(workload: Workload, covers: Covers) -> float:
    """Return the bound by weak duality for these schedules; it is one of all schedules too."""
    inventory = workload.apart if covers is Covers.ELASTIC else workload.inventory
    bids = (workload.traced_apart if covers is Covers.ELASTIC else workload.traced).bids
    problem = OfflineProblem(bids, inventory, 0, workload.end, covers=covers)
    return lagrangian(problem, lambda: float("inf"), steps=BOUND_STEPS).answer.bound


def measure(
    source: Source, place: Place, workload: Workload, contender: Contender, bounds: dict[Covers, float]
) -> Cell:
    """Replay the workload under a policy, and measure."""
    traced, inventory = placed(workload, contender)
    slot_s = workload.plan.slot_s
    run, timing = run_trace(traced, contender.make(), inventory, workload.plan, standing=contender.standing)
    outcome = outcome_of(run, traced, slot_s=slot_s)
    idle = idle_while_wanted(run, traced, inventory, slot_s=slot_s)
    needed = sum(bid.chunks * traced.runs_s[bid.id] / slot_s for bid in traced.bids)
    p50, _, p99 = timing.decisions_ms
    hours = (None if s is None else s / SECONDS_PER_HOUR for s in (outcome.mean_jct_s, outcome.p95_jct_s))
    mean_jct_h, p95_jct_h = hours
    return Cell(
        place=place,
        contender=contender.name,
        settings=contender.to_json(),
        sha256=source.sha256,
        submitted=outcome.jobs.submitted,
        left_out=workload.left_out,
        gpus=workload.gpus,
        slot_s=slot_s,
        horizon=workload.plan.horizon,
        reached_load=workload.load,
        bound_any=bounds[Covers.ANY],
        bound=bounds[contender.covers],
        welfare=outcome.welfare,
        revenue=outcome.revenue,
        acceptance=outcome.acceptance or 0.0,
        mean_jct_h=mean_jct_h,
        p95_jct_h=p95_jct_h,
        idle_while_wanted=idle / needed,
        p50_ms=p50 or 0.0,
        p99_ms=p99 or 0.0,
        between_ms=timing.between_ms or 0.0,
        tries=run.tries,
    )
