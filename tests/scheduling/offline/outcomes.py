"""What a run came to by each objective, and the problem whose bound it must keep."""

from collections.abc import Iterator, Sequence

from scheduling.book.ledger import Ledger
from scheduling.book.state import Job
from scheduling.model.bid import Bid
from scheduling.model.inventory import Inventory
from scheduling.offline import Answer, OfflineProblem
from scheduling.policies.base import Objective, Policy
from scheduling.policies.simulation import simulate

ROUNDING = 1e-9


def forever() -> float:
    return 60.0


def finished(policy: Policy, bids: Sequence[Bid], inventory: Inventory, *, slots: int) -> list[Job]:
    going = simulate(policy, bids, Ledger(inventory, start=0, slots=slots), until=100 * slots)
    assert not going.book.jobs
    return list(going.done.values())


def ends_of(done: Sequence[Job]) -> int:
    return max((job.completion or 0 for job in done), default=0)


def outcomes(bids: Sequence[Bid], done: Sequence[Job]) -> Iterator[tuple[Objective, tuple[Bid, ...], float]]:
    """Objective, its bids, and the objective value."""
    ends = [(job.bid, job.completion or 0) for job in done]
    yield Objective.WELFARE, tuple(bids), sum(bid.utility.at(end - bid.arrival) for bid, end in ends)
    served = tuple(bid for bid, _ in ends)
    yield Objective.WEIGHTED_COMPLETION, served, sum(bid.utility.value * end for bid, end in ends)
    yield Objective.COMPLETION, served, float(sum(end - bid.arrival for bid, end in ends))


def holds(answer: Answer, problem: OfflineProblem, total: float) -> bool:
    slack = ROUNDING * max(1.0, abs(total))
    return total <= answer.bound + slack if problem.most else total >= answer.bound - slack
