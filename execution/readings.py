"""The training of a bid, for its owner: generations with what each restart cost, their processes, and progress."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from django.db.models import F, Max, Min, Q

from auctions.models import Bid
from cluster import clock
from cluster.models import MachineType, Server
from execution.dead_processes import waits
from execution.ends import percent_of
from execution.forecasts import Forecast, forecast_of
from execution.models import Generation, Process, Progress, Training, TrainingState
from execution.steps import Machines

MOST_GENERATIONS: Final = 50
"""Generations in one answer: the newest."""
MOST_STEPS: Final = 5_000
"""Reported steps in one answer."""


@dataclass(frozen=True)
class Held:
    """Machines of one kind on one server."""

    role: str
    server: str
    machine_type: str
    count: int


@dataclass(frozen=True)
class Start:
    """One generation."""

    row: Generation
    machines: list[Held]
    resumed_from: int | None
    """Step of the checkpoint from which it went on; None if it began at the first step."""
    began_at: datetime | None
    """Time at which the first of its processes started."""
    last_step: int | None
    pause_s: float | None
    """Seconds from the stop of the previous generation until its own first process started."""
    repeated_steps: int | None
    """Steps that the previous generation had done after that checkpoint, and that are done again."""
    processes: list[Process]


@dataclass(frozen=True)
class TrainingReading:
    """The training of a bid with its newest generations."""

    row: Training
    percent: int | None
    """Share of its steps that is done, rounded down; None if the bid does not state them."""
    next_try_at: datetime | None
    """Time before which it is not started again after a failure; None if it need not wait."""
    forecast: Forecast | None
    """The time at which it is done at its present rate; None if that is not known."""
    continues: int | None
    """Number of the bid whose training it continues; None if it begins at the first step."""
    generations: list[Start]
    truncated: bool
    """Whether there are earlier generations."""


def training_of(bid: Bid, *, before: int | None = None) -> TrainingReading | None:
    """Return the training of a bid, with generations whose number is below `before`; None if nothing was started."""
    earlier = F("starts_from__generation__training__bid__sequence")
    training = Training.objects.filter(bid=bid).select_related("program").annotate(continues=earlier).first()
    if training is None:
        return None
    rows = Generation.objects.filter(training=training).select_related("resumed_from").order_by("-number")
    if before is not None:
        rows = rows.filter(number__lt=before)
    newest = list(rows[: MOST_GENERATIONS + 1])
    must_wait = training.state == TrainingState.WAITING and waits(training.wait_until, now=clock.now().timestamp())
    return TrainingReading(
        row=training,
        percent=percent_of(training),
        next_try_at=datetime.fromtimestamp(training.wait_until, UTC) if must_wait else None,
        forecast=forecast_of(bid),
        continues=training.continues,
        generations=_starts(newest)[:MOST_GENERATIONS][::-1],
        truncated=len(newest) > MOST_GENERATIONS,
    )


def progress_of(bid: Bid, *, generation: int, step: int) -> tuple[list[Progress], bool]:
    """Return steps in the order of generations from this step of this generation on, and whether there are more."""
    rows = Progress.objects.filter(generation__training__bid=bid).select_related("generation")
    later = Q(generation__number=generation, step__gte=step) | Q(generation__number__gt=generation)
    found = list(rows.filter(later).order_by("generation__number", "step")[: MOST_STEPS + 1])
    return found[:MOST_STEPS], len(found) > MOST_STEPS


def _starts(newest: Sequence[Generation]) -> list[Start]:
    """Return generations, the newest first, each compared with the one after it in the list."""
    of: dict[int, list[Process]] = defaultdict(list)
    for process in Process.objects.filter(generation__in=newest).select_related("server", "machine_type"):
        of[process.generation_id].append(process)
    processes = Process.objects.filter(generation__in=newest).order_by()
    began = dict(processes.values_list("generation").annotate(Min("started_at")))
    reported = Progress.objects.filter(generation__in=newest).order_by()
    last_step = dict(reported.values_list("generation").annotate(Max("step")))
    allocations = {one.pk: [Machines(*row) for row in one.allocation] for one in newest}
    every = [machines for allocation in allocations.values() for machines in allocation]
    names = Names.of(every)
    starts = []
    for i, one in enumerate(newest):
        previous = newest[i + 1] if i + 1 < len(newest) else None
        resumed = None if one.resumed_from is None else one.resumed_from.step
        stopped = None if previous is None else previous.stopped_at or previous.ended_at
        starts.append(
            Start(
                row=one,
                machines=[names.held(machines) for machines in allocations[one.pk]],
                resumed_from=resumed,
                began_at=began.get(one.pk),
                last_step=last_step.get(one.pk),
                pause_s=_seconds(stopped, began.get(one.pk)),
                repeated_steps=None if previous is None else max(0, last_step.get(previous.pk, 0) - (resumed or 0)),
                processes=of[one.pk],
            )
        )
    return starts


@dataclass(frozen=True)
class Names:
    """Names of servers and machine types, by key."""

    servers: dict[int, str]
    types: dict[int, str]

    @classmethod
    def of(cls, machines: Sequence[Machines]) -> "Names":
        """Read the names in two queries."""
        servers = Server.objects.filter(pk__in={one.server for one in machines})
        types = MachineType.objects.filter(pk__in={one.type for one in machines})
        return cls(dict(servers.values_list("pk", "name")), dict(types.values_list("pk", "name")))

    def held(self, machines: Machines) -> Held:
        """Return machines with their names."""
        server, machine_type = self.servers[machines.server], self.types[machines.type]
        return Held(machines.role, server, machine_type, machines.number)


def _seconds(begin: datetime | None, end: datetime | None) -> float | None:
    return None if begin is None or end is None else max(0.0, (end - begin).total_seconds())
