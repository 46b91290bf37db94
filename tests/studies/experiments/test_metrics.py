"""Means over seeds, their intervals, and what metrics read."""

import numpy as np
import pytest

from cluster.traces.formats import Trace
from cluster.traces.records import TraceJob
from scheduling.policies.baselines.fifo import Fifo
from scheduling.policies.dps import Dps
from studies.experiments.bounds import bound_of
from studies.experiments.metrics import METRICS, Ran, interval
from studies.experiments.readings import policy_labels
from studies.workloads.generated.generators import GENERATORS, GeneratorSource, read_generator
from studies.workloads.traces.source import TraceSource
from studies.workloads.workload import run
from tests.studies.experiments.conftest import TINY


def test_an_interval_is_the_students_t_of_tables() -> None:
    found = interval([1.0, 2.0, 3.0])
    assert found is not None
    assert (found.n, found.mean) == (3, 2.0)
    assert found.half == pytest.approx(4.302653 / np.sqrt(3), rel=1e-6)  # t(2) at 97.5 %
    assert found.low is not None
    assert found.high is not None
    assert found.low + found.high == pytest.approx(4.0)


@pytest.mark.parametrize("numbers", [[0.1 + 0.2, 0.3, 0.3], [0.4097856052284742] * 3, [-7.1] * 3])
def test_equal_figures_have_an_interval_of_no_width(numbers: list[float]) -> None:
    found = interval(numbers)
    assert found is not None
    assert found.half == 0
    assert found.low == found.mean == found.high


def test_small_differences_have_an_interval() -> None:
    found = interval([1e6, 1e6 + 1e-3])
    assert found is not None
    assert found.half == pytest.approx(12.7062 * 0.5e-3, rel=1e-3)  # t(1) at 97.5 %


def test_one_seed_has_no_interval_and_none_has_no_mean() -> None:
    alone = interval([5.0])
    assert alone is not None
    assert (alone.mean, alone.half, alone.low, alone.high) == (5.0, None, None, None)
    assert interval([]) is None


def test_every_metric_reads_a_run_and_welfare_is_never_above_the_bound() -> None:
    workload = read_generator(TINY, "workload").draw(1)
    bound = bound_of(workload, lambda done, total: None)["value"]
    for policy in (Dps(), Fifo()):
        replayed = run(workload, policy)
        outcome = replayed.outcome.to_json()
        ran = Ran(workload.facts(), outcome, replayed.timing.to_json(), bound)
        read = {name: metric.read(ran) for name, metric in METRICS.items()}
        assert read["completed"] == outcome["jobs"]["completed"]
        assert read["welfare"] == read["payoff"] + read["revenue"]  # type: ignore[operator]
        assert read["ratio"] is not None
        assert 0 <= read["ratio"] <= 1
        assert read["fairness"] is None, "there is one tenant"
        assert read["unfinished"] == 0


def test_the_bound_is_the_same_each_time_and_reports_how_far_it_is() -> None:
    workload = read_generator(TINY, "workload").draw(3)
    reported: list[int] = []
    first = bound_of(workload, lambda done, total: reported.append(done))
    assert first == bound_of(workload, lambda done, total: None)
    assert first["covers"] == "any"
    assert reported == sorted(reported)
    assert reported[-1] <= len(workload.jobs.bids)


def test_a_gap_of_thousands_of_years_has_a_bound_that_fits_the_memory() -> None:
    rows = tuple(TraceJob(2 + i, submitted_s, 1, duration_s=600.0) for i, submitted_s in enumerate((0.0, 2.5e11)))
    workload = TraceSource(gpus=8).draw(Trace("philly", "", "", rows, ()), 1)
    assert workload.jobs.bids[-1].arrival > 10**8
    welfare = run(workload, Fifo()).outcome.to_json()["welfare"]
    assert 0 < welfare <= bound_of(workload, lambda done, total: None)["value"] < 2 * welfare


def test_policies_of_one_name_are_distinguished_by_what_differs() -> None:
    rows = [{"name": "dps", "parameters": {"price": price, "eta": 2}} for price in ("quantile", "paper")]
    assert policy_labels([*rows, {"name": "fifo", "parameters": {"blocking": True}}]) == [
        "dps (price=quantile)",
        "dps (price=paper)",
        "fifo",
    ]


@pytest.mark.parametrize("name", GENERATORS)
def test_a_generator_is_read_back_and_draws_the_same_hash(name: str) -> None:
    source = read_generator({"generator": name, "setting": {"jobs": 5, "servers": 3}}, "workload")
    again = read_generator(source.to_json(), "workload")
    assert isinstance(again, GeneratorSource)
    first, second, other = source.draw(1), again.draw(1), source.draw(2)
    assert first.sha256 == second.sha256 != other.sha256
    assert len(first.jobs.bids) == 5
