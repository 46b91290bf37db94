"""Step times that trainings reported, beside the profiles that bids use; an operator may adopt one for a profile.

A step of a program is compared with a mini-batch on every worker, with the exchange of gradients (`iteration_time`).
What a program reports changes no profile, price or payment by itself.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import User

from auctions.domain.bid_check import BidContext
from auctions.domain.bid_conversion import core_bid
from auctions.domain.inventory_snapshot import InventorySnapshot
from auctions.models import Market
from auctions.state.market_snapshot import market_snapshot, one_version
from cluster import guards
from cluster.models import ClockKind, Cluster, MachineRole, StepTime
from execution.models import Generation, Progress
from execution.steps import Machines
from scheduling.model.bid import Architecture
from scheduling.model.errors import InvalidField
from scheduling.model.iteration_time import iteration_time
from scheduling.model.schedule import Placement, Role
from scheduling.model.types import Json

LEAST_STEPS: Final = 20
"""Steps below which there is no estimate."""
MOST_STEPS: Final = 100
"""Steps of a generation that count: the newest."""
MOST_GENERATIONS: Final = 200
"""Generations of a cluster that count: the newest."""
JOIN: Final = " + "
"""Between names of machine types, which have no spaces."""
OF_THE_PROFILE: Final = ("gradient_mb", "worker_step_s", "ps_step_s")
"""Keys of a bid that are taken from the profile of its model. A bid that states one itself is not compared."""


@dataclass(frozen=True, order=True)
class Constellation:
    """The model and the machines of a job, on which the duration of a step depends."""

    model: str
    architecture: str
    worker_type: str
    """Names of the types of its workers, joined by `JOIN`."""
    workers: int
    ps_type: str
    """Names of the types of its parameter servers; empty in a ring."""
    ps: int
    one_server: bool
    """Whether all machines are on one server, so that gradients cross no network."""


@dataclass(frozen=True)
class Sample:
    """Steps of one generation."""

    constellation: Constellation
    expected_s: float
    """Duration of a step by the profile."""
    worker_s: float
    """Part of it that is the step time of the worker type; the rest is exchange."""
    bid: int = 0
    seconds: Sequence[float] = ()
    """Reported durations of steps, without the first one after the start."""


@dataclass(frozen=True)
class Measured:
    """Steps of all generations with one constellation."""

    constellation: Constellation
    expected_s: float
    """Duration of a step by the profile."""
    measured_s: float | None
    """Median of the reported durations; None for fewer than `LEAST_STEPS`."""
    steps: int
    jobs: int

    @property
    def ratio(self) -> float | None:
        """Measured by expected."""
        return _ratio(self.measured_s, self.expected_s)


@dataclass(frozen=True)
class Estimate:
    """The step time of a model on one worker type."""

    model: str
    worker_type: str
    profile_s: float
    measured_s: float | None
    """Median of the reported durations less the exchange by the profile; None for too few steps, or if it is not above
    0."""
    steps: int
    jobs: int

    @property
    def ratio(self) -> float | None:
        """Measured by profile."""
        return _ratio(self.measured_s, self.profile_s)


@dataclass(frozen=True)
class StepTimes:
    """Measured step times of a cluster."""

    estimates: list[Estimate]
    measured: list[Measured]


def _ratio(measured: float | None, expected: float) -> float | None:
    return None if measured is None or expected == 0 else measured / expected


def step_times(samples: Iterable[Sample]) -> StepTimes:
    """Summarise steps: by constellation, and by model and worker type where all workers are of one type."""
    of: dict[Constellation, list[Sample]] = defaultdict(list)
    by_type: dict[tuple[str, str], list[Sample]] = defaultdict(list)
    for one in samples:
        of[one.constellation].append(one)
        if JOIN not in one.constellation.worker_type:
            by_type[one.constellation.model, one.constellation.worker_type].append(one)
    return StepTimes(
        estimates=[_estimate(model, machine, mine) for (model, machine), mine in sorted(by_type.items())],
        measured=[_measured(constellation, mine) for constellation, mine in sorted(of.items())],
    )


def _measured(constellation: Constellation, samples: Sequence[Sample]) -> Measured:
    seconds = [second for one in samples for second in one.seconds]
    enough = len(seconds) >= LEAST_STEPS
    # Rings of one size may differ by the reduce times that their bids state.
    expected = median(one.expected_s for one in samples)
    return Measured(constellation, expected, median(seconds) if enough else None, len(seconds), _jobs(samples))


def _estimate(model: str, machine: str, samples: Sequence[Sample]) -> Estimate:
    seconds = [second - (one.expected_s - one.worker_s) for one in samples for second in one.seconds]
    found = median(seconds) if len(seconds) >= LEAST_STEPS else 0.0
    measured = float(f"{found:.4g}") if found > 0 else None
    return Estimate(model, machine, samples[0].worker_s, measured, len(seconds), _jobs(samples))


def _jobs(samples: Iterable[Sample]) -> int:
    return len({one.bid for one in samples})


@one_version()
def of_market(market: Market) -> StepTimes:
    """Return the measured step times of a market, beside its profiles of now."""
    return step_times(_samples(market))


def _samples(market: Market) -> Iterator[Sample]:
    """Yield the newest generations that reported steps, of bids that took all of their model from its profile."""
    book = market_snapshot(market).book
    profiles = BidContext(market.cluster, book.snapshot, type(book.policy))
    cluster = market.cluster
    speed = cluster.clock_speed if cluster.clock_kind == ClockKind.VIRTUAL else 1.0
    rows = Generation.objects.filter(training__bid__market=market, progress__seconds__isnull=False).distinct()
    for row in rows.select_related("training__bid").order_by("-pk")[:MOST_GENERATIONS]:
        bid = row.training.bid
        profile = profiles.profile(bid.body.get("model"))
        if profile is None or any(bid.body.get(key) is not None for key in OF_THE_PROFILE):
            continue
        offer = {**bid.resolved_request, **{key: profile.get(key) for key in OF_THE_PROFILE}}
        placements = _placements([Machines(*one) for one in row.allocation], book.snapshot)
        reported = Progress.objects.filter(generation=row, seconds__isnull=False).order_by("-step")
        seconds = list(reported.values_list("seconds", flat=True)[: MOST_STEPS + 1])[:-1]
        sample = _sample(bid.body["model"], offer, placements, book.snapshot)
        if sample is not None:
            # Profiles are in seconds of the cluster's clock.
            yield replace(sample, bid=bid.pk, seconds=[speed * second for second in seconds if second is not None])


def _placements(machines: Sequence[Machines], snapshot: InventorySnapshot) -> list[Placement]:
    """Return machines by their positions in the inventory; none if one of them is no longer in the cluster."""
    kinds = {Role.WORKER: snapshot.worker_ids, Role.PS: snapshot.ps_ids}
    try:
        return [
            Placement(0, 1, role, snapshot.server_ids.index(server), kinds[role].index(kind), number)
            for role, server, kind, number in ((Role(one.role), *one[1:]) for one in machines)
        ]
    except ValueError:
        return []


def _sample(model: str, offer: Json, placements: Sequence[Placement], snapshot: InventorySnapshot) -> Sample | None:
    """Return machines with the duration of a step by the profile, still without steps; None if it does not say it."""
    of = {role: [one for one in placements if one.role is role] for role in Role}
    names = {role: sorted({one.machine(snapshot.inventory).name for one in mine}) for role, mine in of.items()}
    known = offer["worker_step_s"].keys() >= set(names[Role.WORKER]) and offer["ps_step_s"].keys() >= set(
        names[Role.PS]
    )
    # Jobs in queues run as rings, whatever their bids say.
    architecture = Architecture.PS if of[Role.PS] else Architecture.RING
    core = replace(core_bid(offer, snapshot, bid_id="", arrival=0), architecture=architecture)
    slots = iteration_time(core, placements)
    if slots is None or not known:
        return None
    return Sample(
        Constellation(
            model=model,
            architecture=architecture.value,
            worker_type=JOIN.join(names[Role.WORKER]),
            workers=sum(one.count for one in of[Role.WORKER]),
            ps_type=JOIN.join(names[Role.PS]),
            ps=sum(one.count for one in of[Role.PS]),
            one_server=len({one.server for one in placements}) == 1,
        ),
        expected_s=float(slots * snapshot.slot_seconds),
        worker_s=max(offer["worker_step_s"][name] for name in names[Role.WORKER]),
    )


def table(found: StepTimes) -> Iterator[Sequence[object]]:
    """Yield the header and the rows of the table of constellations."""
    yield (
        *("model", "architecture", "worker_type", "workers", "ps_type", "num_ps", "one_server"),
        *("expected_s", "measured_s", "ratio", "steps", "jobs"),
    )
    for row in found.measured:
        one = row.constellation
        machines = one.worker_type, one.workers, one.ps_type, one.ps, one.one_server
        figures = ["" if figure is None else figure for figure in (row.expected_s, row.measured_s, row.ratio)]
        yield one.model, one.architecture, *machines, *figures, row.steps, row.jobs


def adopt(cluster: Cluster, model: str, worker_type: str, *, before: float, after: float, by: User) -> None:
    """Change the step time of a model on a worker type in its profile, as the admin does: new bids use it.

    Raises
    ------
    InvalidField
        If the profile has no such step time, or no longer the one that the operator saw.
    cluster.guards.ChangeRefused
        If a check of the cluster refuses the change.
    """
    rows = StepTime.objects.select_related("profile").filter(
        profile__cluster=cluster,
        profile__name=model,
        machine_type__name=worker_type,
        machine_type__role=MachineRole.WORKER,
    )
    with guards.checked_change(cluster):
        row = rows.select_for_update(of=("self",)).first()
        if row is None:
            raise InvalidField("model", f"expected a profile with a step time on {worker_type}, got {model}")
        if row.seconds != before:
            raise InvalidField("before", f"expected the step time of now, {row.seconds:g} s, got {before:g} s")
        row.seconds = after
        row.save()
        words = f"Step time on {worker_type} changed from {before:g} s to {after:g} s, as measured."
        LogEntry.objects.log_actions(by.pk, [row.profile], CHANGE, change_message=words, single_object=True)
