"""Answers to OASiS instances."""

from collections.abc import Sequence
from dataclasses import replace

from scheduling.best_response.elastic.type_pairs import type_pairs
from scheduling.instances.families import Options, decide_in_order
from scheduling.instances.oasis import OasisInstance, read_oasis
from scheduling.model.decision import Decision
from scheduling.model.errors import InvalidField
from scheduling.model.schedule import Schedule
from scheduling.model.types import Json
from scheduling.policies.oasis import Oasis


def answer(document: object, options: Options) -> Json:
    """Decide the jobs of an instance in order; raises InvalidField naming a field or an option."""
    options.only("OASiS", "policy", "price", "model")
    instance = read_oasis(document)
    return to_document(instance, decide_in_order(_policy(options, instance), instance.bids, instance.ledger()))


def to_document(instance: OasisInstance, decisions: Sequence[Decision]) -> Json:
    """Return decisions in the result format of instance files."""
    jobs = [
        {
            "id": name,
            "accept": decision.admitted,
            "payoff": decision.payoff,
            "payment": decision.payment,
            "value": decision.value,
            "t_hat": None if decision.schedule is None else decision.schedule.completion - 1,
            "schedule": None if decision.schedule is None else _elastic(decision.schedule, instance),
        }
        for name, decision in zip(instance.ids, decisions, strict=True)
    ]
    return {"jobs": jobs, "welfare": sum(decision.value for decision in decisions)}


def _elastic(schedule: Schedule, instance: OasisInstance) -> list[Json]:
    """Machines on each server in each slot that has any: workers y on H servers, PSs z on K."""
    hosts = len(instance.inventory.servers)
    rows: list[Json] = []
    for t in range(schedule.start, schedule.completion):
        counts = [0] * hosts
        for p in schedule.placements:
            if p.start <= t < p.end:
                counts[p.server] += p.count
        if any(counts):
            rows.append({"t": t, "y": counts[: instance.worker_servers], "z": counts[instance.worker_servers :]})
    return rows


def _policy(options: Options, instance: OasisInstance) -> Oasis:
    if options.policy not in (None, Oasis.name):
        raise InvalidField("--policy", f"expected a policy for OASiS instances, got {options.policy}")
    bare = Oasis(price=options.price or "paper", model=options.model or "worker")
    if bare.price != "paper" or (instance.given is None and not _worth_something(instance)):
        return bare
    bounds = instance.bounds()
    return replace(bare, log_low=bounds.log_low, log_high=bounds.log_high)


def _worth_something(instance: OasisInstance) -> bool:
    """Whether some job can be complete with a value above 0; if not, all are rejected, whatever the prices are."""
    return any(
        bid.utility.at(1) > 0 and any(type_pairs(bid, instance.inventory, slots=instance.T + 1 - bid.arrival))
        for bid in instance.bids
    )
