"""Results and runs of an experiment as tables, for CSV."""

from collections.abc import Iterator

from studies.experiments.metrics import METRICS
from studies.experiments.readings import Results


def result_rows(results: Results) -> Iterator[list[object]]:
    """Return means over seeds as CSV: a header, then a row for each workload, policy and metric."""
    yield ["workload", "policy", "metric", "unit", "n", "mean", "low_95", "high_95", "synthetic"]
    for row in results.rows:
        for name, metric in METRICS.items():
            value = row.values[name]
            if value is not None:
                numbers = [value.n, value.mean, _blank(value.low), _blank(value.high)]
                place = [row.title, row.label, name, metric.unit]
                yield [*place, *numbers, results.is_synthetic(name, row.workload)]
    for bound in results.bound_rows:
        numbers = [bound.value.n, bound.value.mean, _blank(bound.value.low), _blank(bound.value.high)]
        yield [bound.title, f"bound ({', '.join(bound.kinds)})", "welfare", "money", *numbers, True]


def run_rows(results: Results) -> Iterator[list[object]]:
    """Return every run as CSV with all metrics: a header, then a row for each, which says what in it is synthetic."""
    yield [
        *("run", "workload", "policy", "seed", "state", *METRICS, "bound", "bound_kind", "cpu_s"),
        *("workload_sha256", "outcome_sha256", "sources", "commit", "error", "note"),
    ]
    for cell in results.cells:
        run, ran, document = cell.run, results.ran(cell), cell.document
        found = document["bound"] if document is not None and run.policy is None else None
        figures = ["" if ran is None else _blank(metric.read(ran)) for metric in METRICS.values()]
        bound = ["", ""] if found is None else [found["value"], found["kind"]]
        yield [
            *(run.number, cell.workload, cell.policy or "bound", run.seed, run.state, *figures, *bound),
            "" if run.timing is None else run.timing["cpu_s"],
            *(run.workload_sha256, run.outcome_sha256, run.sources, run.commit, run.error),
            "" if document is None else document["workload"]["note"],
        ]


def _blank(number: float | None) -> object:
    return "" if number is None else number
