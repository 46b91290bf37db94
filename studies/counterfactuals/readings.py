"""Readings of counterfactuals for pages, REST and files. For operators only, as they contain the bids of all users."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db.models import QuerySet

from accounts.rights import operates
from auctions.counterfactual.comparison import SIDES, ComparedBid
from auctions.models import Market
from studies.models import Counterfactual

COLUMNS = ("admitted", "state", "start", "completion", "payment", "value", "payoff", "reason")


def visible(viewer: User, market: Market) -> "QuerySet[Counterfactual]":
    """Return a market's counterfactuals for an operator; an empty set for anyone else."""
    found = Counterfactual.objects.filter(market=market).select_related("owner", "market__cluster")
    return found if operates(viewer, market.cluster) else found.none()


def rows_of(counterfactual: Counterfactual, *, changed: bool = False) -> list[ComparedBid]:
    """Return both results of each bid, or of changed bids only, by number; an empty list until the work is done."""
    if counterfactual.result is None:
        return []
    rows = [ComparedBid.from_json(row) for row in counterfactual.result["rows"]]
    return [row for row in rows if row.changed] if changed else rows


@dataclass(frozen=True)
class Shift:
    """Numbers of bids whose result changed, by the kind of change."""

    admitted: int
    """Bids that were rejected on record and would be admitted."""
    turned_away: int
    """Bids that were admitted on record and would be rejected."""
    earlier: int
    """Jobs that have a completion in both results and would be complete earlier."""
    later: int


def shift_of(rows: Sequence[ComparedBid]) -> Shift:
    """Count the differences."""
    both = [[side.completion for side in row.sides] for row in rows if all(side.admitted for side in row.sides)]
    moves = [b - a for a, b in both if a is not None and b is not None]
    return Shift(
        admitted=sum(row.other.admitted is True and row.recorded.admitted is False for row in rows),
        turned_away=sum(row.other.admitted is False and row.recorded.admitted is True for row in rows),
        earlier=sum(slots < 0 for slots in moves),
        later=sum(slots > 0 for slots in moves),
    )


def table(rows: list[ComparedBid]) -> Iterator[list[object]]:
    """Return the rows as CSV: a header, then one row for each bid; slots by number, money in the unit of the bids."""
    names = [f"{side}_{name}" for side in SIDES for name in COLUMNS]
    yield ["sequence", "label", "owner", "arrival_slot", "changed", *names]
    for row in rows:
        sides = [getattr(side, name) for side in row.sides for name in COLUMNS]
        yield [row.sequence, row.label, row.owner, row.arrival, row.changed, *("" if v is None else v for v in sides)]
