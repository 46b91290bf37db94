"""Workload of a trace as a request describes it: the jobs, the servers, and further measured data."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from cluster.facts import inventory_of
from cluster.models import Cluster, Server
from cluster.traces.records import Machine, Quota
from cluster.units import slots_up
from scheduling.model.errors import InvalidField, refuse_all
from scheduling.model.types import Json
from scheduling.model.validation import check_each, shown
from studies.models import Trace
from studies.workloads.traces.machines import machine_cluster
from studies.workloads.traces.profiles import StepTimes
from studies.workloads.traces.reading import read_any, read_text
from studies.workloads.traces.source import TraceSource
from studies.workloads.traces.tenants import shares_of

GAVEL: Final = "gavel"
OF_SOURCE: Final = ("gpus", "apart", "slot_s", "horizon", "jobs", "ring", "elastic", "reference")
"""Keys that are fields of a `TraceSource`."""
FILES: Final[Mapping[str, tuple[str, ...]]] = {
    "machines": ("machines",),
    "step_times": ("step_times", "throughputs"),
    "quotas": ("quotas",),
}
"""Keys that are numbers of further traces, and what those may hold."""


def traced_workload(row: Json) -> tuple[Json, tuple[Trace, ...]]:
    """Return the workload as experiments store it, and all its traces; raises InvalidField naming the wrong fields.

    `row` is a checked request, in which traces stand for their numbers. Servers, step times and quotas are stored as
    they are now; runs read only the jobs from the trace again.
    """
    trace = row["trace"]
    files = {name: row[name] for name in FILES if name in row}
    checks: list[Callable[[], Any]] = [
        partial(refuse_all, list(_misplaced(row, files))),
        partial(_source, row, files),
    ]
    _, source = check_each(checks)
    _check_step_times(trace, source, given="reference" in row)
    if "step_times" in files or "quotas" in files:
        source.check(read_text(trace.text).rows)
    stored = {
        "title": _title(trace, source, files),
        "source": source.to_json(),
        "trace": trace.pk,
        "sha256": trace.sha256,
    }
    return stored | {name: one.pk for name, one in files.items()}, (trace, *files.values())


def _misplaced(row: Json, files: Mapping[str, Trace]) -> Iterator[InvalidField]:
    """Yield an error for each key that the other keys exclude."""
    if "batch" in row and "step_times" not in files:
        yield InvalidField("batch", "expected no batch without step times, got one")
    if "cluster" in row and "machines" in files:
        yield InvalidField("machines", "expected a cluster or machines, got both")


def _source(row: Json, files: Mapping[str, Trace]) -> TraceSource:
    """Build the source: how lines are read, and on which servers jobs run."""
    options: dict[str, Any] = {name: row[name] for name in OF_SOURCE if name in row}
    if "step_times" in files:
        options["step_times"] = StepTimes.of(_records(files["step_times"]), batch=row.get("batch"))
    if "quotas" in files:
        options["shares"] = shares_of([one for one in _records(files["quotas"]) if isinstance(one, Quota)])
    if "cluster" in row:
        return _on_cluster(_cluster(row["cluster"]), options)
    if "machines" in files:
        machines = [one for one in _records(files["machines"]) if isinstance(one, Machine)]
        return TraceSource(inventory=machine_cluster(machines), cluster=_name(files["machines"]), **options)
    return TraceSource(**options)


def _records(trace: Trace) -> tuple[Any, ...]:
    return read_any(trace.text, trace.kind).rows


def _check_step_times(trace: Trace, source: TraceSource, *, given: bool) -> None:
    """Check that step times are known, also for the reference GPU."""
    beside = source.step_times
    if beside == StepTimes() and trace.throughputs is not None:
        beside = StepTimes(trace.throughputs)
    beside.by_model(source.reference)
    if given and not beside.throughputs:
        raise InvalidField("reference", "expected no reference without throughputs, got one")
    if trace.format == GAVEL and not beside.throughputs:
        problem = (
            "expected step_times with Gavel's throughputs, because lines state mini-batches and no durations, got none"
        )
        raise InvalidField("trace", problem)


def _cluster(name: str) -> Cluster:
    cluster = Cluster.objects.filter(name=name).first()
    if cluster is None:
        raise InvalidField("cluster", f"expected a cluster, got {shown(name)}")
    return cluster


def _on_cluster(cluster: Cluster, options: Json) -> TraceSource:
    more = {name: value for name, value in options.items() if name not in ("slot_s", "horizon")}
    return source_on(cluster, slot_s=options.get("slot_s"), horizon=options.get("horizon"), **more)


def _name(trace: Trace) -> str:
    """Return the title, which says if a part of the trace is left out."""
    lines = trace.malformed_lines
    return f"{trace} ({lines:,} {'line' if lines == 1 else 'lines'} malformed)" if lines else str(trace)


def _title(trace: Trace, source: TraceSource, files: Mapping[str, Trace]) -> str:
    first = "" if source.jobs is None else f", first {source.jobs} jobs"
    steps = f", step times of {_name(files['step_times'])}" if "step_times" in files else ""
    tenants = f", tenants by {_name(files['quotas'])}" if "quotas" in files else ""
    return f"{trace}{first} on {source.place}{steps}{tenants}"


def source_on(cluster: Cluster, *, slot_s: int | None, horizon: int | None, **more: Any) -> TraceSource:
    """Build a trace source on these servers; slots, horizon and upload delays are the cluster's by default."""
    slot_s = cluster.slot_seconds if slot_s is None else slot_s
    delays_s = Server.objects.filter(cluster=cluster).values_list("upload_delay_s", flat=True)
    return TraceSource(
        inventory=inventory_of(cluster),
        cluster=cluster.title or cluster.name,
        delay=tuple(slots_up(after, slot_s) for after in delays_s),
        slot_s=slot_s,
        horizon=cluster.horizon_slots if horizon is None else horizon,
        **more,
    )
