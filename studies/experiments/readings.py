"""What is told of experiments and traces: on pages, through REST and as CSV alike."""

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
from studies.background.rows import Stage, WorkState
from studies.experiments.metrics import METRICS, Interval, Ran, interval
from studies.experiments.runs import RUNS
from studies.models import Experiment, Run, Trace


def visible_traces(viewer: User) -> "QuerySet[Trace]":
    """An operator's traces are all, anyone else's their own; without their texts and throughputs."""
    traces = Trace.objects.select_related("owner").defer("text", "throughputs")
    return traces if is_operator(viewer) else traces.filter(owner=viewer.pk)


def visible_experiments(viewer: User) -> "QuerySet[Experiment]":
    """An operator's experiments are all, anyone else's their own."""
    experiments = Experiment.objects.select_related("owner", "again_of")
    return experiments if is_operator(viewer) else experiments.filter(owner=viewer.pk)


@dataclass(frozen=True)
class Progress:
    """How far an experiment is."""

    waiting: int
    running: int
    done: int
    failed: int
    cancelled: int
    share: float
    """Runs that ended and what is decided in those that run, of all; 1 at the end."""
    stage: Stage
    """What those that run do before they can begin; empty once one of them has."""

    @property
    def runs(self) -> int:
        """In all."""
        return self.waiting + self.running + self.ended

    @property
    def ended(self) -> int:
        """Runs about which nothing changes any more."""
        return self.done + self.failed + self.cancelled

    @property
    def state(self) -> WorkState:
        """That of the experiment: waiting or running until all have ended, then the worst of them."""
        if self.ended < self.runs:
            return WorkState.RUNNING if self.running or self.ended else WorkState.WAITING
        if self.failed:
            return WorkState.FAILED
        return WorkState.CANCELLED if self.cancelled else WorkState.DONE


def progress_of(experiment: Experiment) -> Progress:
    """As of now."""
    runs = experiment.runs
    counts = {state.value: 0 for state in WorkState}
    counts |= dict(runs.order_by().values_list("state").annotate(Count("pk")))
    under_way = list(runs.filter(state=WorkState.RUNNING).values_list("decided", "jobs", "stage"))
    inside = sum(decided / jobs for decided, jobs, _ in under_way if jobs)
    stages = [Stage(stage) for *_, stage in under_way]
    total = sum(counts.values())
    ended = total - counts[WorkState.WAITING] - counts[WorkState.RUNNING]
    return Progress(**counts, share=(ended + inside) / total if total else 1.0, stage=_common(stages))


def place_of(experiment: Experiment) -> int | None:
    """Place in the queue, from 1, of the first of its runs that waits; None if none does."""
    return states.place_of(RUNS, experiment.runs.all())


def _common(stages: list[Stage]) -> Stage:
    return stages[0] if stages and all(stages) else Stage.BEGUN


def tag_of(experiment: Experiment) -> tuple[object, ...]:
    """What everything told of an experiment depends on."""
    runs = experiment.runs.order_by()
    moved = runs.aggregate(
        ended=Max("ended_at"), begun=Max("started_at"), decided=Sum("decided"), tries=Sum("attempts")
    )
    states = sorted(runs.values_list("state", "stage").annotate(Count("pk")))
    return experiment.pk, tuple(moved.values()), tuple(states)


@dataclass(frozen=True)
class Cell:
    """A run with what came of it."""

    run: Run
    document: Json | None
    """Its outcome, without lines and tenants one by one; None while there is none."""

    @property
    def identity(self) -> str:
        """Hash of what it takes to run it again: sources, workload, policy with parameters, seed."""
        return "" if self.document is None else _identity(self.run, self.document)


def _identity(run: Run, document: Json) -> str:
    parts = [run.sources, run.workload_sha256, document.get("policy"), document["seed"]]
    return hashlib.sha256(canonical(parts).encode()).hexdigest()


@dataclass(frozen=True)
class Row:
    """A policy on a workload, over all seeds."""

    workload: int
    policy: int
    label: str
    """Name of the policy, with the parameters that tell it from another of the same name."""
    done: int
    """Runs that are."""
    values: dict[str, Interval | None]


@dataclass(frozen=True)
class Bound:
    """What no policy can exceed on a workload: means over seeds."""

    workload: int
    kinds: tuple[str, ...]
    value: Interval
    gap: float | None
    """By how much of the welfare of a seed's best policy here the bound is above it, at most; None before any is."""
    cpu_s: float
    """Of all seeds together."""


