"""Every scheduler completes every job, keeps workers busy for the work there is, and never uses more than there are."""

from fractions import Fraction

import numpy as np
import pytest

from scheduling.preemptive.bounds import least
from studies.papers.preemptive_comparison import SCHEDULERS, competitive_ratios
from studies.workloads.generated.preemptive import Setting, draw
from studies.workloads.generated.system import Workload


@pytest.fixture(scope="module")
def work() -> Workload:
    return draw(Setting(jobs=5, servers=8, span=20, types=(2, 2)), np.random.default_rng(3))


@pytest.mark.parametrize("name", SCHEDULERS)
def test_every_job_is_complete_and_no_worker_is_in_use_twice(name: str, work: Workload) -> None:
    done = SCHEDULERS[name](work)
    assert set(done.completion) == {bid.id for bid in work.bids}
    assert all(done.completion[bid.id] > bid.arrival for bid in work.bids)
    assert done.makespan == max(done.completion.values())
    edge = work.at_edge().inventory
    workers = int(edge.capacity[:, : len(edge.workers)].sum())
    assert (done.busy <= workers + 1e-6).all()


def test_the_edge_alone_does_all_the_work(work: Workload) -> None:
    done = SCHEDULERS["edge"](work)
    kinds = [int(np.argmin([float(t) for t in bid.worker_time])) for bid in work.bids]
    steps = [
        bid.worker_time[k] + bid.transfer_time[k] + bid.ps_time[0] for bid, k in zip(work.bids, kinds, strict=True)
    ]
    total = sum(float(bid.work * step) for bid, step in zip(work.bids, steps, strict=True))
    assert done.busy.sum() == pytest.approx(total, rel=1e-9)


def test_a_scheduler_that_sends_all_to_the_cloud_leaves_the_edge_idle_and_preempts_nobody(work: Workload) -> None:
    done = SCHEDULERS["cloud"](work)
    assert done.busy.sum() == 0
    assert done.preemptions == 0


def test_the_edge_alone_preempts_where_jobs_meet(work: Workload) -> None:
    assert SCHEDULERS["edge"](work).preemptions > 0


def test_faster_workers_lower_both_ratios(work: Workload) -> None:
    bound = least(work.bids, work.inventory, step=2.0)
    slow, fast = (competitive_ratios(work, bound, rule="paper", speed=speed) for speed in (Fraction(1), Fraction(3, 2)))
    assert slow.fractional >= 1
    assert slow.jct >= 1
    assert fast.fractional < slow.fractional
    assert fast.jct < slow.jct
