"""Refund of a failed job: the posted cost of the undelivered slots, or what an operator chooses."""

from enum import StrEnum
from math import fsum

from auctions.models import Bid, Commitment, DecisionRecord
from scheduling.model.decision import parse


class Refund(StrEnum):
    """The refund that an operator may choose when a job fails."""

    UNDELIVERED = "undelivered"
    """The cost of the slots that were not delivered."""
    FULL = "full"
    """The whole payment."""
    NONE = "none"
    """No refund."""


def refund_of(bid: Bid, how: Refund, *, now: int) -> float:
    """Return the refund of a job that fails in slot `now`, money; between 0 and its payment."""
    paid = bid.payment or 0.0
    if how is Refund.NONE or not paid:
        return 0.0
    if how is Refund.FULL:
        return paid
    record = DecisionRecord.objects.get(bid=bid)
    # Other machines that keep a promise are not charged, so their slots do not count as delivered.
    cut = now if bid.kept_from is None else min(now, bid.kept_from)
    start = parse(record.receipt)["schedule"]["start"]
    if record.costs is None:
        return paid * _share_after(bid, cut)
    return undelivered(record.costs, paid=paid, start=start, cut=cut)


def undelivered(costs: list[float], *, paid: float, start: int, cut: int) -> float:
    """Return the posted cost of the slots from `cut` on, for a schedule that starts in slot `start`, money."""
    return paid if cut <= start else min(paid, fsum(costs[cut - start :]))


def _share_after(bid: Bid, cut: int) -> float:
    """Return the share of a job's machine-slots that lie in slot `cut` or later."""
    rows = Commitment.objects.filter(bid=bid).values_list("count", "start", "end")
    total = sum(count * (end - start) for count, start, end in rows)
    after = sum(count * max(0, end - max(start, cut)) for count, start, end in rows)
    return after / total if total else 1.0
