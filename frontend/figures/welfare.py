"""Cumulative welfare and revenue, with the upper bound for any scheduler."""

from dataclasses import dataclass
from typing import Final

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
from scheduling.model.types import Floats, Ints

NOTHING: Final = "No bid has been decided yet."
PUBLISHED: Final = "Sums over bids of several owners, published when a slot begins."
UNPUBLISHED: Final = "Nothing has been published yet: sums are published once bids of several owners were admitted."


@dataclass(frozen=True)
class Course:
    """Sums after each decision or publication, in order; all arrays have length J."""

    decided: Ints
    """Number of bids decided so far."""
    seconds: Floats
    """Cluster time of the decision or publication, seconds after the epoch."""
    welfare: Floats
    revenue: Floats
    sequence: Ints | None = None
    """Sequence numbers of the decided bids; None for publications."""
    zero_price_bound: Floats | None = None
    certified: tuple[str, float] | None = None
    """Name and value of the smallest bound that holds for all of them."""


def figure(course: Course, line: TimeLine, *, key: str = "welfare") -> Drawing:
    """Draw steps of welfare, revenue and the zero-price bound, and the certified bound as a point at the end."""
    count = len(course.decided)
    if not count:
        return Drawing([], layout(height=160, key=key), note=NOTHING if course.sequence is not None else UNPUBLISHED)
    kept = thinned(count)
    dates = [line.date_of_seconds(s) for s in course.seconds[kept]]
    series = [
        ("zero-price bound so far", course.zero_price_bound, PURPLE, "dot"),
        ("welfare", course.welfare, BLUE, "solid"),
        ("revenue", course.revenue, GREEN, "dash"),
    ]
    when = "after %{customdata} decisions" if course.sequence is None else "after bid %{customdata}"
    points = _Points(dates, (course.decided if course.sequence is None else course.sequence)[kept].tolist(), when)
    shown = [(name, numbers, colour, dash) for name, numbers, colour, dash in series if numbers is not None]
    data = [_line(name, numbers[kept], points, colour, dash) for name, numbers, colour, dash in shown]
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
    # For a single point, Plotly would draw an axis of milliseconds.
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
    what = "decisions" if course.sequence is not None else "publications"
    notes = [] if course.sequence is not None else [PUBLISHED]
    notes += [] if len(kept) == count else [f"{len(kept)} of {count} {what} are drawn; the CSV file has all."]
    return Drawing(data, drawn, note=" ".join(notes))


def table(course: Course, line: TimeLine) -> Table:
    """Return all decisions, or all publications, as a table."""
    dates = [line.date_of_seconds(float(s)) for s in course.seconds]
    sums = [course.welfare.tolist(), course.revenue.tolist()]
    if course.sequence is None or course.zero_price_bound is None:
        published = zip(dates, course.decided.tolist(), *sums, strict=True)
        return Table(("published_utc", "decided", "welfare", "revenue"), published)
    rows = zip(course.sequence.tolist(), dates, *sums, course.zero_price_bound.tolist(), strict=True)
    return Table(("bid", "decided_utc", "welfare", "revenue", "zero_price_bound"), rows)


@dataclass(frozen=True)
class _Points:
    """Return the dates at which a line has steps."""

    dates: list[str]
    numbers: list[int]
    """Return the sequence numbers of bids, or the numbers of decisions so far."""
    when: str
    """Return the text of a tooltip."""


def _line(name: str, numbers: Floats, points: _Points, colour: str, dash: str) -> Json:
    return {
        "type": "scatter",
        "mode": "lines" if len(points.dates) > 1 else "markers",
        "name": name,
        "x": points.dates,
        "y": [rounded(float(n)) for n in numbers],
        "customdata": points.numbers,
        "line": {"color": colour, "width": 2, "dash": dash, "shape": "hv"},
        "marker": {"color": colour},
        "hovertemplate": f"{name}<br>{points.when}, %{{x|%-d %b %H:%M}}<br>%{{y:,.5~g}}<extra></extra>",
    }
