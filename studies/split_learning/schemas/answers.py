"""Plans in REST, as they are answered."""

# ruff: noqa: D101 (the name of a class says what it describes, and its fields have help texts)
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from scheduling.model.types import Json
from studies.background.shapes import JobRow, Place
from studies.job_tables import PLANS
from studies.models import ComparisonKind
from studies.split_learning.plans import readings
from web.pagination import Page
from web.schema import Schema, named


def slots_out(text: str, *, null: bool = False) -> serializers.IntegerField:
    """Return the field for a number of slots in an answer."""
    return serializers.IntegerField(allow_null=null, min_value=0, help_text=f"{text}, slots.")


class StepOut(Schema):
    seconds = serializers.FloatField(help_text="Seconds since kernels were loaded.")
    lower_bound, makespan = slots_out("No plan is shorter"), slots_out("The best so far", null=True)
    note = serializers.CharField(allow_blank=True, help_text="What was done last.")

    def to_representation(self, instance: Any) -> Any:
        """Write a stored step, which is a list."""
        return super().to_representation(readings.Known(*instance))


@extend_schema_field(
    {"type": "array", "items": {"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "integer"}}}
)
class Pieces(serializers.JSONField):
    """A list of pairs of slots."""


class PathOut(Schema):
    client = serializers.CharField(help_text="Name of the client.")
    helper = serializers.CharField(help_text="Name of its helper.")
    release = slots_out("Until its forward pass arrives at the helper")
    forward = Pieces(help_text="When its forward pass runs: pairs of the first slot and the slot after the last one.")
    gap = slots_out("From the end of the forward pass to the arrival of the backward pass")
    backward = Pieces(help_text="When its backward pass runs, as `forward`.")
    tail = slots_out("From the end of the backward pass to the end of the batch")
    completion, slack = slots_out("End of its batch"), slots_out("How much earlier than the slowest client it ends")
    waiting = slots_out("How long its passes waited or were interrupted")
    key_forward = serializers.IntegerField(
        help_text="Priority of its forward pass: of the passes that have arrived, the greatest one runs."
    )
    key_backward = serializers.IntegerField(help_text="Priority of its backward pass.")


class ReplannedOut(Schema):
    client = serializers.CharField(help_text="Name of the client.")
    helper = serializers.CharField(allow_null=True, help_text="Name of its helper; null if it dropped out.")
    what = serializers.ChoiceField(
        ["kept", "joined", "moved", "dropped"],
        help_text="kept: it stays on its helper; moved: its helper is gone.",
    )
    completion_before = slots_out("End of its batch in the plan before", null=True)
    completion = slots_out("End of its batch now", null=True)


class ResultOut(Schema):
    makespan, lower_bound = slots_out("End of the slowest client's batch"), slots_out("No plan is shorter")
    makespan_s = serializers.FloatField(help_text="The makespan, seconds.")
    preemptive = serializers.BooleanField(help_text="Whether a pass that arrives interrupts one with a smaller key.")
    interruptions = serializers.IntegerField(help_text="How often a pass is interrupted.")
    clients = PathOut(many=True, help_text="The path of each client, in the order of the instance.")
    changes = ReplannedOut(
        many=True, allow_null=True, help_text="Of a plan made again: its effect on each client; else null."
    )
    from_scratch = slots_out("Of a plan made again: the best makespan with no assignment kept", null=True)

    def to_representation(self, instance: Any) -> Any:
        """Write the result of a plan's row; None without one."""
        result = instance.result
        if result is None:
            return None
        made: Json = {
            "makespan_s": result["makespan"] * instance.slot_ms / 1000,
            "clients": readings.clients_of(instance),
            "changes": None,
            "from_scratch": None,
        }
        return super().to_representation({**made, **result})


class PlanRow(JobRow):
    label = named(serializers.CharField(allow_blank=True, help_text="Your name for the plan."))
    method = serializers.CharField(help_text="Method of planning.")
    seconds = serializers.FloatField(help_text="Time budget, seconds.")
    seed = serializers.IntegerField(help_text="Seed of what the method draws.")
    helpers = serializers.IntegerField(help_text="Number of helpers.")
    clients = serializers.IntegerField(help_text="Number of clients.")
    slot_ms = serializers.IntegerField(help_text="Length of a slot, milliseconds.")
    lower_bound, makespan = slots_out("No plan is shorter", null=True), slots_out("The best so far", null=True)
    gap = serializers.FloatField(allow_null=True, help_text="makespan / lower_bound - 1; 0: proven to be optimal.")
    of = serializers.IntegerField(
        source="of_id", allow_null=True, help_text="Number of the plan with which it is compared."
    )
    comparison = serializers.ChoiceField(
        ComparisonKind.choices, allow_blank=True, help_text="The kind of comparison; empty for a plan on its own."
    )
    cluster = serializers.CharField(
        source="cluster.name", allow_null=True, help_text="Name of the cluster whose servers are the helpers."
    )
    optimal = serializers.BooleanField(help_text="Whether the best so far is proven to be optimal.")
    note = serializers.CharField(allow_blank=True, help_text="What was done last.")


class PlanOut(PlanRow):
    place = Place(PLANS)
    instance = serializers.DictField(help_text="The instance with all names, in the format of requests.")
    steps = StepOut(many=True, help_text="What was known when, oldest first; of many steps only some are kept.")
    result = ResultOut(source="*", allow_null=True, help_text="The plan; null while there is none.")


class PlanPage(Page):
    results = PlanRow(many=True, help_text="Plans, newest first.")


class ComparedOut(Schema):
    plan = PlanRow(help_text="The plan itself, or one that is compared with it.")
    above_bound = serializers.FloatField(
        source="above",
        allow_null=True,
        help_text="makespan / the best bound of all compared plans - 1; null before either is known.",
    )
    saved_slots = serializers.IntegerField(
        allow_null=True, help_text="Slots by which it is shorter than the one before; null before both are known."
    )


class LengthOut(Schema):
    plan = serializers.IntegerField(help_text="Number of the plan.")
    slot_ms = serializers.IntegerField(help_text="Length of a slot, milliseconds.")
    makespan = slots_out("Makespan; null before the plan is completed, as are the next fields", null=True)
    makespan_ms = serializers.IntegerField(allow_null=True, help_text="Makespan in milliseconds, so that all compare.")
    bound_ms = serializers.IntegerField(allow_null=True, help_text="No plan in such slots is shorter, milliseconds.")
    compute_s = serializers.FloatField(allow_null=True, help_text="Seconds until the method was done.")


class ComparisonsOut(Schema):
    methods = ComparedOut(many=True, help_text="The plan, then the same instance under other methods; or empty.")
    helpers = ComparedOut(many=True, help_text="The plan, then with one helper more each; or empty.")
    slots = LengthOut(many=True, help_text="The plan and the same devices in other slots, the shortest slots first.")
    replanned = PlanRow(many=True, help_text="Plans made again after changes, in order of request.")


class SubmittedOut(Schema):
    submitted = PlanRow(many=True, help_text="The new plans; empty if all of them were requested before.")


class MakespansOut(Schema):
    mean = serializers.FloatField(help_text="Mean over all draws, slots.")
    worst = slots_out("Longest of all draws")


class NoisyOut(Schema):
    planned, priorities = slots_out("Planned makespan"), slots_out("If helpers follow the priorities of the plan")
    first_come = slots_out("If helpers run passes in order of arrival")
    replanned = slots_out("If helpers get new priorities, made for the drawn times")
    bound = slots_out("The longest path that no assignment avoids, with the drawn times")


class NoiseOut(Schema):
    spread = serializers.FloatField(
        source="parameters.spread", help_text="Times are multiplied by factors in 1 - spread to 1 + spread."
    )
    seed = serializers.IntegerField(source="parameters.seed", help_text="Seed of the draws.")
    planned = slots_out("Planned makespan")
    priorities = MakespansOut(help_text="If helpers follow the priorities of the plan.")
    first_come = MakespansOut(help_text="If helpers run passes in order of arrival.")
    replanned = MakespansOut(help_text="If helpers get new priorities, made for the drawn times.")
    bound = MakespansOut(help_text="The longest path that no assignment avoids, with the drawn times.")
    draws = NoisyOut(many=True, help_text="Each draw, slots.")
