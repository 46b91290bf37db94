"""Requests for plans, as `schemas.request` has checked them: an instance, a method, a time budget and a seed."""

import json
from collections.abc import Container
from dataclasses import dataclass

from cluster.models import Cluster
from scheduling.model.types import Json
from scheduling.split_learning.document import instance_document, read_split_learning
from scheduling.split_learning.instance import Instance
from studies.models import Plan
from studies.split_learning.plans.replanned import METHOD
from studies.split_learning.schemas.request import SECONDS, PlanIn, ReplanIn


@dataclass(frozen=True)
class PlanRequest:
    """A request for a plan."""

    instance: Instance
    method: str = "exact"
    seconds: float = SECONDS
    """Time budget, seconds."""
    seed: int = 0
    label: str = ""
    cluster: Cluster | None = None
    """The cluster whose servers are the helpers."""
    origin: Json | None = None
    """The scenario or profile of the instance, as requested."""

    @classmethod
    def from_json(cls, body: object, *, closed: Container[str] = ()) -> "PlanRequest":
        """Read the body of a request; raises InvalidField naming the field, and the helper or client.

        Clusters whose names are in `closed` do not exist for who asks.
        """
        checked = PlanIn.read(body, closed=closed)
        # A form reads numbers as decimals, which are stored as strings.
        origin = json.loads(json.dumps(checked["origin"], default=str))
        return cls(**{**checked, "origin": origin})

    @classmethod
    def to_replan(cls, plan: Plan, body: object) -> "PlanRequest":
        """Read the body of a request to make a plan again; what it does not state is as in the plan.

        Raises
        ------
        InvalidField
            Naming the field or change, and the helper or client.
        """
        before = read_split_learning(plan.instance)
        checked = ReplanIn.read(body, instance=before, cluster=plan.cluster)
        same = {"seconds": plan.seconds, "seed": plan.seed, "label": plan.label}
        return cls(**{**same, **checked, "method": METHOD, "cluster": plan.cluster})

    @property
    def document(self) -> Json:
        """Return the instance as it is stored."""
        return instance_document(self.instance)


def at_slot(origin: Json, slot_ms: int) -> tuple[Instance, Json]:
    """Return the instance in slots of another length, with its scenario or profile; raises InvalidField."""
    ((kind, document),) = origin.items()
    body = {kind: {**document, "slot_ms": slot_ms}}
    return PlanRequest.from_json(body).instance, body
