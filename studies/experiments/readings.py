"""Readings of experiments and traces for pages, REST and CSV."""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property

from django.contrib.auth.models import User
from django.db.models import Count, Max, QuerySet, Sum

from cluster.database.paging import in_pages
from cluster.operators import is_operator
from scheduling.model.decision import canonical
from scheduling.model.types import Json
from studies.background import states
from studies.background.models import JobState, Stage
from studies.experiments.metrics import METRICS, Interval, Metric, Ran, interval
from studies.job_tables import RUNS
from studies.models import Experiment, Run, Trace


def visible_traces(viewer: User) -> "QuerySet[Trace]":
    """Return all traces for an operator, else the user's own; their texts and throughputs are not loaded."""
    traces = Trace.objects.select_related("owner").defer("text", "throughputs")
    return traces if is_operator(viewer) else traces.filter(owner=viewer.pk)


def visible_experiments(viewer: User) -> "QuerySet[Experiment]":
    """Return all experiments for an operator, else the user's own."""
    experiments = Experiment.objects.select_related("owner", "rerun_of")
    return experiments if is_operator(viewer) else experiments.filter(owner=viewer.pk)


@dataclass(frozen=True)
class Progress:
    """Progress of an experiment."""

    queued: int
    running: int
    completed: int
    failed: int
    cancelled: int
    share: float
    """Share of the work that is done: ended runs, and the decided part of running ones; 1 at the end."""
    stage: Stage
    """The preparation of running runs; empty after one of them has begun."""

    @property
    def runs(self) -> int:
        """Total number of runs."""
        return self.queued + self.running + self.ended

    @property
    def ended(self) -> int:
        """Number of runs that have ended."""
        return self.completed + self.failed + self.cancelled

    @property
    def state(self) -> JobState:
        """State of the experiment: queued or running until all runs have ended, then the worst state of a run."""
        if self.ended < self.runs:
            return JobState.RUNNING if self.running or self.ended else JobState.QUEUED
        if self.failed:
            return JobState.FAILED
        return JobState.CANCELLED if self.cancelled else JobState.COMPLETED


def progress_of(experiment: Experiment) -> Progress:
    """Return the current progress of an experiment."""
    runs = experiment.runs
    counts = {state.value: 0 for state in JobState}
    counts |= dict(runs.order_by().values_list("state").annotate(Count("pk")))
    under_way = list(runs.filter(state=JobState.RUNNING).values_list("decided", "jobs", "stage"))
    inside = sum(decided / jobs for decided, jobs, _ in under_way if jobs)
    stages = [Stage(stage) for *_, stage in under_way]
    total = sum(counts.values())
    ended = total - counts[JobState.QUEUED] - counts[JobState.RUNNING]
    return Progress(**counts, share=(ended + inside) / total if total else 1.0, stage=_common(stages))


def place_of(experiment: Experiment) -> int | None:
    """Return the queue place, from 1, of its first waiting run; None if no run waits."""
    return states.place_of(RUNS, experiment.runs.all())


