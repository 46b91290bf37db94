"""Common parts of the figures: jobs that must be complete by the end, run through a policy, and the outcome."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from time import process_time

import numpy as np
from numpy.typing import ArrayLike

from scheduling.book.ledger import Ledger
from scheduling.book.running import RunningBook
from scheduling.model.bid import Bid
from scheduling.model.ending import Ending
from scheduling.model.inventory import Inventory
from scheduling.offline import OfflineProblem, best_bound
from scheduling.policies.base import Policy
from scheduling.policies.simulation import Simulation

BUDGET_S = 60.0
"""Time limit of a bound, which never runs out: the number of steps ends it, so that results are reproducible."""


def by_end(bids: Iterable[Bid], end: int) -> tuple[Bid, ...]:
    """The bids, each worth nothing if it is complete after slot `end`: papers stop there, our horizons roll."""
    return tuple(replace(bid, utility=Ending(bid.utility, end - bid.arrival)) for bid in bids)


@dataclass(frozen=True)
class Ran:
    """The result of a run."""

    completion: dict[str, int]
    """Completion of the jobs that were complete in time, by id, slots."""
    payment: dict[str, float]
    """Payments of admitted jobs, money."""
    value: dict[str, float]
    """Values of admitted jobs as planned when they were admitted, money."""
    welfare: float
    """Worth of the completions, money."""
    standalone_value: float
    """The most that any job would be worth if it were alone, money."""
    decision_s: float
    """Processor time of a decision, mean."""


def run(policy: Policy, bids: Sequence[Bid], inventory: Inventory, *, slots: int, until: int) -> Ran:
    """Run bids, in order of arrival, through a policy whose horizon is `slots`; the run stops at slot `until`."""
    policy.check(inventory)
    over = Simulation(policy, RunningBook(Ledger(inventory, start=0, slots=slots)))
    spent = []
    for bid in bids:
        over.advance(bid.arrival)
        began = process_time()
        over.arrive(bid)
        spent.append(process_time() - began)
    while over.book.jobs and over.book.now < until:
        over.advance(over.book.now + 1)
    done = {name: job.completion for name, job in over.done.items() if job.completion is not None}
    granted = [decision for decision in over.decisions if decision.admitted]
    return Ran(
        completion=done,
        payment={decision.bid_id: decision.payment for decision in granted},
        value={decision.bid_id: decision.value for decision in granted},
        welfare=float(sum(bid.utility.at(done[bid.id] - bid.arrival) for bid in bids if bid.id in done)),
        standalone_value=max((decision.standalone_value for decision in over.decisions), default=0.0),
        decision_s=float(np.mean(spent)),
    )


def completions_of(run: Simulation, policy: Policy, bids: Sequence[Bid]) -> dict[str, float]:
    """Return the completion of each job, slots; raises RuntimeError if a job is not complete."""
    done = {name: float(job.completion) for name, job in run.done.items() if job.completion is not None}
    if len(done) != len(bids):
        raise RuntimeError(f"{policy.name} completed {len(done)} of {len(bids)} jobs")
    return done


def share_of_best(welfare: Sequence[float], problem: OfflineProblem) -> tuple[float, ...]:
    """Shares of the most welfare that any schedule covered could have had: of its bound, so shares are at least these.

    1 where nobody could have had any.
    """
    bound = best_bound(replace(problem, known=max(welfare)), lambda: BUDGET_S).bound
    return tuple(one / bound if bound > 0 else 1.0 for one in welfare)


def listed(numbers: ArrayLike, digits: int = 2) -> str:
    """Numbers as words of a finding: `1.20, 2.05`."""
    # Adding 0 to a rounded number turns -0 into 0.
    rounded = np.round(np.asarray(numbers, dtype=np.float64), digits) + 0.0
    return ", ".join(f"{number:.{digits}f}" for number in rounded.tolist())
