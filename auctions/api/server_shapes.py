"""Shapes of responses about servers: each writes a row, and describes it in OpenAPI."""

# ruff: noqa: D101, D102 (shapes are named for what they describe, and their fields carry their texts)
from rest_framework import serializers

from auctions.api.bid_shapes import ROLES
from auctions.api.fields import number, slot_times, string, wall_time
from auctions.engine.holdings import ServerReading
from auctions.models import BidState
from web.writing import Answer


class HeldOut(Answer):
    sequence = number("Number of the job's bid.")
    owner = string("Name of the user whose job it is.")
    label = string("The owner's name for the job.", blank=True)
    state = serializers.ChoiceField(BidState.choices, help_text="State of the bid.")
    machine_type = string("Name of the machine type.")
    role = serializers.ChoiceField(ROLES, help_text="Whether they are workers or parameter servers.")
    count = number("Number of machines held, or of data chunks in a queue.")
    queued = serializers.BooleanField(help_text="Whether these are data chunks in a worker's queue.")
    start_slot, start_s, start_at = slot_times("start", "First slot in which they are held")
    end_slot, end_s, end_at = slot_times(
        "end", "First slot in which they are no longer held; null without a forecast", null=True
    )


class ServerReadingOut(Answer):
    name = string("Name of the server.")
    kind = string("Kind of the server: edge or cloud.")
    state = serializers.ChoiceField(
        [(name, name) for name in ("in_service", "draining", "drained", "lost")],
        help_text="State of the server. draining: it takes no new work from from_slot on; drained: its deadline has"
        " come; lost: no job holds it.",
    )
    from_slot, from_s, from_at = slot_times(
        "outage.from_slot", "First slot in which it takes no new work; null while in service", null=True
    )
    deadline_slot, deadline_s, deadline_at = slot_times(
        "outage.deadline", "First slot in which no job may hold it any more", null=True
    )
    reason = string("Reason that the operator gave.", blank=True)
    reported_by = string(
        "Operator who reported it; null while in service.", source="outage.reported_by.username", null=True
    )
    reported_at = wall_time("Time of the report; null while in service", source="outage.reported_at", null=True)
    jobs = number("Number of jobs that hold something there.")
    free_from_slot, free_from_s, free_from_at = slot_times(
        "free_from", "First slot from which on no job holds it, by present plans; null without a forecast", null=True
    )
    held = HeldOut(many=True, help_text="Holdings of jobs from now on, by start.")

    @staticmethod
    def reason_of(row: ServerReading) -> str:
        return "" if row.outage is None else row.outage.reason


class ServerPage(Answer):
    results = ServerReadingOut(many=True, help_text="All servers, in the order of prices.")
