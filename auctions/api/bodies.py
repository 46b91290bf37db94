"""Shapes of requests: each checks a body, and describes it in OpenAPI. The shape of a bid is `BidIn` of the domain."""

# ruff: noqa: D101 (shapes are named for what they describe, and their fields carry their texts)
from typing import Final

from auctions.domain.bid_check import BidIn
from auctions.domain.refunds import Refund
from web.fields import Choice, Integer, Rows, Text
from web.parameters import LARGEST_SLOT
from web.schema import Schema

LONGEST_REASON: Final = 200
"""Characters of a reason that an operator gives."""
MOST_BIDS: Final = 500
"""Bids in one bulk submission."""


class BulkIn(Schema):
    bids = Rows(BidIn(), least=1, most=MOST_BIDS, help_text="The bids, stored in this order, all or none.")


def _some_slot(text: str) -> Integer:
    return Integer(-LARGEST_SLOT, LARGEST_SLOT, required=False, allow_null=True, help_text=text)


class ReasonIn(Schema):
    reason = Text(
        LONGEST_REASON,
        blank=True,
        line=True,
        default="",
        help_text="The reason, for the record and for owners of jobs that fail by it.",
    )


class DrainIn(ReasonIn):
    from_slot = _some_slot("The server takes no new work in this slot or later; the next slot if not given.")
    deadline_slot = _some_slot("Jobs that still hold it in this slot are moved or fail; they may finish if not given.")


class FailIn(Schema):
    reason = Text(LONGEST_REASON, line=True, help_text="The reason; the job's owner reads it.")
    refund = Choice(
        Refund,
        default=Refund.UNDELIVERED.value,
        help_text="What is paid back: undelivered (what the slots that were not delivered cost), full or none.",
    )


class TokenIn(Schema):
    username = Text(150, help_text="The name that you log in with on the pages.")
    password = Text(500, help_text="The password that you log in with on the pages.")
