"""Requests for plans in REST."""

# ruff: noqa: D101 (the name of a class says what it describes, and its fields have help texts)
from collections.abc import Callable, Container, Mapping
from typing import Any, Final, TypeVar

from rest_framework.fields import empty

from cluster.models import Cluster
from scheduling.model.errors import InvalidField
from scheduling.model.types import Json
from scheduling.model.validation import shown
from scheduling.split_learning.methods import METHODS
from studies.models import MOST_SECONDS
from studies.split_learning.changes import changed
from studies.split_learning.profiles import instance_of_profile
from studies.split_learning.scenarios import instance_of_scenario
from studies.split_learning.schemas.changes import ChangesIn
from studies.split_learning.schemas.instance import InstanceIn, check_pairs
from studies.split_learning.schemas.profile import ProfileIn, ScenarioIn
from studies.split_learning.server_memory import with_server_memory
from web.fields import Choice, Integer, Number, Text
from web.schema import Schema, named, refused

SECONDS: Final = 10.0
"""Time budget of a request without one."""
LEAST_SECONDS: Final = 0.1
LONGEST_LABEL: Final = 120
SOURCES: Final = ("instance", "profile", "scenario")
"""Keys of a request; it must have exactly one of them."""
T = TypeVar("T")


class ClusterName(Text):
    """The name of a cluster; its value is the cluster. Those that are `closed` in the context do not exist."""

    def run_validation(self, data: Any = empty) -> Any:
        """Return the cluster; raises ValidationError if there is none of this name."""
        if data is None or data is empty:
            return super().run_validation(data)
        found = cluster_named(data, closed=self.context.get("closed", ()))
        if found is None:
            raise refused(InvalidField("", f"expected a cluster, got {shown(data)}"))
        return found


def cluster_named(name: object, *, closed: Container[str] = ()) -> Cluster | None:
    """Return the cluster of this name; None without one, or if the name is one of the `closed`."""
    is_known = isinstance(name, str) and name not in closed
    return Cluster.objects.filter(name=name).first() if is_known else None


def seconds_in(text: str) -> Number:
    """Return the field for a time budget."""
    return Number(LEAST_SECONDS, MOST_SECONDS, required=False, help_text=f"Time budget, seconds; {text} if not given.")


def seed_in(text: str) -> Integer:
    """Return the field for the seed of random methods."""
    return Integer(0, 10**9, required=False, help_text=f"Seed of what the method draws; {text} if not given.")


class LabelledIn(Schema):
    label = named(
        Text(
            LONGEST_LABEL,
            blank=True,
            line=True,
            required=False,
            help_text="Your name for the plan. A plan made again has the label of the plan before if not given.",
        )
    )

    def with_memory(self, data: Any, key: str, cluster: Cluster | None) -> Any:
        """Return the body with the memory of the cluster's servers in the instance or profile under `key`."""
        if not isinstance(data, Mapping) or key not in data:
            return data
        return {**data, key: at(key, lambda: with_server_memory(data[key], cluster))}


class PlanIn(LabelledIn):
    instance = InstanceIn(required=False, help_text="The instance to plan. Or give a profile or a scenario.")
    profile = ProfileIn(required=False, help_text="Measured devices, cuts, links and memory.")
    scenario = ScenarioIn(required=False, help_text="Measured devices and links, drawn from a seed.")
    method = Choice(list(METHODS), required=False, help_text="exact if not given.")
    seconds = seconds_in(f"{SECONDS:g}")
    seed = seed_in("0")
    cluster = ClusterName(
        required=False, allow_null=True, help_text="Name of a cluster: each helper is then one of its servers, by name."
    )

    def to_internal_value(self, data: Any) -> Any:
        """Fill in the memory of servers, then check each field."""
        if isinstance(data, Mapping):
            cluster = cluster_named(data.get("cluster"), closed=self.context.get("closed", ()))
            for key in ("instance", "profile"):
                data = self.with_memory(data, key, cluster)
        self._body = data
        return super().to_internal_value(data)

    def wrong_keys(self, data: dict[str, Any]) -> dict[str, str]:
        """Refuse a body without exactly one source, and a cluster where helpers are drawn."""
        given, wrong = [name for name in SOURCES if name in data], {}
        if len(given) != 1:
            got = " and ".join(given) or "none"
            wrong["instance"] = f"expected either {', '.join(SOURCES[:-1])} or {SOURCES[-1]}, got {got}"
        if "scenario" in data and data.get("cluster") is not None:
            wrong["cluster"] = "expected no cluster with a scenario, whose helpers are drawn, got one"
        return wrong

    def validate(self, attrs: Json) -> Json:
        """Return the fields of a `PlanRequest`, with the instance of whichever source was given."""
        (kind,) = (name for name in SOURCES if name in attrs)
        source, origin = attrs.pop(kind), None
        if kind != "instance":
            convert = instance_of_profile if kind == "profile" else instance_of_scenario
            origin = {kind: self._body[kind]}
            source = at(kind, lambda: convert(source))
        return {**attrs, "instance": source, "origin": origin}


class ReplanIn(LabelledIn):
    changes = ChangesIn(required=False, help_text="What has changed, at least one thing. Or give a whole instance.")
    instance = InstanceIn(
        required=False, help_text="The new instance; clients and helpers are the same if their names are."
    )
    seconds = seconds_in("that of the plan before")
    seed = seed_in("that of the plan before")

    def to_internal_value(self, data: Any) -> Any:
        """Fill in the memory of servers, then check each field."""
        return super().to_internal_value(self.with_memory(data, "instance", self.context["cluster"]))

    def wrong_keys(self, data: dict[str, Any]) -> dict[str, str]:
        """Refuse a body without exactly one of the two."""
        if ("instance" in data) == ("changes" in data):
            return {"changes": "expected either changes or instance, got both or none"}
        return {}

    def validate(self, attrs: Json) -> Json:
        """Return the fields of a `PlanRequest`, with the changed instance."""
        if "instance" in attrs:
            return attrs
        instance = at("changes", lambda: changed(self.context["instance"], attrs.pop("changes")))
        at("changes", lambda: check_pairs(len(instance.helpers), len(instance.clients), "join"))
        return {**attrs, "instance": instance}


def at(key: str, act: Callable[[], T]) -> T:
    """Return what `act` returns; an InvalidField becomes the framework's error, named within `key`."""
    try:
        return act()
    except InvalidField as error:
        raise refused(error.inside(key) if error.field else error.at(key)) from None
