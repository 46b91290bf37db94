"""What is told of hindsights: on pages, through REST and as files alike. Operators only: bids are everybody's."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db.models import QuerySet

from auctions.counterfactual.comparison import SIDES, Row
from auctions.models import Market
from cluster.operators import is_operator
from scheduling.model.types import Json
from studies.background import states
from studies.counterfactuals.job import HINDSIGHTS
from studies.models import Hindsight

COLUMNS = ("admitted", "state", "start", "completion", "payment", "worth", "payoff", "reason")


def visible(viewer: User, market: Market) -> "QuerySet[Hindsight]":
    """A market's, for an operator; none for anyone else."""
    found = Hindsight.objects.filter(market=market).select_related("owner", "market__cluster")
    return found if is_operator(viewer) else found.none()


def place_of(hindsight: Hindsight) -> int | None:
    """Its place in the queue, from 1; None unless it waits."""
    return states.place_of(HINDSIGHTS, Hindsight.objects.filter(pk=hindsight.pk))


def rows_of(hindsight: Hindsight, *, changed: bool = False) -> list[Row]:
    """Each bid in both tellings, by number, or those that came out otherwise; none before it is done."""
    if hindsight.result is None:
        return []
    rows = [Row.from_json(row) for row in hindsight.result["rows"]]
    return [row for row in rows if row.changed] if changed else rows


@dataclass(frozen=True)
class Shift:
    """In which way bids came out otherwise: how many of each."""

    admitted: int
    """That were turned away on record."""
    turned_away: int
    """That were admitted on record."""
    earlier: int
    """Of jobs with a completion in both tellings."""
    later: int


def shift_of(rows: Sequence[Row]) -> Shift:
    """What the differences come to."""
    both = [[side.completion for side in row.sides] for row in rows if all(side.admitted for side in row.sides)]
    moves = [b - a for a, b in both if a is not None and b is not None]
    return Shift(
        admitted=sum(row.other.admitted is True and row.recorded.admitted is False for row in rows),
        turned_away=sum(row.other.admitted is False and row.recorded.admitted is True for row in rows),
        earlier=sum(slots < 0 for slots in moves),
        later=sum(slots > 0 for slots in moves),
    )


def table(rows: list[Row]) -> Iterator[list[object]]:
    """The rows as CSV: a header, then one for each bid; slots by number, money in the bids' own unit."""
    names = [f"{side}_{name}" for side in SIDES for name in COLUMNS]
    yield ["sequence", "label", "owner", "arrival_slot", "changed", *names]
    for row in rows:
        sides = [getattr(side, name) for side in row.sides for name in COLUMNS]
        yield [row.sequence, row.label, row.owner, row.arrival, row.changed, *("" if v is None else v for v in sides)]


def totals_of(hindsight: Hindsight) -> Json | None:
    """Both tellings in total; None before it is done."""
    # Results from before bids could be quarantined do not count them.
    return None if hindsight.result is None else {side: {"quarantined": 0} | hindsight.result[side] for side in SIDES}
