"""Plans as JSON."""

from dataclasses import asdict

from scheduling.model.types import Json
from studies.models import Plan
from studies.split_learning.plans import readings, states


def brief(plan: Plan) -> Json:
    """Return one row of a list."""
    return {
        **{name: getattr(plan, name) for name in ("id", "label", "state", "stage", "method", "seconds", "seed")},
        **{name: getattr(plan, name) for name in ("helpers", "clients", "slot_ms", "lower_bound", "makespan", "gap")},
        "of": plan.of_id,
        "question": plan.question,
        "owner": plan.owner.get_username(),
        "cluster": None if plan.cluster is None else plan.cluster.name,
        "optimal": plan.optimal,
        "note": plan.note,
        "error": plan.error,
        "submitted_at": plan.submitted_at.isoformat(),
        "started_at": None if plan.started_at is None else plan.started_at.isoformat(),
        "ended_at": None if plan.ended_at is None else plan.ended_at.isoformat(),
        "duration_s": plan.duration_s,
    }


def full(plan: Plan) -> Json:
    """Return the plan with its instance, its progress and its result."""
    result = plan.result
    return {
        **brief(plan),
        "place": states.place_of(plan),
        "instance": plan.instance,
        "steps": readings.steps_of(plan),
        "result": None
        if result is None
        else {
            "makespan": result["makespan"],
            "makespan_s": result["makespan"] * plan.slot_ms / 1000,
            "lower_bound": result["lower_bound"],
            "preemptive": result["preemptive"],
            "interruptions": result["interruptions"],
            "clients": [asdict(client) for client in readings.clients_of(plan)],
            "changes": result.get("changes"),
            "from_scratch": result.get("from_scratch"),
        },
    }