@dataclass(frozen=True)
class Results:
    """An experiment's runs, and what they come to."""

    experiment: Experiment
    cells: tuple[Cell, ...]

    @property
    def workloads(self) -> list[str]:
        """Titles."""
        return [row["title"] for row in self.experiment.matrix["workloads"]]

    @cached_property
    def policies(self) -> list[str]:
        """Labels, no two alike."""
        return policy_labels(self.experiment.matrix["policies"])

    @cached_property
    def bounds(self) -> dict[tuple[int, int], Cell]:
        """Those that are computed, by workload and seed."""
        found = (cell for cell in self.cells if cell.run.policy is None and cell.document is not None)
        return {(cell.run.workload, cell.run.seed): cell for cell in found}

    def ran(self, cell: Cell) -> Ran | None:
        """What metrics read of a run; None while it is not done, or of a bound."""
        document, timing = cell.document, cell.run.timing
        if document is None or timing is None or cell.run.policy is None:
            return None
        bound = self.bounds.get((cell.run.workload, cell.run.seed))
        value = None if bound is None or bound.document is None else bound.document["bound"]["value"]
        return Ran(document["workload"], document["outcome"], timing, value)

    @cached_property
    def rows(self) -> list[Row]:
        """Every policy on every workload."""
        by: dict[tuple[int, int], list[Ran]] = {}
        for cell in self.cells:
            ran = self.ran(cell)
            if ran is not None and cell.run.policy is not None:
                by.setdefault((cell.run.workload, cell.run.policy), []).append(ran)
        return [
            Row(workload, policy, label, len(by.get((workload, policy), [])), _values(by.get((workload, policy), [])))
            for workload in range(len(self.workloads))
            for policy, label in enumerate(self.policies)
        ]

    @cached_property
    def bound_rows(self) -> list[Bound]:
        """The bound of every workload that has one."""
        found = []
        for workload in range(len(self.workloads)):
            cells = [cell for (w, _), cell in self.bounds.items() if w == workload]
            rows = [cell.document["bound"] for cell in cells if cell.document is not None]
            value = interval([row["value"] for row in rows])
            if value is not None:
                cpu_s = sum(cell.run.timing["cpu_s"] for cell in cells if cell.run.timing is not None)
                kinds = tuple(sorted({row["kind"] for row in rows}))
                found.append(Bound(workload, kinds, value, self._gap(workload), cpu_s))
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
        """Whether a figure of a workload rests on what was drawn."""
        if not METRICS[metric].of_tenants:
            return METRICS[metric].synthetic
        return "shares" in self.experiment.matrix["workloads"][workload]["source"]

    @property
    def notes(self) -> list[str]:
        """What is synthetic, lines that are no jobs; each said once."""
        said: dict[str, None] = {}
        for cell in self.cells:
            if cell.document is not None:
                facts = cell.document["workload"]
                said[f"{self.workloads[cell.run.workload]}: {facts['note'].partition(' (seed')[0]}."] = None
                lines = facts["malformed_lines"], facts["refused_lines"]
                if any(lines):
                    said[f"{self.workloads[cell.run.workload]}: {lines[0]} malformed lines, {lines[1]} refused."] = None
        return list(said)

    @property
    def warnings(self) -> list[str]:
        """Where plans do not reach as far ahead as jobs need: each workload's once, of the seed where it is worst."""
        worst: dict[int, Json] = {}
        for cell in self.cells:
            # Outcomes of earlier versions do not say it.
            reach = {} if cell.document is None else cell.document["workload"].get("reach", {})
            if reach.get("warning") and reach["beyond"] > worst.get(cell.run.workload, {"beyond": -1})["beyond"]:
                worst[cell.run.workload] = reach
        return [f"{self.workloads[number]}: {worst[number]['warning']}" for number in sorted(worst)]


def results_of(experiment: Experiment) -> Results:
    """All runs in order."""
    texts = experiment.runs.exclude(outcome="").values_list("pk", "outcome", named=True)
    # A few at a time: 400 outcomes that list every malformed line are 75 MB, and ten times that once they are read.
    told = {row.pk: _brief(json.loads(row.outcome)) for row in in_pages(texts, by="pk", size=10)}
    runs = experiment.runs.order_by("number").defer("outcome")
    return Results(experiment, tuple(Cell(run, told.get(run.pk)) for run in runs))


def outcome_of(run: Run) -> Json | None:
    """All of a run's outcome; None while there is none."""
    text = Run.objects.values_list("outcome", flat=True).filter(pk=run.pk).first()
    return json.loads(text) if text else None


def _brief(document: Json) -> Json:
    """What tables and metrics read of an outcome."""
    left = {key: value for key, value in document["workload"].items() if key not in ("malformed", "refused")}
    if "outcome" not in document:
        return {**document, "workload": left}
    figures = {key: value for key, value in document["outcome"].items() if key != "tenants"}
    return {**document, "workload": left, "outcome": figures}


def policy_labels(policies: list[Json]) -> list[str]:
    """A label for each: its name, and where a name comes more than once the parameters that differ."""
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
    """An experiment beside the one it repeats."""

    other: Experiment
    same: int
    """Runs whose outcome has the same bytes."""
    differ: tuple[int, ...]
    """Numbers of those whose outcome does not."""
    open: int
    """Runs that are not done in both."""
    same_sources: bool
    """Whether the code was the same."""


def comparison_of(experiment: Experiment) -> Comparison | None:
    """With what it repeats; None where it repeats nothing."""
    other = experiment.again_of
    if other is None:
        return None
    columns = ("number", "outcome_sha256", "sources")
    mine = {number: rest for number, *rest in experiment.runs.values_list(*columns)}
    theirs = {number: rest for number, *rest in other.runs.values_list(*columns)}
    both = [n for n in mine if mine[n][0] and theirs.get(n, ["", ""])[0]]
    differ = tuple(sorted(n for n in both if mine[n][0] != theirs[n][0]))
    sources = {rest[1] for n in both for rest in (mine[n], theirs[n])}
    return Comparison(other, len(both) - len(differ), differ, len(mine) - len(both), len(sources) <= 1)
