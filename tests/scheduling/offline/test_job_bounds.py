"""The bound by whole jobs against the optimum of tiny instances, and dual feasible functions."""

from typing import Any

import numpy as np
import pytest

from benchmarks.preemptive_open import closed
from benchmarks.preemptive_quality import DRAWS, total
from scheduling.instances.preemptive import read_preemptive
from scheduling.model.errors import SchedulingError
from scheduling.offline.job_bounds import PARTS, _Job, _measure, _parts, least_jct
from studies.workloads.generated.preemptive import Setting
from studies.workloads.generated.preemptive import draw as draw_setting
from tests.draws import fresh_seed, rounds
from tests.scheduling.twins.documents.preemptive import NoMigration

EXAMPLES = rounds(40)
MOST_JOBS = 3
"""More of them take too long where everything is tried."""


def bound(document: dict[str, Any]) -> float:
    instance = read_preemptive(document)
    return least_jct(instance.bids, instance.inventory, step=1.0, ticks=1) / instance.scale


@pytest.mark.parametrize("draw", DRAWS)
def test_no_schedule_without_migration_is_below_the_bound(draw: str) -> None:
    seed = fresh_seed()
    rng = np.random.default_rng(seed)
    ratios: list[float] = []
    while len(ratios) < EXAMPLES:
        document = DRAWS[draw](rng)
        if len(document["jobs"]) > MOST_JOBS:
            continue
        best = float(NoMigration(document, at_most=total(document, "jobmax") + 1).total())
        ratios.append(bound(document) / best)
        assert ratios[-1] <= 1 + 1e-6, f"seed {seed}, {document}"
    assert np.mean(ratios) > 0.9, seed


def test_jobs_alone_and_jobs_that_exclude_each_other_have_their_optimum_as_bound() -> None:
    server = {"workers": [0], "pss": [0]}
    job = {"r": 0, "D": 1, "p0": 10, "p1": 10, "delta": [0], "delta_cloud": 8}
    alone = {"servers": [server], "cloud": True, "jobs": [job | {"id": 0}]}
    assert bound(alone) == pytest.approx(10)
    # Both take more than half of the 18 slots in which the edge is of use, so one of them is in the cloud.
    both = alone | {"jobs": [job | {"id": i} for i in range(2)]}
    assert bound(both) == pytest.approx(28)


def test_jobs_whose_early_uploads_are_to_the_same_server_are_not_both_early() -> None:
    server = {"workers": [0], "pss": [0]}
    job = {"r": 0, "D": 1, "p0": 100, "p1": 100, "delta": [10, 20], "delta_cloud": 24}
    document = {"servers": [server, server], "cloud": True, "jobs": [job | {"id": i} for i in range(2)]}
    # Two workers have room for two chunks from slot 10 to 110, but one of them has its data in slot 20.
    assert bound(document) == pytest.approx(110 + 120, abs=2)
    crossed = document | {"jobs": [job | {"id": 0}, job | {"id": 1, "delta": [20, 10]}]}
    assert bound(crossed) == pytest.approx(110 + 110)


def test_a_server_holds_no_more_short_chunks_than_its_time() -> None:
    server = {"workers": [0], "pss": [0]}
    job = {"r": 0, "D": 1, "p0": 100, "p1": 100, "delta": [10, 200], "delta_cloud": 230}
    document = {"servers": [server, server], "cloud": True, "jobs": [job | {"id": i} for i in range(3)]}
    # Three would take the server with early uploads until slot 310; each takes less than half of that time.
    assert bound(document) == pytest.approx(110 + 210 + 300, rel=0.02)


def test_without_a_cloud_there_is_no_such_bound() -> None:
    server = {"workers": [0], "pss": [0]}
    job = {"id": 0, "r": 0, "D": 1, "p0": 10, "p1": 10, "delta": [0], "delta_cloud": 8}
    with pytest.raises(SchedulingError, match="expected a cloud with workers for job #0, got none"):
        bound({"servers": [server], "cloud": False, "jobs": [job]})


def test_a_shorter_step_does_not_lower_the_bound() -> None:
    work = draw_setting(Setting(jobs=100, servers=60, span=20), np.random.default_rng(1))
    coarse, fine = (least_jct(work.bids, work.inventory, step=step) for step in (16.0, 0.5))
    assert coarse < fine * (1 - 1e-3)


def test_chunks_that_find_no_early_upload_free_need_more_of_an_interval() -> None:
    # 2 workers are ready at tick 1 and 3 at tick 4; a chunk takes 5 ticks, and all are complete by tick 12.
    job = _Job(
        earliest=11,
        cloud=20,
        chunks=6,
        each=5,
        ready=np.array([1, 4]),
        workers=np.array([2, 3]),
        at_server=np.array([4, 1]),
    )
    assert job.shares(12).tolist() == [4, 2]
    assert job.shares(10).tolist() == [2, 3]
    assert job.shares(9).tolist() == [2, 3]
    parts = _parts([job], [(0, 11, 12)])
    assert parts.within(np.array([[4, 9]])).tolist() == [[0, 2]]


@pytest.mark.parametrize("m", PARTS)
def test_what_fits_an_interval_fits_it_under_every_dual_feasible_function(m: int) -> None:
    rng = np.random.default_rng(fresh_seed())
    for _ in range(200):
        length = int(rng.integers(1, 40))
        parts = rng.integers(1, length + 1, rng.integers(1, 12))
        fitting = parts[np.cumsum(parts) <= length]
        assert _measure(fitting, np.array([[0, length]]), m).sum() <= 1 + 1e-9


def test_the_share_that_is_closed_has_an_interval_around_it() -> None:
    times = np.array([[1.0, 2.0, 1.5], [1.0, 3.0, 2.0], [2.0, 4.0, 3.0]])
    assert closed(times) == "50% [50%, 50%]"
