"""Cumulative welfare and revenue beside what no scheduler could have exceeded."""

from dataclasses import dataclass

from frontend.figures.base import (
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    Drawing,
    Json,
    Table,
    layout,
    legend,
    rounded,
    thinned,
    time_axis,
)
from frontend.figures.timeline import TimeLine
from scheduling.arrays import Floats, Ints


@dataclass(frozen=True)
class Course:
    """Sums after each decision, in order; all arrays J long."""

    sequence: Ints
    seconds: Floats
    """Cluster time of the decision, seconds after the epoch."""
    welfare: Floats
    revenue: Floats
    zero_price_bound: Floats
    certified: tuple[str, float] | None = None
    """What the smallest bound proved for all of them is, in words, and its value."""


def figure(course: Course, line: TimeLine, *, key: str = "welfare") -> Drawing:
    """Steps of welfare, revenue and the zero-price bound; the certified bound, one number, as a point at the end."""
    count = len(course.sequence)
    if not count:
        return Drawing([], layout(height=160, key=key), note="No bid has been decided yet.")
    kept = thinned(count)
    dates = [line.date_of_seconds(s) for s in course.seconds[kept]]
    bids = [int(s) for s in course.sequence[kept]]
    series = [
        ("zero-price bound so far", course.zero_price_bound, PURPLE, "dot"),
        ("welfare", course.welfare, BLUE, "solid"),
        ("revenue", course.revenue, GREEN, "dash"),
    ]
    data = [_line(name, numbers[kept], dates, bids, colour, dash) for name, numbers, colour, dash in series]
    if course.certified is not None:
        kind, value = course.certified
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": f"certified for all of them: {kind.lower()}",
                "x": [dates[-1]],
                "y": [rounded(value)],
                "marker": {"color": ORANGE, "size": 11, "symbol": "diamond"},
                "cliponaxis": False,
                "hovertemplate": f"certified: {kind.lower()}<br>%{{y:,.5~g}}<extra></extra>",
            }
        )
    # A single moment would be stretched to milliseconds.
    moment = course.seconds[-1] if course.seconds[0] == course.seconds[-1] else None
    around = [] if moment is None else [line.date_of_seconds(moment + side * line.slot_seconds) for side in (-1, 1)]
    drawn = layout(
        height=360,
        key=key,
        showlegend=True,
        legend=legend(),
        margin={"l": 60, "r": 16, "t": 56, "b": 48},
        xaxis=time_axis(line, **({"range": around} if around else {})),
        yaxis={"title": {"text": "money"}, "rangemode": "tozero", "automargin": True},
    )
    note = "" if len(kept) == count else f"{len(kept)} of {count} decisions are drawn; the CSV file has all."
    return Drawing(data, drawn, note=note)


def table(course: Course, line: TimeLine) -> Table:
    """Every decision."""
    rows = (
        (
            int(course.sequence[i]),
            line.date_of_seconds(float(course.seconds[i])),
            float(course.welfare[i]),
            float(course.revenue[i]),
            float(course.zero_price_bound[i]),
        )
        for i in range(len(course.sequence))
    )
    return Table(("bid", "decided_utc", "welfare", "revenue", "zero_price_bound"), rows)


def _line(name: str, numbers: Floats, dates: list[str], bids: list[int], colour: str, dash: str) -> Json:
    return {
        "type": "scatter",
        "mode": "lines" if len(bids) > 1 else "markers",
        "name": name,
        "x": dates,
        "y": [rounded(float(n)) for n in numbers],
        "customdata": bids,
        "line": {"color": colour, "width": 2, "dash": dash, "shape": "hv"},
        "marker": {"color": colour},
        "hovertemplate": f"{name}<br>after bid %{{customdata}}, %{{x|%-d %b %H:%M}}<br>%{{y:,.5~g}}<extra></extra>",
    }
