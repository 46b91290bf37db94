"""Refund of a failed job: what was not delivered, at its posted cost, or what an operator chooses."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from math import fsum

from auctions.models import Bid, Commitment, DecisionRecord
from scheduling.model.decision import parse
from scheduling.model.schedule import Schedule


class Refund(StrEnum):
    """The refund that an operator may choose when a job fails."""

    UNDELIVERED = "undelivered"
    """The cost of the slots that were not delivered; if a completion was sold, the share of its machine-slots."""
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
    schedule = Schedule.from_json(parse(record.receipt)["schedule"])
    if record.costs is not None:
        return undelivered(record.costs, paid=paid, start=schedule.start, cut=cut)
    rows = Commitment.objects.filter(bid=bid).values_list("count", "start", "end")
    return undelivered_share(machine_slots(rows, until=cut), schedule, paid=paid)


def undelivered(costs: Sequence[float], *, paid: float, start: int, cut: int) -> float:
    """Return the posted cost of the slots from `cut` on, for a schedule that starts in slot `start`, money."""
    return paid if cut <= start else min(paid, fsum(costs[cut - start :]))


def undelivered_share(delivered: int, granted: Schedule, *, paid: float) -> float:
    """Return the share of a payment for the machine-slots of a schedule that were not delivered, money.

    If the job was moved, its machine-slots count, wherever they were.
    """
    total = sum(p.count * (p.end - p.start) for p in granted.placements)
    return paid * max(0.0, 1.0 - delivered / total) if total else paid


def machine_slots(rows: Iterable[tuple[int, int, int]], *, until: int) -> int:
    """Return how many machine-slots lie before slot `until`; rows are (machines, first slot, slot after the last)."""
    return sum(count * max(0, min(end, until) - start) for count, start, end in rows)
