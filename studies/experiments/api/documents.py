"""Traces and experiments as JSON."""

from scheduling.model.types import Json
from studies.experiments import readings
from studies.experiments.metrics import METRICS, Interval
from studies.experiments.readings import Cell, Results
from studies.models import Experiment, Trace


def trace_row(trace: Trace) -> Json:
    """Return one row of a list."""
    names = ("id", "label", "source", "format", "kind", "sha256", "records", "malformed_lines")
    return {
        **{name: getattr(trace, name) for name in names},
        "owner": trace.owner.get_username(),
        "submitted_at": trace.submitted_at.isoformat(),
    }


def trace_full(trace: Trace) -> Json:
    """Return a trace with its malformed lines and the GPUs for which its step times are known."""
    return {**trace_row(trace), "malformed": trace.malformed, "gpu_types": sorted(trace.throughputs or ())}


def brief(experiment: Experiment) -> Json:
    """Return one row of a list."""
    progress = readings.progress_of(experiment)
    names = ("queued", "running", "completed", "failed", "cancelled", "share")
    return {
        "id": experiment.pk,
        "label": experiment.label,
        "state": progress.state,
        "stage": progress.stage,
        "progress": {name: getattr(progress, name) for name in names},
        "owner": experiment.owner.get_username(),
        "rerun_of": None if experiment.rerun_of is None else experiment.rerun_of.pk,
        "submitted_at": experiment.submitted_at.isoformat(),
    }


def full(experiment: Experiment) -> Json:
    """Return an experiment with its whole request."""
    compared = readings.comparison_of(experiment)
    names = ("same", "differ", "open", "same_sources")
    return {
        **brief(experiment),
        "place": readings.place_of(experiment),
        **experiment.matrix,
        "comparison": None if compared is None else {name: getattr(compared, name) for name in names},
    }


def run_row(results: Results, cell: Cell) -> Json:
    """Return one row of a list."""
    run = cell.run
    names = (
        "state",
        "stage",
        "seed",
        "decided",
        "jobs",
        "workload_sha256",
        "outcome_sha256",
        "sources",
        "commit",
        "error",
    )
    return {
        "run": run.number,
        **{name: getattr(run, name) for name in names},
        "workload": results.workloads[run.workload],
        "policy": None if run.policy is None else results.policies[run.policy],
        "identity": cell.identity,
        "duration_s": run.duration_s,
    }


def run_full(results: Results, cell: Cell) -> Json:
    """Return a run with its outcome."""
    return {**run_row(results, cell), "outcome": readings.outcome_of(cell.run), "timing": cell.run.timing}


def results_document(results: Results) -> Json:
    """Return means over seeds with their intervals, and bounds."""
    names = ("title", "unit", "better", "exact")
    return {
        "experiment": results.experiment.pk,
        "state": readings.progress_of(results.experiment).state,
        "notes": results.notes,
        "warnings": results.warnings,
        "metrics": [
            {"name": name, **{key: getattr(metric, key) for key in names}, "synthetic": _drawn(results, name)}
            for name, metric in METRICS.items()
        ],
        "rows": [
            {
                "workload": results.workloads[row.workload],
                "policy": row.label,
                "runs": row.done,
                "values": {name: _interval(value) for name, value in row.values.items()},
            }
            for row in results.rows
        ],
        "bounds": [
            {
                "workload": results.workloads[row.workload],
                "kinds": list(row.kinds),
                "welfare": _interval(row.value),
                "gap": row.gap,
                "cpu_s": row.cpu_s,
            }
            for row in results.bound_rows
        ],
    }


def _drawn(results: Results, metric: str) -> bool:
    """Return whether the metric depends on drawn data in any workload."""
    return any(results.is_synthetic(metric, number) for number in range(len(results.workloads)))


def _interval(value: Interval | None) -> Json | None:
    if value is None:
        return None
    return {"n": value.n, "mean": value.mean, "low": value.low, "high": value.high}
