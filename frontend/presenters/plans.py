"""Plans that may change: the changes of a job's plan, in words and as a table, and its place in line."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import F

from auctions.models import Bid, BidState, PlanChange
from frontend.figures.base import Table
from frontend.figures.timeline import TimeLine


@dataclass(frozen=True)
class Step:
    """A plan from one moment on, and its changes."""

    version: int
    at: str
    """When, ISO 8601."""
    slot: int
    """First slot that could still be used."""
    start: int | None
    completion: int | None
    words: str
    """The change of the start, against the step before."""


def steps(changes: Iterable[PlanChange]) -> list[Step]:
    """Each change against the one before, oldest first."""
    found: list[Step] = []
    for row in changes:
        words = "first plan" if not found else _change(found[-1], row)
        found.append(Step(row.version, row.at.isoformat(), row.slot, row.start, row.completion, words))
    return found


def table(found: Iterable[Step], line: TimeLine) -> Table:
    """Every step; nothing where nothing is planned."""
    rows = (
        (
            step.version,
            step.at,
            step.slot,
            *_cells(step.start, line),
            *_cells(step.completion, line),
            step.words,
        )
        for step in found
    )
    header = ("version", "at_utc", "slot", "start_slot", "start_utc", "completion_slot", "completion_utc", "change")
    return Table(header, rows)


def place_of(bid: Bid, *, now: int) -> tuple[int, int] | None:
    """Its place among the jobs that neither run nor start now, by planned start, and how many those are; else None.

    Jobs without a start come last, in order of arrival.
    """
    line = Bid.objects.filter(market=bid.market_id, state=BidState.PLANNED).exclude(start_slot__lte=now)
    order = line.order_by(F("start_slot").asc(nulls_last=True), "sequence").values_list("sequence", flat=True)
    sequences = list(order)
    return (sequences.index(bid.sequence) + 1, len(sequences)) if bid.sequence in sequences else None


def _change(before: Step, row: PlanChange) -> str:
    if row.start is None:
        return "back in line" if before.start is not None else "in line as before"
    if before.start is None:
        return "given a start"
    if row.start != before.start:
        later = row.start - before.start
        return f"starts {_slots(abs(later))} {'later' if later > 0 else 'earlier'}"
    if row.completion is None:
        return "paused"
    if before.completion is None:
        return "goes on"
    later = row.completion - before.completion
    return f"complete {_slots(abs(later))} {'later' if later > 0 else 'earlier'}"


def _slots(count: int) -> str:
    return "1 slot" if count == 1 else f"{count} slots"


def _cells(slot: int | None, line: TimeLine) -> tuple[int | str, str]:
    return ("", "") if slot is None else (slot, line.date(slot))
