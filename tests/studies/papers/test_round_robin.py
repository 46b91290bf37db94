"""The baselines of the OASiS figures place machines on servers in turn, and a job's PSs on several servers."""

import numpy as np
import pytest

from scheduling.book.ledger import Ledger
from scheduling.model.schedule import Role
from scheduling.policies.base import Policy
from scheduling.policies.baselines.drf import Drf
from scheduling.policies.simulation import Simulation, simulate
from studies.papers.round_robin import DrfInTurn, FifoInTurn, RrhInTurn, Turn
from studies.workloads.generated.oasis import Setting, draw
from studies.workloads.generated.system import Workload


@pytest.fixture(scope="module")
def work() -> Workload:
    return draw(Setting(servers=6, slots=20, jobs=5), np.random.default_rng(3))


def played(policy: Policy, work: Workload) -> Simulation:
    return simulate(policy, work.bids, Ledger(work.inventory, start=0, slots=40), until=400)


def ps_servers(policy: Policy, work: Workload) -> int:
    """The largest number of servers with PSs of one job at one time."""
    held = [[p for p in job.held if p.role is Role.PS] for job in played(policy, work).done.values()]
    return max(len({p.server for p in pss if p.start <= q.start < p.end}) for pss in held for q in pss)


def test_the_next_machine_goes_to_the_next_server_with_room() -> None:
    turn = Turn()
    first, second = turn.place(np.array([2, 2, 2]), 4), turn.place(np.array([2, 0, 2]), 3)
    assert first is not None
    assert second is not None
    assert (first.tolist(), second.tolist()) == ([2, 1, 1], [1, 0, 2])
    assert turn.place(np.array([1, 1, 0]), 3) is None


@pytest.mark.parametrize("policy", [FifoInTurn(), DrfInTurn(), RrhInTurn()], ids=["fifo", "drf", "rrh"])
def test_every_admitted_job_is_complete_and_no_server_is_overbooked(policy: Policy, work: Workload) -> None:
    over = played(policy, work)
    admitted = {decision.bid_id for decision in over.decisions if decision.admitted}
    assert admitted
    assert admitted == set(over.done)


def test_pss_of_a_job_are_on_several_servers(work: Workload) -> None:
    assert ps_servers(DrfInTurn(), work) > ps_servers(Drf(), work) == 1
