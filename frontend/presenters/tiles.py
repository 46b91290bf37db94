"""The figures at the top of a market's page; the objective of its policy determines which ones."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from auctions.readings.market_readings import Summary
from scheduling.policies.base import Objective
from scheduling.registry import POLICIES
from web.numbers import money, percent


@dataclass(frozen=True)
class Tile:
    """One figure with its name and a line that explains it."""

    key: str
    label: str
    figure: str
    note: str


def tiles_of(reading: Summary) -> list[Tile]:
    """Return the tiles of a market; figures that are not published have none."""
    left_out = [*UNPUBLISHED] if reading.published is not None else []
    if POLICIES[reading.policy].competes:
        left_out.append(_price)  # nothing has a posted price
    if reading.revenue is None:
        left_out.append(_revenue)
    return [make(reading) for make in TILES[reading.objective] if make not in left_out]


def _welfare(reading: Summary) -> Tile:
    kept = "of admitted bids" if reading.payoff is None else f"bidders keep {money(reading.payoff)}"
    return Tile("welfare", "Welfare", money(reading.welfare), kept)


def _revenue(reading: Summary) -> Tile:
    return Tile("revenue", "Revenue", money(reading.revenue), "payments of admitted bids")


def _admitted(reading: Summary) -> Tile:
    decided = reading.admitted + reading.rejected
    note = f"{reading.admitted} of {decided} decided, {reading.undecided} undecided"
    note += _left_out(reading)
    if reading.quarantined:
        note = f"{note}, {reading.quarantined} quarantined"
    return Tile("admitted", "Admitted", percent(reading.acceptance), note)


def _utilisation(reading: Summary) -> Tile:
    when = "no slot has begun" if reading.slot < 0 else f"slot {reading.slot}"
    return Tile("utilisation", "Utilisation", percent(reading.utilisation), f"of all machines, {when}")


def _price(reading: Summary) -> Tile:
    return Tile("price", "Price now", money(reading.price), f"mean for a unit in slot {reading.now}")


def _optimum(reading: Summary) -> Tile:
    bound, label = reading.bound, "Proven share of optimum"
    if bound is None:
        return Tile("optimum", label, "–", "no certificate yet")
    said = f"upper bound {money(bound.value)} ({bound.get_kind_display().lower()})"
    if bound.decided < reading.admitted + reading.rejected:  # not renewed yet: the welfare beside it may be above it
        said += f" of the first {bound.decided} decided"
    return Tile("optimum", label, percent(1 - bound.gap), said + _left_out(reading))


def _left_out(reading: Summary) -> str:
    """Return how many standing bids a figure of decided bids leaves out: they may still be admitted."""
    count = reading.standing or 0
    return f", {count} standing {'bid' if count == 1 else 'bids'} left out" if count else ""


def _weighted_flow(reading: Summary) -> Tile:
    return Tile(
        "flow", "Weighted JCT", _slots(reading.weighted_jct_slots), "mean time from arrival to completion, by weight"
    )


def _mean_flow(reading: Summary) -> Tile:
    return Tile("mean-flow", "Mean JCT", _slots(reading.mean_jct_slots), f"mean of {reading.completed} complete jobs")


def _wait(reading: Summary) -> Tile:
    return Tile(
        "wait",
        "Wait",
        _slots(reading.mean_wait_slots),
        "mean time from arrival to start of running and complete jobs",
    )


def _line(reading: Summary) -> Tile:
    note = f"{reading.in_line} without a start yet, {reading.running} running"
    return Tile("line", "Planned", str(reading.planned), note)


def _slots(number: float | None) -> str:
    return "–" if number is None else f"{number:.1f} slots"


def _congestion(reading: Summary) -> Tile:
    return Tile("congestion", "Congestion", money(reading.price), "jobs that a slot's delay of a worker would delay")


TILES: Final[Mapping[Objective, tuple[Callable[[Summary], Tile], ...]]] = {
    Objective.WELFARE: (_welfare, _revenue, _admitted, _utilisation, _price, _optimum),
    Objective.WEIGHTED_COMPLETION: (_weighted_flow, _mean_flow, _wait, _line, _admitted, _utilisation),
    Objective.COMPLETION: (_mean_flow, _wait, _line, _admitted, _utilisation, _congestion),
}
UNPUBLISHED: Final = (_optimum, _weighted_flow)
"""Tiles for viewers who may read the present figures."""
