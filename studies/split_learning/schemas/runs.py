"""Runs of plans in REST, as they are answered."""

# ruff: noqa: D101 (the name of a class says what it describes, and its fields have help texts)
from typing import Any

from rest_framework import serializers

from studies.background.shapes import Place, state_field
from studies.job_tables import PLAN_RUNS
from studies.split_learning.runs import readings
from web.fields import Timestamp
from web.pagination import Page
from web.schema import Schema


class PlanRunRow(Schema):
    id = serializers.IntegerField(help_text="Number, which is part of its address.")
    plan = serializers.IntegerField(source="plan_id", help_text="Number of the plan.")
    owner = serializers.CharField(source="owner.username", help_text="User who requested it.")
    cluster = serializers.CharField(source="cluster.name", help_text="Cluster on whose machine it runs.")
    state = state_field()
    error = serializers.CharField(allow_blank=True, help_text="Why it failed.")
    slot_s = serializers.FloatField(help_text="Length of a slot in this run, seconds.")
    batches = serializers.IntegerField(help_text="Number of batches.")
    begun = serializers.IntegerField(help_text="Batches that have begun.")
    planned_s = serializers.SerializerMethodField(help_text="Planned makespan of a batch, seconds.")
    submitted_at = Timestamp(help_text="When it was requested.")
    started_at = Timestamp(allow_null=True, help_text="When a worker began it.")
    ended_at = Timestamp(allow_null=True, help_text="When it ended.")

    def get_planned_s(self, run: Any) -> float:
        """Return the planned makespan of a batch, seconds."""
        return readings.planned_s(run)


class BatchOut(Schema):
    batch = serializers.IntegerField(help_text="Number of the batch, from 0.")
    planned_s = serializers.FloatField(help_text="Planned makespan, seconds.")
    measured_s = serializers.FloatField(help_text="Measured makespan, seconds.")
    longer = serializers.FloatField(help_text="measured_s / planned_s - 1.")
    mean_loss = serializers.FloatField(help_text="Mean loss of all clients.")


class PlanRunOut(PlanRunRow):
    place = Place(PLAN_RUNS)
    results = BatchOut(many=True, help_text="Planned and measured makespan of each batch; empty until it is completed.")

    def to_representation(self, instance: Any) -> Any:
        """Write a row with its batches."""
        instance.results = readings.batches_of(instance)
        return super().to_representation(instance)


class PlanRunPage(Page):
    results = PlanRunRow(many=True, help_text="Runs, newest first.")
