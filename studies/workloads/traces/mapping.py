"""Map a trace's rows to data-parallel jobs. Arrivals, sizes and durations are real; values and targets are not.

A job of `gpus` GPUs has `gpus` data chunks (2 x `gpus` in elastic runs) and uses at most that many workers of one GPU.
The number of mini-batches in a chunk is chosen so that the job takes `duration` on `gpus` workers of one server.
Rounding it to a whole number changes that by at most half a mini-batch in each epoch, twice that in elastic runs.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from cluster.traces.records import Malformed, TraceJob, malformed
from cluster.units import exact, slots, slots_up, transfer_slots
from scheduling.model.bid import Architecture, Bid
from scheduling.model.errors import InvalidField
from scheduling.model.inventory import Inventory
from scheduling.model.utility import Sigmoid
from studies.workloads.traces.profiles import DECLARED, Profile
from studies.workloads.traces.tenants import tenants_of

SECONDS_PER_HOUR = 3600
KINDS = (0.10, 0.55, 0.35)
"""Shares of time-insensitive, time-sensitive and time-critical jobs (OASiS, Section V-A)."""
SENSITIVE, CRITICAL = (0.01, 1.0), (4.0, 6.0)
"""Ranges of the decay of sensitive and critical jobs, per hour; it is 0 for insensitive ones."""
SYNTHETIC = ("value", "decay", "target")
"""Data that are drawn for every job of any trace."""
TENANT = "tenant"
"""Tenants are drawn, too, if quotas list them."""


@dataclass(frozen=True)
class Values:
    """Values of completions: a sigmoid around a target (OASiS, Section V-A), scaled by the size of the job.

    Values are per GPU-hour, as traces hold jobs of seconds and of weeks side by side. All of it is synthetic.
    """

    rate: tuple[float, float] = (0.5, 5.0)
    """Money per GPU-hour, drawn evenly."""
    stretch: tuple[float, float] = (1.5, 10.0)
    """Target as a multiple of the run time, drawn evenly in the logarithm if the trace has no SLO."""

    def __post_init__(self) -> None:
        for name, least in (("rate", 0.0), ("stretch", 1.0)):
            low, high = getattr(self, name)
            if not least <= low <= high < math.inf:
                raise InvalidField(name, f"expected {least:g} <= low <= high, got {low} and {high}")


@dataclass(frozen=True)
class Rules:
    """Parameters that the study chooses to convert rows to bids."""

    slot_s: int
    """Length of a slot, seconds."""
    architecture: Architecture = Architecture.PS
    elastic: bool = False
    """Twice as many chunks as GPUs, so that a job can use more workers than it had."""
    epochs: tuple[int, int] = (1, 1)
    """Range of epochs, drawn evenly; no job has more epochs than mini-batches."""
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    """Profiles by model; other models use `profile`."""
    profile: Profile | None = DECLARED
    """Default profile. None: a row without a known model and without a step time is refused."""
    by_gpus: Mapping[int, Profile] = field(default_factory=dict)
    """Profiles that replace `profile` if a measured model stands for all unknown ones: the nearest number of GPUs is
    used."""
    shares: Mapping[str, int] = field(default_factory=dict)
    """Shares of tenants, from which each job's tenant is drawn; empty: the trace's own tenants."""
    values: Values = field(default_factory=Values)
    delay: tuple[int, ...] = ()
    """Slots after arrival until each server can be used; empty: at once."""

    def __post_init__(self) -> None:
        if self.slot_s < 1:
            raise InvalidField("slot_s", f"expected at least 1 second, got {self.slot_s}")
        if not 1 <= self.epochs[0] <= self.epochs[1]:
            raise InvalidField("epochs", f"expected 1 <= low <= high, got {self.epochs}")


@dataclass(frozen=True)
class TracedBids:
    """The jobs of a trace as bids, in order of arrival, and which of their data are real."""

    bids: tuple[Bid, ...]
    """Bids, named by the line of their row."""
    submitted_s: Mapping[str, float]
    """Submission in seconds after the first job, by the bid's id."""
    tenants: Mapping[str, str]
    """Tenants by the bid's id; empty if the trace has none."""
    runs_s: Mapping[str, float]
    """Run time of each job alone on its own GPUs; empty for generated jobs."""
    targets_s: Mapping[str, float]
    """Targets in seconds after the first job, for jobs that have one; synthetic unless they are SLOs."""
    synthetic: tuple[str, ...]
    """Names of data that were drawn."""
    declared: tuple[str, ...]
    """Names of data that the trace does not have and the study set to the same value for all jobs."""
    refused: tuple[Malformed, ...]
    """Rows that could not become bids."""


