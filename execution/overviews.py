"""Execution of a cluster, for operators: what runs, whether an executor is active, and what is late."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import isfinite
from pathlib import Path
from typing import Final

from django.db.models import Count, Max, Q, QuerySet

from auctions.models import Commitment, Outage
from cluster import clock
from cluster.models import Server
from execution.dead_processes import waits
from execution.engines import slurm
from execution.engines.base import EngineError
from execution.forecasts import Forecast, late_ones
from execution.models import (
    OVER,
    Defect,
    EngineKind,
    Execution,
    Generation,
    GenerationState,
    Lease,
    Process,
    ProcessState,
    Training,
    TrainingState,
)
from execution.restart_costs import RestartCost, restart_cost
from execution.steps import LEAST_RUN_S, PATIENCE_S
from execution.wanted import GOING, timeline

LATELY_S: Final = 3_600.0
"""Time for which a server is marked on which a process was lost, seconds."""
LATE_S: Final = 5.0
"""Seconds after which something that should have started is late; the executor looks about once a second."""
NOTHING: Final = (0, 0, 0, 0)
"""Numbers of processes of a server that has none."""
ALIVE: Final = (ProcessState.SENT, ProcessState.RUNNING)
"""States of processes that have not ended, as far as is known."""


@dataclass(frozen=True)
class Late:
    """Something that should have started, or ended, by now."""

    bid: int
    """Number of the bid."""
    problem: str
    since: datetime
    """Time from which on it is late."""

    def __str__(self) -> str:
        return f"bid {self.bid}: {self.problem} since {self.since:%Y-%m-%d %H:%M:%S} UTC"


@dataclass(frozen=True)
class ServerUse:
    """The processes of one server."""

    name: str
    in_service: bool
    """Whether the market gives it new work."""
    running: int
    sent: int
    unstarted: int
    """Processes that were sent there more than `LATE_S` ago and have not started: it may not be reached."""
    lost: int
    """Processes that were lost there within `LATELY_S`."""
    engine_state: str | None
    """The words of the engine about the server, which are not trusted: a dead server may be called alive for minutes.
    None if the engine says nothing."""

    @property
    def is_suspect(self) -> bool:
        """Whether something failed there lately."""
        return self.unstarted > 0 or self.lost > 0


@dataclass(frozen=True)
class Overview:
    """The execution of a cluster, and what runs there now."""

    execution: Execution
    lease: Lease | None
    executor_active: bool
    trainings: dict[str, int]
    generations: int
    """Number of generations that have not ended."""
    processes: dict[str, int]
    servers: list[ServerUse]
    late: list[Late]
    defect: Defect | None
    """An error that ends each loop of the executor for this cluster; None if there is none."""
    foreseen: list[Forecast]
    """Trainings that run and will not be done in time at their present rate, the latest first."""
    restart: RestartCost

    @property
    def executor_since(self) -> datetime | None:
        """Time at which the holder of the lease took it; None if there was none."""
        return None if self.lease is None else _moment(self.lease.since)

    @property
    def lease_until(self) -> datetime | None:
        """End of the lease."""
        return None if self.lease is None else _moment(self.lease.until)


def overview(execution: Execution) -> Overview:
    """Return all of it, as of now."""
    lease, defects = Lease.objects.first(), list(execution.defects.select_related("bid"))
    return Overview(
        execution=execution,
        lease=lease,
        executor_active=lease is not None and is_live(lease),
        trainings=trainings_by_state(execution),
        generations=live(execution).count(),
        processes=processes_by_state(execution),
        servers=servers(execution),
        late=late(execution, defects),
        defect=next((row for row in defects if row.bid is None), None),
        foreseen=late_ones(execution.cluster.market),
        restart=restart_cost(execution.cluster.market),
    )


def is_live(lease: Lease) -> bool:
    """Return whether the executor that holds the lease is active."""
    return lease.until > clock.now().timestamp()


def live(execution: Execution) -> "QuerySet[Generation]":
    """Return the generations of a cluster that have not ended."""
    mine = Generation.objects.filter(training__bid__market__cluster=execution.cluster_id)
    return mine.exclude(state=GenerationState.ENDED)


def trainings_by_state(execution: Execution) -> dict[str, int]:
    """Return the number of trainings of a cluster in each state."""
    rows = Training.objects.filter(bid__market__cluster=execution.cluster_id).order_by()
    found = dict(rows.values_list("state").annotate(Count("pk")))
    return {state: found.get(state, 0) for state in TrainingState.values}


def processes_by_state(execution: Execution) -> dict[str, int]:
    """Return the number of processes of generations that have not ended, in each state."""
    rows = Process.objects.filter(generation__in=live(execution)).order_by()
    found = dict(rows.values_list("state").annotate(Count("pk")))
    return {state: found.get(state, 0) for state in ProcessState.values}


def servers(execution: Execution) -> list[ServerUse]:
    """Return the servers of a cluster with the numbers of processes there, in the order of prices."""
    late_from, lost_from = (clock.now() - timedelta(seconds=seconds) for seconds in (LATE_S, LATELY_S))
    is_sent = Q(generation__in=live(execution), state=ProcessState.SENT)
    is_lost = Q(state=ProcessState.LOST, started_at__isnull=False, ended_at__gt=lost_from)
    rows = Process.objects.filter(Q(generation__in=live(execution)) | is_lost)
    mine = rows.filter(server__cluster=execution.cluster_id).order_by().values("server")
    counts = mine.annotate(
        running=Count("pk", filter=Q(state=ProcessState.RUNNING)),
        sent=Count("pk", filter=is_sent),
        unstarted=Count("pk", filter=is_sent & Q(generation__created_at__lt=late_from)),
        lost=Count("pk", filter=is_lost),
    )
    columns = counts.values_list("server", "running", "sent", "unstarted", "lost")
    of = {row[0]: row[1:] for row in columns}
    outages = Outage.objects.filter(ended_version=None, server__cluster=execution.cluster_id)
    out = set(outages.values_list("server", flat=True))
    said = node_states(execution)
    return [
        _use(name, pk not in out, of.get(pk, NOTHING), None if said is None else said.get(name, "unknown"))
        for pk, name in Server.objects.filter(cluster=execution.cluster_id).values_list("pk", "name")
    ]


def _use(name: str, in_service: bool, numbers: tuple[int, int, int, int], said: str | None) -> ServerUse:
    running, sent, unstarted, lost = numbers
    return ServerUse(name, in_service, running, sent, unstarted, lost, said)


def node_states(execution: Execution) -> Mapping[str, str] | None:
    """Return what the engine says of each server; None if it says nothing, as `local` does."""
    if execution.engine != EngineKind.SLURM:
        return None
    configuration = Path(execution.slurm_configuration) if execution.slurm_configuration else None
    try:
        return slurm.node_states(configuration)
    except EngineError as error:
        names = Server.objects.filter(cluster=execution.cluster_id).values_list("name", flat=True)
        return dict.fromkeys(names, f"no answer: {str(error).partition(chr(10))[0]}")


def late(execution: Execution, defects: Iterable[Defect] = ()) -> list[Late]:
    """Return what should have started or ended by now, and jobs on which the executor failed, by bid.

    Jobs in queues are late only once they were started.
    """
    late = (*_late_ends(execution), *_late_processes(execution), *_late_starts(execution))
    failed = (Late(row.bid.sequence, str(row), row.since) for row in defects if row.bid is not None)
    return sorted((*late, *failed), key=_number)


def _number(one: Late) -> tuple[int, datetime]:
    return one.bid, one.since


def _late_ends(execution: Execution) -> Iterator[Late]:
    """Yield generations that were stopped, and of which something is left when nothing should be."""
    rows = live(execution).filter(state=GenerationState.STOPPING)
    for number, stopped in rows.values_list("training__bid__sequence", "stopped_at"):
        if stopped is None:
            continue
        due = stopped.timestamp() + execution.grace_s + PATIENCE_S
        if clock.now().timestamp() > due + LATE_S:
            yield Late(number, "its processes should have ended", _moment(due))


def _late_processes(execution: Execution) -> Iterator[Late]:
    """Yield processes that were sent to the engine and have not started."""
    rows = Process.objects.filter(generation__in=live(execution), state=ProcessState.SENT)
    columns = ("key", "generation__training__bid__sequence", "generation__created_at", "reason")
    for key, number, created, reason in rows.values_list(*columns):
        if (clock.now() - created).total_seconds() > LATE_S:
            why = f" ({reason})" if reason else ""
            yield Late(number, f"{key} was sent to the engine and has not started{why}", created)


def _late_starts(execution: Execution) -> Iterator[Late]:
    """Yield bids that hold machines on which nothing was started, although enough of the slots is left."""
    if not execution.is_on:
        return
    time = timeline(execution.cluster)
    held = Commitment.objects.filter(
        bid__market__cluster=execution.cluster_id,
        bid__state__in=GOING,
        bid__program__isnull=False,
        start__lte=time.slot,
        end__gt=time.slot,
    ).exclude(bid__in=live(execution).values("training__bid"))
    rows = held.order_by().values_list("bid", "bid__sequence").annotate(Max("start"), Max("end"))
    trainings = {one.bid_id: one for one in Training.objects.filter(bid__in=held.values("bid"))}
    ended = Generation.objects.filter(training__in=trainings.values()).order_by()
    last_end = dict(ended.values_list("training").annotate(Max("ended_at")))
    for bid, number, start, end in rows:
        training = trainings.get(bid)
        since = time.wall(start)
        if training is not None:
            previous = last_end.get(training.pk)
            wait_until = training.wait_until if waits(training.wait_until, now=time.now_s) else 0.0
            since = max(since, wait_until, 0.0 if previous is None else previous.timestamp())
        if (training is not None and training.state in OVER) or not isfinite(since):
            continue
        enough = time.wall(end) - time.now_s > execution.grace_s + LEAST_RUN_S
        if enough and time.now_s - since > LATE_S:
            yield Late(number, "it holds machines and nothing was started", _moment(since))


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
