"""Answers to DPS instances."""

from collections.abc import Sequence

from scheduling.instances.dps import DpsInstance, read_instance
from scheduling.instances.families import Options, decide_in_order
from scheduling.model.decision import Decision
from scheduling.model.errors import InvalidField
from scheduling.model.schedule import Role, Schedule
from scheduling.model.types import Json
from scheduling.policies.dps import Dps


def answer(document: object, options: Options) -> Json:
    """Decide the jobs of an instance in order; raises InvalidField naming a field or an option."""
    options.only("DPS", "policy", "price", "slot_convention", "start_convention")
    instance = read_instance(document)
    policy = _policy(options, instance)
    return to_document(instance, decide_in_order(policy, instance.bids, instance.ledger(tail=policy.tail)))


def to_document(instance: DpsInstance, decisions: Sequence[Decision]) -> Json:
    """Return decisions in the result format of instance files."""
    jobs = [
        {
            "id": name,
            "accept": decision.admitted,
            "payoff": decision.payoff,
            "payment": decision.payment,
            "value": decision.value,
            "t_hat": None if decision.schedule is None else decision.schedule.completion,
            "schedule": None if decision.schedule is None else _rigid(decision.schedule),
        }
        for name, decision in zip(instance.ids, decisions, strict=True)
    ]
    return {"jobs": jobs, "welfare": sum(decision.value for decision in decisions)}


def _rigid(schedule: Schedule) -> Json:
    """A schedule whose machines stay the same: types, start, duration, machines on each server."""
    counts: dict[Role, dict[str, int]] = {Role.WORKER: {}, Role.PS: {}}
    types = {p.role: p.type for p in schedule.placements}
    for p in schedule.placements:
        counts[p.role][str(p.server)] = p.count
    return {
        "w": types[Role.WORKER],
        "p": types[Role.PS],
        "a": schedule.start,
        "d": schedule.completion - schedule.start,
        "y": counts[Role.WORKER],
        "z": counts[Role.PS],
    }


def _policy(options: Options, instance: DpsInstance) -> Dps:
    if options.policy not in (None, Dps.name):
        raise InvalidField("--policy", f"expected a policy for DPS instances, got {options.policy}")
    parameters: Json = {
        "price": options.price or "paper",
        "slot_convention": options.slot_convention or instance.conventions.get("slot_convention", "half_open"),
        "start_convention": options.start_convention or instance.conventions.get("start_convention", "ge"),
    }
    if parameters["price"] == "paper":
        parameters["eta_worker"], parameters["eta_ps"] = instance.etas or _derived(instance, parameters)
    return Dps(**parameters)


def _derived(instance: DpsInstance, parameters: Json) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Derive the etas of the paper from the instance's own jobs, for a file without prices."""
    return Dps(**parameters).paper_etas(instance.bids, instance.inventory, end=instance.T)