class Shown:
    """An experiment with the readings of its runs; each one is computed when it is first needed."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment

    @cached_property
    def progress(self) -> Progress:
        """Its progress."""
        return progress_of(self.experiment)

    @property
    def place(self) -> int | None:
        """The queue place of its first queued run."""
        return place_of(self.experiment)

    @property
    def standing(self) -> bool:
        """Whether rejected bids stand under policies with posted prices."""
        return bids_stand(self.experiment)

    @property
    def comparison(self) -> "Comparison | None":
        """Its comparison with the experiment that it repeats."""
        return comparison_of(self.experiment)


def _common(stages: list[Stage]) -> Stage:
    return stages[0] if stages and all(stages) else Stage.BEGUN


def bids_stand(experiment: Experiment) -> bool:
    """Return whether rejected bids stand under policies with posted prices.

    In experiments of versions before bids could stand, which do not say it, rejections were final.
    """
    return bool(experiment.matrix.get("standing", False))


def tag_of(experiment: Experiment) -> tuple[object, ...]:
    """Return a tag that changes whenever a reading of the experiment changes."""
    runs = experiment.runs.order_by()
    moved = runs.aggregate(
        ended=Max("ended_at"), begun=Max("started_at"), decided=Sum("decided"), tries=Sum("attempts")
    )
    states = sorted(runs.values_list("state", "stage").annotate(Count("pk")))
    return experiment.pk, tuple(moved.values()), tuple(states)


@dataclass(frozen=True)
class Cell:
    """A run with its outcome."""

    run: Run
    workload: str
    """Title of its workload."""
    policy: str | None
    """Label of its policy; None if it computes a bound."""
    document: Json | None
    """Its outcome, without the lists of lines and tenants; None if there is no outcome yet."""

    @property
    def outcome(self) -> Json | None:
        """The whole outcome, read from the database."""
        text = Run.objects.values_list("outcome", flat=True).filter(pk=self.run.pk).first()
        return json.loads(text) if text else None

    @property
    def identity(self) -> str:
        """Hash of all inputs of the run: sources, workload, policy with parameters, seed."""
        return "" if self.document is None else _identity(self.run, self.document)


def _identity(run: Run, document: Json) -> str:
    parts = [run.sources, run.workload_sha256, document.get("policy"), document["seed"]]
    if "standing" in document:  # not in outcomes of final rejections, whose identities stay as they were
        parts.append(document["standing"])
    return hashlib.sha256(canonical(parts).encode()).hexdigest()


@dataclass(frozen=True)
class PolicyResult:
    """The results of a policy on a workload, over all seeds."""

    workload: int
    title: str
    """Title of the workload."""
    policy: int
    label: str
    """Name of the policy, with the parameters that distinguish it from another one of the same name."""
    completed: int
    """Number of completed runs."""
    values: dict[str, Interval | None]


@dataclass(frozen=True)
class Bound:
    """Upper bound on welfare on a workload: means over seeds."""

    workload: int
    title: str
    """Title of the workload."""
    kinds: tuple[str, ...]
    value: Interval
    gap: float | None
    """Largest gap over the seeds: (bound - welfare) / welfare of the best policy; None if there is no figure yet."""
    cpu_s: float
    """CPU-seconds of all seeds together."""


@dataclass(frozen=True)
class MetricRow:
    """A metric in the results of an experiment."""

    name: str
    metric: Metric
    synthetic: bool
    """Whether it depends on drawn data in any workload."""


@dataclass(frozen=True)
class Results:
    """The runs of an experiment and their summaries."""

    experiment: Experiment
    cells: tuple[Cell, ...]

    workloads: tuple[str, ...]
    """Titles of the workloads."""
    policies: tuple[str, ...]
    """Labels of the policies, all different."""

    @property
    def state(self) -> JobState:
        """State of the experiment."""
        return progress_of(self.experiment).state

    @property
    def metrics(self) -> list[MetricRow]:
        """All metrics."""
        numbers = range(len(self.workloads))
        return [
            MetricRow(name, metric, any(self.is_synthetic(name, number) for number in numbers))
            for name, metric in METRICS.items()
        ]

    @cached_property
    def bounds(self) -> dict[tuple[int, int], Cell]:
        """The computed bounds by workload and seed."""
        found = (cell for cell in self.cells if cell.run.policy is None and cell.document is not None)
        return {(cell.run.workload, cell.run.seed): cell for cell in found}

    def ran(self, cell: Cell) -> Ran | None:
        """Return the data of a run for metrics; None if it is not completed or computes a bound."""
        document, timing = cell.document, cell.run.timing
        if document is None or timing is None or cell.run.policy is None:
            return None
        bound = self.bounds.get((cell.run.workload, cell.run.seed))
        value = None if bound is None or bound.document is None else bound.document["bound"]["value"]
        return Ran(document["workload"], document["outcome"], timing, value)

    @cached_property
    def rows(self) -> list[PolicyResult]:
        """Return a row for every policy on every workload."""
        by: dict[tuple[int, int], list[Ran]] = {}
        for cell in self.cells:
            ran = self.ran(cell)
            if ran is not None and cell.run.policy is not None:
                by.setdefault((cell.run.workload, cell.run.policy), []).append(ran)
        return [
            PolicyResult(workload, title, policy, label, len(runs), _values(runs))
            for workload, title in enumerate(self.workloads)
            for policy, label in enumerate(self.policies)
            for runs in [by.get((workload, policy), [])]
        ]

    @cached_property
    def bound_rows(self) -> list[Bound]:
        """Return the bound of every workload that has one."""
        found = []
        for workload, title in enumerate(self.workloads):
            cells = [cell for (w, _), cell in self.bounds.items() if w == workload]
            rows = [cell.document["bound"] for cell in cells if cell.document is not None]
            value = interval([row["value"] for row in rows])
            if value is not None:
                cpu_s = sum(cell.run.timing["cpu_s"] for cell in cells if cell.run.timing is not None)
                kinds = tuple(sorted({row["kind"] for row in rows}))
                found.append(Bound(workload, title, kinds, value, self._gap(workload), cpu_s))
        return found

    def _gap(self, workload: int) -> float | None:
        best: dict[int, tuple[float, float]] = {}
        for cell in self.cells:
            ran = self.ran(cell)
            if ran is not None and cell.run.workload == workload and ran.bound is not None:
                welfare = max(best.get(cell.run.seed, (0.0, 0.0))[1], float(ran.outcome["welfare"]))
                best[cell.run.seed] = ran.bound, welfare
        return max((bound / welfare - 1 for bound, welfare in best.values() if welfare > 0), default=None)

    def is_synthetic(self, metric: str, workload: int) -> bool:
        """Return whether a metric on a workload depends on drawn data."""
        if not METRICS[metric].of_tenants:
            return METRICS[metric].synthetic
        return "shares" in self.experiment.matrix["workloads"][workload]["source"]

    @property
    def notes(self) -> list[str]:
        """Return notes on synthetic data and on lines that are no jobs; each note once."""
        notes: dict[str, None] = {}
        for cell in self.cells:
            if cell.document is not None:
                facts = cell.document["workload"]
                notes[f"{cell.workload}: {facts['note'].partition(' (seed')[0]}."] = None
                lines = facts["malformed_lines"], facts["refused_lines"]
                if any(lines):
                    notes[f"{self.workloads[cell.run.workload]}: {lines[0]} malformed lines, {lines[1]} refused."] = (
                        None
                    )
        return list(notes)

    @property
    def warnings(self) -> list[str]:
        """Return warnings about horizons that are too short for the jobs: one for each workload, of its worst seed."""
        worst: dict[int, Json] = {}
        for cell in self.cells:
            # Outcomes of earlier versions do not have this key.
            reach = {} if cell.document is None else cell.document["workload"].get("reach", {})
            if reach.get("warning") and reach["beyond"] > worst.get(cell.run.workload, {"beyond": -1})["beyond"]:
                worst[cell.run.workload] = reach
        return [f"{self.workloads[number]}: {worst[number]['warning']}" for number in sorted(worst)]


def results_of(experiment: Experiment) -> Results:
    """Return the results of all runs in order."""
    texts = experiment.runs.exclude(outcome="").values_list("pk", "outcome", named=True)
    # Read a few at a time: 400 outcomes with all malformed lines are 75 MB, and ten times as much once parsed.
    outcomes = {row.pk: _brief(json.loads(row.outcome)) for row in in_pages(texts, by="pk", size=10)}
    workloads = tuple(row["title"] for row in experiment.matrix["workloads"])
    policies = tuple(policy_labels(experiment.matrix["policies"]))
    cells = tuple(
        Cell(run, workloads[run.workload], None if run.policy is None else policies[run.policy], outcomes.get(run.pk))
        for run in experiment.runs.order_by("number").defer("outcome")
    )
    return Results(experiment, cells, workloads, policies)


def _brief(document: Json) -> Json:
    """Return the part of an outcome that tables and metrics read."""
    left = {key: value for key, value in document["workload"].items() if key not in ("malformed", "refused")}
    if "outcome" not in document:
        return {**document, "workload": left}
    figures = {key: value for key, value in document["outcome"].items() if key != "tenants"}
    return {**document, "workload": left, "outcome": figures}


def policy_labels(policies: list[Json]) -> list[str]:
    """Return a label for each policy: its name, and the parameters that differ if the name occurs more than once."""
    names = [row["name"] for row in policies]
    labels = []
    for row in policies:
        alike = [other["parameters"] for other in policies if other["name"] == row["name"]]
        differ = [key for key in row["parameters"] if len({canonical(other[key]) for other in alike}) > 1]
        more = ", ".join(f"{key}={_short(row['parameters'][key])}" for key in differ)
        labels.append(f"{row['name']} ({more})" if names.count(row["name"]) > 1 else row["name"])
    return labels


def _short(value: object) -> str:
    return value if isinstance(value, str) else canonical(value)


def _values(rows: list[Ran]) -> dict[str, Interval | None]:
    read = {name: [metric.read(ran) for ran in rows] for name, metric in METRICS.items()}
    return {name: interval([x for x in numbers if x is not None]) for name, numbers in read.items()}


@dataclass(frozen=True)
class Comparison:
    """Comparison of an experiment with the one it repeats."""

    other: Experiment
    same: int
    """Number of runs whose outcome has the same bytes."""
    differ: tuple[int, ...]
    """Numbers of the runs whose outcome differs."""
    open: int
    """Number of runs that are not completed in both experiments."""
    same_sources: bool
    """Whether both used the same source code."""


def comparison_of(experiment: Experiment) -> Comparison | None:
    """Compare an experiment with the one it repeats; None if it repeats none."""
    other = experiment.rerun_of
    if other is None:
        return None
    columns = ("number", "outcome_sha256", "sources")
    mine = {number: rest for number, *rest in experiment.runs.values_list(*columns)}
    theirs = {number: rest for number, *rest in other.runs.values_list(*columns)}
    both = [n for n in mine if mine[n][0] and theirs.get(n, ["", ""])[0]]
    differ = tuple(sorted(n for n in both if mine[n][0] != theirs[n][0]))
    sources = {rest[1] for n in both for rest in (mine[n], theirs[n])}
    return Comparison(other, len(both) - len(differ), differ, len(mine) - len(both), len(sources) <= 1)
