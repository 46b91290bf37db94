"""Runs end with the horizon, count what is complete by then, and compare with the best there could have been."""

import numpy as np
import pytest

from scheduling.offline import Covers, OfflineProblem
from scheduling.policies.base import Policy
from scheduling.policies.baselines.fifo import Fifo
from scheduling.policies.dps import Dps
from studies.papers.runs import by_end, listed, run, share_of_best
from studies.workloads.generated.dps import Setting, draw
from studies.workloads.generated.system import Workload

SLOTS = 12


@pytest.fixture(scope="module")
def work() -> Workload:
    small = Setting(servers=2, slots=SLOTS, jobs=6, types=1, chunks=(2, 6), epochs=(2, 6), minibatches=(5, 20))
    drawn = draw(small, np.random.default_rng(5))
    return Workload(drawn.inventory, by_end(drawn.bids, SLOTS))


def test_a_completion_after_the_end_is_worth_nothing(work: Workload) -> None:
    bid = work.bids[0]
    last = SLOTS - bid.arrival
    assert bid.utility.at(last) == bid.utility.scaled(2.0).at(last) / 2 > 0
    assert bid.utility.at(last + 1) == 0
    assert bid.utility.curve(last + 3).tolist() == [bid.utility.at(elapsed) for elapsed in range(last + 3)]


@pytest.mark.parametrize("policy", [Dps(), Fifo()], ids=["dps", "fifo"])
def test_a_run_counts_what_is_complete_by_the_end(policy: Policy, work: Workload) -> None:
    ran = run(policy, work.bids, work.inventory, slots=SLOTS, until=SLOTS)
    assert 0 < len(ran.completion) <= len(ran.value) <= len(work.bids)
    assert all(completion <= SLOTS for completion in ran.completion.values())
    worth = {
        bid.id: bid.utility.at(ran.completion[bid.id] - bid.arrival) for bid in work.bids if bid.id in ran.completion
    }
    assert ran.welfare == pytest.approx(sum(worth.values()))
    assert ran.standalone_value >= max(worth.values())
    assert all(ran.payment[name] <= value for name, value in ran.value.items())


def test_nobody_has_more_than_the_best(work: Workload) -> None:
    welfare = [run(policy, work.bids, work.inventory, slots=SLOTS, until=SLOTS).welfare for policy in (Dps(), Fifo())]
    problem = OfflineProblem(work.bids, work.inventory, 0, SLOTS, covers=Covers.RIGID, open_end=False)
    shares = share_of_best(welfare, problem)
    assert all(0 < share <= 1 + 1e-9 for share in shares)
    assert shares[0] / shares[1] == pytest.approx(welfare[0] / welfare[1])


def test_where_nobody_could_have_any_the_share_is_whole(work: Workload) -> None:
    late = by_end(work.bids, 0)
    problem = OfflineProblem(late, work.inventory, 0, SLOTS, covers=Covers.RIGID, open_end=False)
    assert share_of_best([0.0], problem) == (1.0,)


def test_numbers_are_listed_in_words() -> None:
    assert listed([1.0, 2.345]) == "1.00, 2.35"
    assert listed(np.array([10.4]), 0) == "10"
    assert listed([-0.3], 0) == "0"
