"""Fields of the market's responses: sums of money, and slots by number, in seconds and in cluster time."""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from cluster.clock import instant_of_slot
from cluster.units import seconds


class ClusterName(serializers.CharField):
    """The name of the cluster in the context."""

    def written(self, _row: object, context: Mapping[str, Any]) -> str:
        """The name."""
        return str(context["cluster"].name)


class SlotSeconds(serializers.FloatField):
    """The start of a slot, or a time in slots, in seconds after the epoch of the cluster in the context."""

    def written(self, slot: int, context: Mapping[str, Any]) -> int:
        """The seconds."""
        return seconds(slot, context["cluster"].slot_seconds)


class SlotStart(serializers.DateTimeField):
    """The start of a slot in the time of the cluster in the context."""

    def written(self, slot: int, context: Mapping[str, Any]) -> str:
        """The time, ISO 8601."""
        return instant_of_slot(context["cluster"], slot).isoformat()


SlotTimes = tuple[serializers.IntegerField, SlotSeconds, SlotStart]


def slot_times(source: str, text: str, *, null: bool = False) -> SlotTimes:
    """Return three fields that write one slot: `..._slot`, `..._s` and `..._at`. `text` says which slot it is."""
    absent = "; null if there is none" if null and "null" not in text else ""
    slot: dict[str, Any] = {"source": source, "allow_null": null}
    own_name = source.endswith("_slot") and "." not in source  # the framework refuses a source that is the field's name
    numbered: dict[str, Any] = {**slot, "source": None if own_name else source}
    return (
        serializers.IntegerField(help_text=f"{text}, slot number{absent}.", **numbered),
        SlotSeconds(help_text="Start of that slot, seconds after the epoch of the cluster.", **slot),
        SlotStart(help_text="Start of that slot, ISO 8601, in cluster time.", **slot),
    )


def money(text: str, *, null: bool = False, source: str | None = None) -> serializers.FloatField:
    """Return a field for a sum of money."""
    return serializers.FloatField(allow_null=null, source=source, help_text=f"{text}, money.")


def number(text: str, *, source: str | None = None, null: bool = False) -> serializers.IntegerField:
    """Return a field for a number of things."""
    return serializers.IntegerField(allow_null=null, source=source, help_text=text)


def string(what: str, *, source: str | None = None, null: bool = False, blank: bool = False) -> Any:
    """Return a field for a string."""
    return serializers.CharField(allow_null=null, allow_blank=blank, source=source, help_text=what)


def wall_time(what: str, *, source: str | None = None, null: bool = False) -> serializers.DateTimeField:
    """Return a field for a time of the wall clock."""
    return serializers.DateTimeField(allow_null=null, source=source, help_text=f"{what}, wall clock, ISO 8601.")
