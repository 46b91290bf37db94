"""Experiments as pages show them: figures in words, and a chart of one metric."""

from dataclasses import dataclass

from frontend.figures.experiments import Bar, Line, View
from studies.experiments.metrics import METRICS, Interval, Metric
from studies.experiments.readings import Results


@dataclass(frozen=True)
class Cells:
    """A metric of every policy on one workload."""

    name: str
    metric: Metric
    synthetic: bool
    cells: list[str]


@dataclass(frozen=True)
class Block:
    """A workload's table."""

    number: int
    title: str
    policies: list[str]
    completed: list[int]
    """Number of completed runs of each policy."""
    rows: list[Cells]
    bound: str
    """The bound of all policies in words; empty if it is not known."""


def blocks(results: Results) -> list[Block]:
    """A table for each workload: metrics by policies."""
    bounds = {row.workload: row for row in results.bound_rows}
    found = []
    for number, title in enumerate(results.workloads):
        rows = [row for row in results.rows if row.workload == number]
        cells = [
            Cells(
                name, metric, results.is_synthetic(name, number), [in_words(row.values[name], metric) for row in rows]
            )
            for name, metric in METRICS.items()
            if any(row.values[name] is not None for row in rows)
        ]
        bound = bounds.get(number)
        words = ""
        if bound is not None:
            gap = (
                "" if bound.gap is None else f", at most {bound.gap:.1%} above the best policy here".replace("%", " %")
            )
            value = in_words(bound.value, METRICS["welfare"])
            words = f"{value} ({', '.join(bound.kinds)}{gap}; {bound.cpu_s:.1f} CPU-s for {bound.value.n} seeds)"
        found.append(Block(number, title, [row.label for row in rows], [row.completed for row in rows], cells, words))
    return found


def in_words(value: Interval | None, metric: Metric) -> str:
    """Mean and half of the interval; a dash for none."""
    if value is None:
        return "–"
    mean = _number(value.mean, metric)
    return mean if value.half is None else f"{mean} ± {_number(value.half, metric)}"


def _number(number: float, metric: Metric) -> str:
    if metric.share:
        return f"{100 * number:.1f} %"
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"


def view_of(results: Results, metric: str, workload: int) -> View:
    """Return the content of the chart of a metric."""
    one, bars = METRICS[metric], []
    for row in results.rows:
        value = row.values[metric]
        if row.workload == workload and value is not None:
            bars.append(Bar(row.label, value.n, value.mean, value.half))
    bound = next((row for row in results.bound_rows if row.workload == workload), None)
    line = None
    if bound is not None and metric == "welfare":
        line = Line(f"no policy can exceed, mean over seeds ({', '.join(bound.kinds)})", bound.value.mean)
    elif bound is not None and metric == "ratio":
        line = Line("the bound", 1.0)
    few = "" if all(bar.half is not None for bar in bars) else " One seed has no interval."
    synthetic = results.is_synthetic(metric, workload)
    drawn = f" Synthetic: {'tenants' if one.of_tenants else 'values'} are drawn." if synthetic else ""
    note = f"Mean over seeds with 95 % t intervals.{few}{drawn}"
    return View(one.title, one.unit, results.workloads[workload], bars, line, note, synthetic)
