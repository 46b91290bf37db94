"""OpenAPI schemas of comparisons with a plan."""

# ruff: noqa: D101 (the name of a class says what it describes, and its fields have help texts)
from rest_framework import serializers

from studies.split_learning.api.serializers import PlanRow
from web.schema import Schema


class RivalOut(Schema):
    plan = PlanRow(help_text="The plan itself, or one asked for beside it.")
    above_bound = serializers.FloatField(
        allow_null=True, help_text="makespan / the best bound of all here - 1; null before either is known."
    )
    brings = serializers.IntegerField(
        allow_null=True, help_text="Slots by which it is shorter than the one before; null before both are known."
    )


class LengthOut(Schema):
    plan = serializers.IntegerField(help_text="Its number.")
    slot_ms = serializers.IntegerField(help_text="Milliseconds of a slot.")
    makespan = serializers.IntegerField(allow_null=True, help_text="Slots; null before it is done, as are the next.")
    makespan_ms = serializers.IntegerField(allow_null=True, help_text="Milliseconds, so that lengths compare.")
    bound_ms = serializers.IntegerField(allow_null=True, help_text="No plan in such slots is shorter, milliseconds.")
    compute_s = serializers.FloatField(allow_null=True, help_text="Seconds until the method was done.")


class BesideOut(Schema):
    methods = RivalOut(many=True, help_text="The plan, then the same instance under other methods; empty before any.")
    helpers = RivalOut(many=True, help_text="The plan, then with one helper more each; empty before any.")
    slots = LengthOut(many=True, help_text="The plan and the same devices in other slots, the shortest first.")
    replanned = PlanRow(many=True, help_text="Made again after changes, as they were asked for.")


class AskedOut(Schema):
    asked = PlanRow(many=True, help_text="What is computed now; empty if all of it was asked before.")
