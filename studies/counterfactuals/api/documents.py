"""Counterfactuals and alternative statements of bids as JSON."""

from dataclasses import asdict

from auctions.counterfactual.alternatives import Alternatives
from scheduling.analysis.truthfulness import Misreport
from scheduling.model.types import Json
from studies.counterfactuals import readings
from studies.models import Counterfactual

PLAIN = (
    "id",
    "state",
    "stage",
    "policy",
    "parameters",
    "since",
    "version",
    "replayed",
    "events",
    "decided",
    "changed",
    "error",
)


def brief(counterfactual: Counterfactual) -> Json:
    """Return one row of a list."""
    times = {name: getattr(counterfactual, name) for name in ("submitted_at", "started_at", "ended_at")}
    return {
        **{name: getattr(counterfactual, name) for name in PLAIN},
        "owner": counterfactual.owner.get_username(),
        **{name: None if at is None else at.isoformat() for name, at in times.items()},
        "duration_s": counterfactual.duration_s,
    }


def full(counterfactual: Counterfactual) -> Json:
    """Return the counterfactual with its totals and with the market's information about its values."""
    result = counterfactual.result
    earlier = None if result is None else result["earlier_changed"]
    note = counterfactual.market.cluster.note
    # Older results do not have this count: then a policy error failed the whole computation.
    failed = None if result is None else result.get("failed_plans", 0)
    return {
        **brief(counterfactual),
        "place": readings.place_of(counterfactual),
        "note": note,
        "earlier_changed": earlier,
        "failed_plans": failed,
        "totals": readings.totals_of(counterfactual),
    }


def alternatives(found: Alternatives, *, slot_s: int) -> Json:
    """Return what other statements of one bid would have brought; times in seconds."""
    return {
        "policy": found.policy.name,
        "truthful": found.truthful,
        "slot": found.slot,
        "value": found.amplitude,
        "time_s": None if found.time is None else found.time * slot_s,
        "by_value": [asdict(point) for point in found.by_value],
        "by_time": [_in_seconds(point, slot_s) for point in found.by_time],
    }


def _in_seconds(point: Misreport, slot_s: int) -> Json:
    return {**asdict(point), "stated": point.stated * slot_s}