def to_bids(jobs: Iterable[TraceJob], inventory: Inventory, rules: Rules, rng: np.random.Generator) -> TracedBids:
    """Convert every row to a bid on these servers, or list its line as refused.

    Draws are made row by row in the order given, the same number for accepted and refused rows. A job arrives in the
    first slot that begins at its submission or later. Rows are sorted by submission; equal ones keep their order.

    Raises
    ------
    InvalidField
        If `rules.delay` does not fit these servers.
    """
    if rules.delay and len(rules.delay) != len(inventory.servers):
        raise InvalidField("delay", f"expected {len(inventory.servers)} numbers, got {len(rules.delay)}")
    rows = list(jobs)
    tenants = {str(job.line): name for job, name in zip(rows, tenants_of(rows, rules.shares, rng), strict=True)}
    first = min((job.submitted_s for job in rows), default=0.0)
    made: list[tuple[TraceJob, _Made]] = []
    refused: list[Malformed] = []
    for job in rows:
        draw = _draw(rules, job, rng)
        try:
            made.append((job, _make(job, inventory, rules, draw, since=first)))
        except InvalidField as error:
            refused.append(malformed(job.line, error))
    made.sort(key=lambda pair: pair[0].submitted_s)
    drawn = ("epochs",) if rules.epochs[0] < rules.epochs[1] else ()
    declared = {"step time" for _, one in made if one.declared_step} | {"epochs"}
    return TracedBids(
        bids=tuple(one.bid for _, one in made),
        submitted_s={one.bid.id: job.submitted_s - first for job, one in made},
        tenants={one.bid.id: tenants[one.bid.id] for _, one in made},
        runs_s={one.bid.id: one.run_s for _, one in made},
        targets_s={one.bid.id: one.target_s for _, one in made},
        synthetic=(*SYNTHETIC, *drawn, *((TENANT,) if rules.shares else ())),
        declared=tuple(sorted(declared.difference(drawn))),
        refused=tuple(refused),
    )


@dataclass(frozen=True)
class _Draw:
    epochs: int
    rate: float
    stretch: float
    decay: float
    """Decay per hour."""


@dataclass(frozen=True)
class _Made:
    bid: Bid
    run_s: float
    target_s: float
    declared_step: bool


def _draw(rules: Rules, job: TraceJob, rng: np.random.Generator) -> _Draw:
    values = rules.values
    epochs = int(rng.integers(rules.epochs[0], rules.epochs[1] + 1))
    rate = float(rng.uniform(*values.rate))
    stretch = math.exp(rng.uniform(math.log(values.stretch[0]), math.log(values.stretch[1])))
    kind = int(rng.choice(3, p=KINDS))
    decay = (0.0, float(rng.uniform(*SENSITIVE)), float(rng.uniform(*CRITICAL)))[kind]
    return _Draw(epochs, rate, stretch if job.slo is None else max(1.0, job.slo), decay)


def _make(job: TraceJob, inventory: Inventory, rules: Rules, draw: _Draw, *, since: float) -> _Made:
    profile, declared = _profile(job, rules)
    step = _pace(profile, job.gpus, rules.architecture)
    chunks = 2 * job.gpus if rules.elastic else job.gpus
    batches = _batches(job, step)
    epochs = max(1, min(draw.epochs, int(batches / chunks)))
    minibatches = max(1, round(batches / (epochs * chunks)))
    run_s = float(epochs * chunks * minibatches * step / job.gpus)
    sync, ring = slots(profile.sync_s, rules.slot_s), rules.architecture is Architecture.RING
    arrival = slots_up(job.submitted_s - since, rules.slot_s)
    # Round up to whole slots and add one, so that no job misses its target by rounding alone.
    target = 1 + slots_up(job.submitted_s - since + run_s * draw.stretch, rules.slot_s)
    bid = Bid(
        id=str(job.line),
        arrival=arrival,
        epochs=epochs,
        chunks=chunks,
        minibatches=minibatches,
        worker_time=tuple(
            slots(profile.by_type.get(machine.name.casefold(), profile.step_s), rules.slot_s)
            for machine in inventory.workers
        ),
        ps_time=(sync,) * len(inventory.parameter_servers),
        transfer_time=tuple(
            transfer_slots(profile.gradient_mb, machine.bandwidth_mbps, rules.slot_s) for machine in inventory.workers
        ),
        delay=rules.delay or (0,) * len(inventory.servers),
        utility=Sigmoid(
            g1=draw.rate * run_s * job.gpus / SECONDS_PER_HOUR,
            g2=draw.decay * rules.slot_s / SECONDS_PER_HOUR,
            g3=float(target - arrival),
        ),
        architecture=rules.architecture,
        reduce_time=sync if ring else Fraction(0),
    )
    return _Made(bid, run_s, float(target * rules.slot_s), declared)


def is_measured(job: TraceJob) -> bool:
    """Return whether a row states its step time."""
    return job.steps is not None and job.duration_s is not None


def _profile(job: TraceJob, rules: Rules) -> tuple[Profile, bool]:
    """Return the profile of a row, and whether it is only declared."""
    if job.model in rules.profiles:
        return rules.profiles[job.model], False
    if job.steps is not None and job.duration_s is not None:
        # The row states mini-batches, GPUs and the time they took, synchronisation included.
        return Profile(exact(job.duration_s) * job.gpus / job.steps), False
    if rules.profile is None or job.duration_s is None:
        raise InvalidField("model", f"expected a model with a measured step time, got {job.model or 'none'}")
    if not rules.by_gpus:
        return rules.profile, True
    return rules.by_gpus[min(rules.by_gpus, key=lambda gpus: (abs(math.log(gpus / job.gpus)), gpus))], True


def _pace(profile: Profile, gpus: int, architecture: Architecture) -> Fraction:
    """Return the seconds of a mini-batch on one server with one worker for each GPU of the job."""
    if architecture is Architecture.RING:
        return profile.step_s + profile.sync_s * Fraction(gpus - 1, gpus)
    return profile.step_s + profile.sync_s


def _batches(job: TraceJob, step: Fraction) -> Fraction:
    """Return the total number of mini-batches before rounding."""
    if job.duration_s is not None:
        return exact(job.duration_s) * job.gpus / step
    if job.steps is None:
        raise InvalidField("duration", "expected a duration or a number of steps, got neither")
    return Fraction(job.steps)
