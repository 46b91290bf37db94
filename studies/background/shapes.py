"""OpenAPI schemas that all kinds of background work share."""

from rest_framework import serializers

from studies.background.models import Stage


def stage_field() -> serializers.ChoiceField:
    """Return the field that says what running work does before it can begin."""
    return serializers.ChoiceField(
        [(stage.value, stage.label) for stage in Stage if stage.value],
        allow_blank=True,
        help_text="What it does before it can begin; empty once it has. Kernels that must be compiled take a minute.",
    )


def place_field() -> serializers.IntegerField:
    """Return the field for the place of waiting work in the queue."""
    return serializers.IntegerField(
        allow_null=True, help_text="Place in the queue, from 1, in which owners take turns; null: nothing of it waits."
    )
