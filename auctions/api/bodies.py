"""Schemas of requests in the OpenAPI document.

Bodies of bids are checked by `auctions.domain.bid_format`, which has the cluster; these schemas describe what it
accepts.
"""

# ruff: noqa: D101 (each is named for what it describes, and its fields carry their texts)
from typing import Any, Final

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from auctions.domain.bid_format import LARGEST_EPOCHS, LARGEST_LABEL, SMALLEST_ZERO_S, UTILITY_FIELDS
from auctions.domain.refunds import Refund
from cluster.models import LARGEST_CHUNKS, LARGEST_MB, LARGEST_MINIBATCHES, LARGEST_SECONDS
from scheduling.model.bid import Architecture
from scheduling.model.validation import LARGEST_MONEY
from web.parameters import LARGEST_SLOT
from web.schema import Schema, named

LONGEST_WHY: Final = 200
"""Letters of a reason that an operator gives."""
MOST_BIDS: Final = 500
"""Bids in one bulk submission."""


def _by_name(text: str) -> serializers.DictField:
    return serializers.DictField(
        child=serializers.FloatField(min_value=0, max_value=LARGEST_SECONDS), required=False, help_text=text
    )


_SECONDS: Final = {"type": "number", "minimum": 0, "maximum": LARGEST_SECONDS}
_UTILITY_TEXTS: Final[dict[str, dict[str, Any]]] = {
    "deadline_s": {**_SECONDS, "description": "Worth nothing if complete later than this, seconds after submission."},
    "zero_at_s": {
        **_SECONDS,
        "minimum": SMALLEST_ZERO_S,
        "description": "When worth has fallen to 0, seconds after submission.",
    },
    "steepness_per_s": {**_SECONDS, "description": "How steeply worth falls, per second."},
    "midpoint_s": {**_SECONDS, "description": "When half the worth is gone, seconds after submission."},
    "points": {
        "type": "array",
        "minItems": 1,
        "items": {"type": "array", "minItems": 2, "maxItems": 2, "items": {**_SECONDS}},
        "description": "Pairs of seconds after submission (rising) and fraction of value (0 to 1, not rising).",
    },
}


def _utility_schema(form: str, fields: tuple[str, ...]) -> dict[str, Any]:
    money = {"type": "number", "minimum": 0, "maximum": LARGEST_MONEY, "description": "The most it is worth, money."}
    return {
        "title": form,
        "type": "object",
        "properties": {
            "form": {"type": "string", "enum": [form], "description": "How worth falls as completion comes later."},
            "value": money,
            **{name: _UTILITY_TEXTS[name] for name in fields},
        },
        "required": ["form", "value", *fields],
        "additionalProperties": False,
    }


@extend_schema_field({"oneOf": [_utility_schema(form, fields) for form, fields in UTILITY_FIELDS.items()]})
class UtilityIn(serializers.JSONField):
    """One of the forms, each with fields of its own."""


@extend_schema_field({"type": "number", "minimum": 0, "exclusiveMinimum": True, "maximum": LARGEST_MONEY})
class WeightIn(serializers.FloatField):
    """How much its completion counts."""


class BidIn(Schema):
    label = named(
        serializers.CharField(required=False, allow_blank=True, max_length=LARGEST_LABEL, help_text="Your name for it.")
    )
    model = serializers.CharField(
        required=False, max_length=60, help_text="A profile of this cluster; fills in what is not given."
    )
    epochs = serializers.IntegerField(min_value=1, max_value=LARGEST_EPOCHS, help_text="Passes over the data.")
    chunks = serializers.IntegerField(
        min_value=1, max_value=LARGEST_CHUNKS, required=False, help_text="Data chunks; the most workers at a time."
    )
    minibatches = serializers.IntegerField(
        min_value=1, max_value=LARGEST_MINIBATCHES, required=False, help_text="Mini-batches in a chunk."
    )
    gradient_mb = serializers.FloatField(
        min_value=0, max_value=LARGEST_MB, required=False, help_text="Size of the gradients, MB."
    )
    worker_step_s = _by_name("Seconds a mini-batch takes on a worker, by worker type.")
    ps_step_s = _by_name("Seconds an update takes on a parameter server, by type; not for a ring.")
    upload_delay_s = _by_name("Seconds to upload the data, by server; the server's own where not given.")
    start_after_s = serializers.FloatField(
        min_value=0,
        max_value=LARGEST_SECONDS,
        required=False,
        help_text="Do not start before this many seconds after submission.",
    )
    chunk_mb = serializers.FloatField(
        min_value=0,
        max_value=LARGEST_MB,
        required=False,
        help_text="What the data of a chunk takes of a server's storage until the job is complete, MB; 0 if not given.",
    )
    architecture = serializers.ChoiceField(
        [(str(a), a.name) for a in Architecture],
        required=False,
        help_text="How workers exchange gradients: ps (parameter servers, if not given) or ring (Ring-AllReduce).",
    )
    reduce_step_s = serializers.FloatField(
        min_value=0,
        max_value=LARGEST_SECONDS,
        required=False,
        help_text="Ring: seconds a worker takes to reduce the gradients of a mini-batch; 0 if not given.",
    )
    utility = UtilityIn(
        required=False,
        help_text="What finishing is worth, by when: one of these forms. Where the cluster takes no weight.",
    )
    weight = WeightIn(
        required=False,
        help_text="How much it counts that it is complete early. Instead of utility, where the cluster takes a weight.",
    )


class BulkIn(Schema):
    bids = serializers.ListField(
        child=BidIn(), min_length=1, max_length=MOST_BIDS, help_text="Stored in this order, all or none."
    )


def _why(text: str, *, required: bool = False) -> serializers.CharField:
    return serializers.CharField(required=required, allow_blank=not required, max_length=LONGEST_WHY, help_text=text)


def _some_slot(text: str) -> serializers.IntegerField:
    return serializers.IntegerField(
        required=False, allow_null=True, min_value=-LARGEST_SLOT, max_value=LARGEST_SLOT, help_text=text
    )


class WhyIn(Schema):
    why = _why("Why, for the record, and for owners of jobs that fail by it.")


class DrainIn(WhyIn):
    from_slot = _some_slot("It takes no new work that lasts until this slot or longer; the next slot if not given.")
    deadline_slot = _some_slot("Jobs that still hold it in this slot are moved or fail; they may finish if not given.")


class FailIn(Schema):
    why = _why("Why; the job's owner reads it.", required=True)
    refund = serializers.ChoiceField(
        [(one.value, one.name) for one in Refund],
        required=False,
        help_text="undelivered (if not given): what the slots that were not delivered cost; full: all; none: nothing.",
    )


class TokenIn(Schema):
    username = serializers.CharField(max_length=150, help_text="As for the pages.")
    password = serializers.CharField(max_length=500, help_text="As for the pages.")
