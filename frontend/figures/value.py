"""The value of a job by its slot of completion, with the result of a quote."""

from dataclasses import dataclass

from frontend.figures.base import (
    BLUE,
    GREEN,
    ORANGE,
    Drawing,
    Json,
    axis_from_0,
    curve,
    points,
    rounded,
    time_axis,
    with_legend,
)
from frontend.figures.timeline import TimeLine
from scheduling.model.types import Floats


@dataclass(frozen=True)
class Offer:
    """The value at completion in slots arrival, arrival + 1, ..., and the result of the quote."""

    arrival: int
    curve: Floats
    completion: int | None = None
    """The promised slot or, where none is promised, the one that is granted; None if the bid is not admitted."""
    payment: float | None = None
    """None if it is not known either."""


def figure(offer: Offer, line: TimeLine) -> Drawing:
    """Draw the curve, the completion and the payment."""
    slots = range(offer.arrival, offer.arrival + len(offer.curve))
    data = [
        curve(
            "value if complete then",
            [line.date(slot) for slot in slots],
            [rounded(float(v)) for v in offer.curve],
            BLUE,
            hover="complete %{x|%-d %b %H:%M} (slot %{customdata})<br>value %{y:,.5~g}",
            customdata=list(slots),
        )
    ]
    if offer.completion is not None:
        at = line.date(offer.completion)
        value = rounded(float(offer.curve[offer.completion - offer.arrival]))
        data.append(_point("value", at, value, GREEN, "circle"))
        if offer.payment is not None:
            data.append(_point("payment", at, rounded(offer.payment), ORANGE, "diamond"))
    axes = {"xaxis": time_axis(line, nticks=5), "yaxis": axis_from_0("value")}
    return Drawing(data, with_legend(height=260, key="value", margin={"l": 56, "t": 40}, **axes))


def _point(name: str, at: str, y: float, colour: str, symbol: str) -> Json:
    return points(name, [at], [y], colour, hover=f"{name} %{{y:,.5~g}}", symbol=symbol)
