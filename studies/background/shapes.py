"""The shapes that all work has in answers, as the OpenAPI document tells them."""

from rest_framework import serializers

from studies.background.rows import Stage


def stage_field() -> serializers.ChoiceField:
    """What running work does before it can begin."""
    return serializers.ChoiceField(
        [(stage.value, stage.label) for stage in Stage if stage.value],
        allow_blank=True,
        help_text="What it does before it can begin; empty once it has. Kernels that must be compiled take a minute.",
    )


def place_field() -> serializers.IntegerField:
    """Where waiting work stands."""
    return serializers.IntegerField(
        allow_null=True, help_text="Place in the queue, from 1, in which owners take turns; null: nothing of it waits."
    )
