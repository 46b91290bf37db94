"""What a failed job is paid back: the posted cost of the slots that were not delivered, or what an operator says."""

from enum import StrEnum
from math import fsum

from auctions.models import Bid, Commitment, DecisionRecord
from scheduling.model.decision import parse


class Refund(StrEnum):
    """What an operator may choose when a job fails."""

    UNDELIVERED = "undelivered"
    """What the slots that were not delivered cost."""
    FULL = "full"
    """All it paid."""
    NONE = "none"
    """Nothing."""


def refund_of(bid: Bid, how: Refund, *, now: int) -> float:
    """What a job that fails in slot `now` is paid back, from 0 to what it paid, money."""
    paid = bid.payment or 0.0
    if how is Refund.NONE or not paid:
        return 0.0
    if how is Refund.FULL:
        return paid
    record = DecisionRecord.objects.get(bid=bid)
    # Machines that keep a promise instead of its own are not charged: what they do is no delivery.
    cut = now if bid.kept_from is None else min(now, bid.kept_from)
    start = parse(record.receipt)["schedule"]["start"]
    if record.costs is None:
        return paid * _share_after(bid, cut)
    return undelivered(record.costs, paid=paid, start=start, cut=cut)


def undelivered(costs: list[float], *, paid: float, start: int, cut: int) -> float:
    """Posted cost of the slots from `cut` on, of a schedule that starts in slot `start`, money."""
    return paid if cut <= start else min(paid, fsum(costs[cut - start :]))


def _share_after(bid: Bid, cut: int) -> float:
    """Share of a job's machine-slots that lie in slot `cut` or later."""
    rows = Commitment.objects.filter(bid=bid).values_list("count", "start", "end")
    total = sum(count * (end - start) for count, start, end in rows)
    after = sum(count * max(0, end - max(start, cut)) for count, start, end in rows)
    return after / total if total else 1.0
