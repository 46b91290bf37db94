"""REST fields and shapes that all kinds of background jobs share."""

# ruff: noqa: D101 (the name of a class says what it describes, and its fields have help texts)
from typing import Any, Final

from rest_framework import serializers

from scheduling.model.errors import InvalidField, refuse_all
from scheduling.model.types import Json
from scheduling.policies.base import Policy
from scheduling.registry import POLICIES, make_policy
from studies.background import states
from studies.background.models import JobState, Stage
from studies.background.states import JobTable
from web.fields import ByName, Choice, Timestamp, problem_of
from web.schema import Schema

PLACE: Final = "Place in the queue, from 1, in which owners take turns; null if nothing is queued."


def state_field(text: str = "queued and running change, the others are final.", **more: Any) -> Any:
    """Return the field for the state of a job."""
    return serializers.ChoiceField(JobState.choices, help_text=text, **more)


def stage_field(**more: Any) -> serializers.ChoiceField:
    """Return the field that says what a running job does before it can begin."""
    return serializers.ChoiceField(
        [(stage.value, stage.label) for stage in Stage if stage.value],
        allow_blank=True,
        help_text="What it does before it can begin; empty once it has. Kernels that must be compiled take a minute.",
        **more,
    )


def place_field() -> serializers.IntegerField:
    """Return the field for the place of a queued job."""
    return serializers.IntegerField(allow_null=True, help_text=PLACE)


class Place(serializers.IntegerField):
    """The place of a job in the queue of its table."""

    def __init__(self, table: JobTable[Any]) -> None:
        super().__init__(source="*", allow_null=True, help_text=PLACE)
        self.table = table

    def to_representation(self, value: Any) -> Any:
        """The place; None unless the job is queued."""
        return states.place_of_row(self.table, value)


class JobRow(Schema):
    id = serializers.IntegerField(help_text="Number, which is part of its address.")
    owner = serializers.CharField(source="owner.username", help_text="User who requested it.")
    state, stage = state_field(), stage_field()
    error = serializers.CharField(allow_blank=True, help_text="Why it failed.")
    submitted_at = Timestamp(help_text="When it was requested.")
    started_at = Timestamp(allow_null=True, help_text="When a worker began it.")
    ended_at = Timestamp(allow_null=True, help_text="When it ended.")
    duration_s = serializers.FloatField(allow_null=True, help_text="Seconds from start to end, with loading.")


def policy_name(text: str) -> Choice:
    """Return the field for the name of a policy in a request."""
    return Choice(POLICIES, help_text=text)


def policy_parameters() -> ByName:
    """Return the field for the parameters of a policy in a request."""
    text = "Parameters of the policy by name; its defaults for those that are left out."
    return ByName(serializers.JSONField(allow_null=True), default=dict, help_text=text)


def policy_of(name: str, parameters: Json) -> Policy:
    """Return the policy; raises InvalidField that names each wrong parameter as `parameters.name`."""
    try:
        return make_policy(name, parameters)
    except InvalidField as error:
        whole = error.field == "parameters"
        refuse_all([one if whole else one.at(f"parameters.{one.field}") for one in error.all_wrong])
        raise


def wrong_parameters(name: object, parameters: object) -> dict[str, str]:
    """Return what is wrong with the parameters of a policy, as `parameters.name`, if the policy itself is known."""
    if not isinstance(name, str) or name not in POLICIES or not isinstance(parameters, dict):
        return {}
    try:
        policy_of(name, parameters)
    except InvalidField as error:
        return {one.field: problem_of(one) for one in error.all_wrong}
    return {}
