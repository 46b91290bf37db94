"""Answers to instances of the weighted-completion scheduler."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from scheduling.batch.consumption import ConsumptionPrice
from scheduling.best_response.rigid.kernel import best_response
from scheduling.book.ledger import Ledger
from scheduling.book.state import Job
from scheduling.instances.families import Options
from scheduling.instances.weighted_completion import WeightedInstance, read_weighted
from scheduling.model.bid import Bid
from scheduling.model.errors import InvalidField
from scheduling.model.progress import constellations
from scheduling.model.schedule import Role, Schedule
from scheduling.model.types import Json
from scheduling.model.utility import Constant
from scheduling.policies.base import Objective, Policy
from scheduling.policies.simulation import simulate
from scheduling.policies.weighted_completion import WeightedCompletion
from scheduling.registry import make_policy


@dataclass(frozen=True)
class JobResult:
    """Result of one job; fields are None without a result, and the schedule is None if the machines changed."""

    completion: int | None = None
    cost: float | None = None
    schedule: Schedule | None = None


def answer(document: object, options: Options) -> Json:
    """Run the jobs of an instance, or place each alone; raises InvalidField naming a field or an option."""
    options.only("weighted completion", "policy", "mode")
    instance = read_weighted(document)
    if instance.alone:
        options.only("weighted completion (with tau and beta)")
        return to_document(instance, [_alone(instance, bid) for bid in instance.bids])
    return to_document(instance, _run(instance, _policy(options, instance)))


def to_document(instance: WeightedInstance, rows: Sequence[JobResult]) -> Json:
    """Return the result of each job, in the order of the file, in the result format of instance files."""
    done = [(bid, row.completion) for bid, row in zip(instance.bids, rows, strict=True) if row.completion is not None]
    return {
        "jobs": [
            {
                "id": name,
                "completion": row.completion,
                "cost": row.cost,
                "schedule": None if row.schedule is None else _document(row.schedule),
            }
            for name, row in zip(instance.ids, rows, strict=True)
        ],
        "weighted_completion": sum(bid.utility.value * completion for bid, completion in done),
        "weighted_flow": sum(bid.utility.value * (completion - bid.arrival) for bid, completion in done),
    }


def _document(schedule: Schedule) -> Json:
    """Start t, slots L, types m and p (-1: none), q = 1 where all is on one server, workers y and PSs s by server."""
    counts: dict[Role, dict[str, int]] = {Role.WORKER: {}, Role.PS: {}}
    types = {Role.PS: -1} | {p.role: p.type for p in schedule.placements}
    for p in schedule.placements:
        counts[p.role][str(p.server)] = p.count
    return {
        "t": schedule.start,
        "L": schedule.completion - schedule.start,
        "m": types[Role.WORKER],
        "p": types[Role.PS],
        "q": int(len({p.server for p in schedule.placements}) == 1),
        "y": counts[Role.WORKER],
        "s": counts[Role.PS],
    }


def _alone(instance: WeightedInstance, bid: Bid) -> JobResult:
    """The least cost by tau against what is in use, at the prices (11): the problem (12), whose slots start at 1."""
    if instance.used is None:
        return JobResult()
    response = best_response(
        replace(bid, arrival=1, utility=Constant(0.0)),
        instance.inventory,
        start=1,
        used=instance.used,
        prices=ConsumptionPrice(instance.lambda_, (instance.kappa,) * len(instance.inventory.resources)),
        above=-float("inf"),
    )
    return (
        JobResult() if response is None else JobResult(response.schedule.completion, response.cost, response.schedule)
    )


def _run(instance: WeightedInstance, policy: Policy) -> list[JobResult]:
    bids = sorted(instance.bids, key=lambda bid: bid.arrival)
    ledger = _ledger(instance, policy)
    end = ledger.end * (1 + len(bids))
    done = simulate(policy, bids, ledger, until=end).done
    return [_row(done[bid.id]) if bid.id in done else JobResult() for bid in instance.bids]


def _ledger(instance: WeightedInstance, policy: Policy) -> Ledger:
    """T slots, and where batches are literal as many as the printed intervals can reach."""
    if isinstance(policy, WeightedCompletion) and policy.mode == "interval":
        return instance.ledger(times=2 * policy.alpha)
    return instance.ledger()


def _row(job: Job) -> JobResult:
    if job.completion is None or len(list(constellations(job.held))) != 1:
        return JobResult(job.completion)
    return JobResult(job.completion, 0.0, Schedule(job.held[0].start, job.completion, job.held))


def _policy(options: Options, instance: WeightedInstance) -> Policy:
    name = options.policy or "weighted_completion"
    if options.mode is not None and name != "weighted_completion":
        raise InvalidField("--mode", f"expected no mode with the policy {name}, got {options.mode}")
    policy = make_policy(name, {"mode": options.mode or "rolling"} if name == "weighted_completion" else {})
    if policy.objective is Objective.WELFARE:
        raise InvalidField("--policy", f"expected a policy without prices, as bids state weights, got {name}")
    if instance.architecture not in policy.architectures:
        raise InvalidField("--policy", f"expected a policy that runs {instance.architecture} jobs, got {name}")
    try:
        policy.check(instance.inventory)
    except InvalidField as error:
        # The error is of the inventory that was made from the file, whose fields have other names.
        raise InvalidField("--policy", f"expected a policy for the file's machines, got {name}: {error}") from None
    return policy
