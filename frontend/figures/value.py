"""The value of a job by its slot of completion, with the result of a quote."""

from dataclasses import dataclass

from frontend.figures.base import BLUE, GREEN, ORANGE, Drawing, Json, layout, legend, rounded, time_axis
from frontend.figures.timeline import TimeLine
from scheduling.model.types import Floats


@dataclass(frozen=True)
class Offer:
    """The value at completion in slots arrival, arrival + 1, ..., and the result of the quote."""

    arrival: int
    curve: Floats
    completion: int | None = None
    payment: float | None = None


def figure(offer: Offer, line: TimeLine) -> Drawing:
    """Draw the curve, the granted completion and the payment."""
    slots = range(offer.arrival, offer.arrival + len(offer.curve))
    data: list[Json] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "value if complete then",
            "x": [line.date(slot) for slot in slots],
            "y": [rounded(float(v)) for v in offer.curve],
            "customdata": list(slots),
            "line": {"color": BLUE, "width": 2},
            "hovertemplate": "complete %{x|%-d %b %H:%M} (slot %{customdata})<br>worth %{y:,.5~g}<extra></extra>",
        }
    ]
    if offer.completion is not None:
        at = line.date(offer.completion)
        worth = rounded(float(offer.curve[offer.completion - offer.arrival]))
        data.append(_point("value", at, worth, GREEN, "circle"))
        if offer.payment is not None:
            data.append(_point("payment", at, rounded(offer.payment), ORANGE, "diamond"))
    drawn = layout(
        height=260,
        key="value",
        showlegend=True,
        legend=legend(),
        margin={"l": 56, "r": 16, "t": 40, "b": 48},
        xaxis=time_axis(line, nticks=5),
        yaxis={"title": {"text": "worth"}, "rangemode": "tozero", "automargin": True},
    )
    return Drawing(data, drawn)


def _point(name: str, at: str, y: float, colour: str, symbol: str) -> Json:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [at],
        "y": [y],
        "marker": {"color": colour, "size": 11, "symbol": symbol},
        "hovertemplate": f"{name} %{{y:,.5~g}}<extra></extra>",
    }
