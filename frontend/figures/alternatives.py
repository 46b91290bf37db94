"""Figures of one bid's results if it had stated another value or another time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from frontend.figures.base import (
    BLUE,
    GREY,
    ORANGE,
    VERMILION,
    Drawing,
    Json,
    Table,
    axis,
    axis_from_0,
    curve,
    nothing,
    points,
    right_axis,
    rounded,
    with_legend,
)
from scheduling.analysis.truthfulness import Misreport


@dataclass(frozen=True)
class Statements:
    """Results over a range of statements of one kind."""

    points: Sequence[Misreport]
    """Stated times are hours after arrival."""
    arrival: int
    """Slot of the decision."""
    pays: bool
    """Whether bids pay, so that the payoff is shown; otherwise the time until completion is shown."""
    unit: str
    """Title of the x axis."""


def by_value(found: Statements) -> Drawing:
    """Draw the true payoff, or the time until completion if nobody pays, against the stated value."""
    y = [_height(point, found) for point in found.points]
    title = "true payoff" if found.pays else "slots from arrival to completion"
    data = [
        _line(title, found, y, BLUE),
        _marks("rejected", found, y, [not point.admitted for point in found.points], GREY, "x"),
        _marks("the truth", found, y, [point.factor == 1.0 for point in found.points], VERMILION, "diamond"),
    ]
    drawn = [trace for trace in data if trace["x"]]
    return Drawing(drawn, _layout("alternatives-value", found, title), note=_note(found))


def by_time(found: Statements) -> Drawing:
    """Draw the time until completion, and the payment if bids pay, against the stated time."""
    if not found.points:
        return nothing("alternatives-time", "The value of this bid does not depend on time.")
    slots = [_height(point, replace(found, pays=False)) for point in found.points]
    title = "slots from arrival to completion"
    data = [
        _line(title, found, slots, BLUE),
        _marks("the truth", found, slots, [point.factor == 1.0 for point in found.points], VERMILION, "diamond"),
    ]
    drawn = _layout("alternatives-time", found, title)
    if found.pays:
        paid = [rounded(point.payment) if point.admitted else None for point in found.points]
        data.insert(1, _line("payment", found, paid, ORANGE) | {"yaxis": "y2"})
        drawn["yaxis2"] = right_axis("payment", tickformat=",.4~g")
    turned = sum(not point.admitted for point in found.points)
    return Drawing(data, drawn, note=f"Rejected at {turned} of {len(slots)} statements." if turned else "")


def table(kinds: Mapping[str, Sequence[Misreport]]) -> Table:
    """Return all points of both curves; times in hours after arrival, slots as numbers."""
    names = ("factor", "stated", "admitted", "start", "completion", "payment", "value", "payoff")
    rows = (
        (kind, *("" if (cell := getattr(point, name)) is None else cell for name in names))
        for kind, points in kinds.items()
        for point in points
    )
    header = ("statement", "factor", "stated", "admitted", "start_slot", "completion_slot", "payment", "value")
    return Table((*header, "payoff"), rows)


def _height(point: Misreport, found: Statements) -> float | None:
    if found.pays:
        return None if point.payoff is None else rounded(point.payoff)
    return None if point.completion is None else point.completion - found.arrival


def _note(found: Statements) -> str:
    if found.pays:
        return "Payoff: true value of the completion minus the payment; 0 if rejected."
    return "Jobs do not pay here. The figure shows the plan at the decision, which may have changed later."


def _layout(key: str, found: Statements, title: str) -> Json:
    return with_legend(height=300, key=key, xaxis=axis_from_0(found.unit), yaxis=axis(title))


def _line(name: str, found: Statements, y: Sequence[float | None], colour: str) -> Json:
    return curve(
        name,
        [rounded(point.stated) for point in found.points],
        y,
        colour,
        hover=f"stating %{{x:,.5~g}} (%{{customdata:g}} × truth)<br>{name} %{{y:,.5~g}}",
        mode="lines+markers",
        customdata=[point.factor for point in found.points],
        marker={"color": colour, "size": 5},
    )


def _marks(
    name: str, found: Statements, y: Sequence[float | None], at: Sequence[bool], colour: str, symbol: str
) -> Json:
    kept = [(rounded(point.stated), height) for point, height, here in zip(found.points, y, at, strict=True) if here]
    x, heights = [stated for stated, _ in kept], [height for _, height in kept]
    hover = f"{name}: stating %{{x:,.5~g}}, %{{y:,.5~g}}"
    return points(name, x, heights, colour, hover=hover, symbol=symbol, marker={"size": 10})
