"""Cumulative welfare and revenue, with the upper bound for any scheduler."""

from typing import Final

from auctions.models import BoundKind, Certificate
from auctions.readings.types import Welfare
from frontend.figures.base import (
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    Drawing,
    Table,
    axis_from_0,
    curve,
    nothing,
    points,
    rounded,
    thinned,
    time_axis,
    with_legend,
)
from frontend.figures.timeline import TimeLine

NOTHING: Final = "No bid has been decided yet."
PUBLISHED: Final = "Sums over bids of several owners, published when a slot begins."
UNPUBLISHED: Final = "Nothing has been published yet: sums are published once bids of several owners were admitted."


def figure(series: Welfare, line: TimeLine, *, key: str = "welfare") -> Drawing:
    """Draw steps of welfare, revenue and the zero-price bound, and the certified bound as a point at its last bid."""
    count = len(series.decided)
    if not count:
        return nothing(key, NOTHING if series.sequence is not None else UNPUBLISHED)
    kept = thinned(count)
    dates = [line.date_of_seconds(s) for s in series.seconds[kept]]
    curves = [
        ("zero-price bound so far", series.zero_price_bound, PURPLE, "dot"),
        ("welfare", series.welfare, BLUE, "solid"),
        ("revenue", series.revenue, GREEN, "dash"),
    ]
    numbers = series.decided if series.sequence is None else series.sequence
    when = "after %{customdata} decisions" if series.sequence is None else "after bid %{customdata}"
    data = [
        curve(
            name,
            dates,
            [rounded(float(n)) for n in sums[kept]],
            colour,
            hover=f"{name}<br>{when}, %{{x|%-d %b %H:%M}}<br>%{{y:,.5~g}}",
            dash=dash,
            mode="lines" if len(dates) > 1 else "markers",
            customdata=numbers[kept].tolist(),
            line={"shape": "hv"},
            marker={"color": colour},
        )
        for name, sums, colour, dash in curves
        if sums is not None
    ]
    if series.bound is not None:
        value, hover = rounded(series.bound.value), f"certified: {_words(series.bound)}<br>%{{y:,.5~g}}"
        date = line.date_of_seconds(series.seconds[_covered(series.bound, count) - 1])
        data.append(points("certified bound", [date], [value], ORANGE, hover=hover, cliponaxis=False))
    # For a single point, Plotly would draw an axis of milliseconds.
    moment = series.seconds[-1] if series.seconds[0] == series.seconds[-1] else None
    around = [] if moment is None else [line.date_of_seconds(moment + side * line.slot_seconds) for side in (-1, 1)]
    axes = {"xaxis": time_axis(line, **({"range": around} if around else {})), "yaxis": axis_from_0("money")}
    drawn = with_legend(height=360, key=key, **axes)
    what = "decisions" if series.sequence is not None else "publications"
    notes = [] if series.sequence is not None else [PUBLISHED]
    # Under the chart and not in the legend, which is one line: on a phone its end was cut, elsewhere under the buttons.
    if series.bound is not None:
        covered = _covered(series.bound, count)
        which = "all bids decided so far" if covered == count else f"the first {covered} of {count} decided bids"
        notes.append(f"Certified bound, for {which}: {_words(series.bound)}.")
    notes += [] if len(kept) == count else [f"{len(kept)} of {count} {what} are drawn; the CSV file has all."]
    return Drawing(data, drawn, note=" ".join(notes))


def table(series: Welfare, line: TimeLine) -> Table:
    """Return all decisions, or all publications, as a table; the certified bound stands in the row of its last bid."""
    dates = [line.date_of_seconds(float(s)) for s in series.seconds]
    found = {"welfare": series.welfare, "revenue": series.revenue}
    shown = {name: amounts.tolist() for name, amounts in found.items() if amounts is not None}
    sums = shown.values()
    if series.sequence is None or series.zero_price_bound is None:
        published = zip(dates, series.decided.tolist(), *sums, strict=True)
        return Table(("published_utc", "decided", *shown), published)
    certified: list[float | None] = [None] * len(dates)
    if dates and series.bound is not None:
        certified[_covered(series.bound, len(dates)) - 1] = series.bound.value
    rows = zip(series.sequence.tolist(), dates, *sums, series.zero_price_bound.tolist(), certified, strict=True)
    return Table(("bid", "decided_utc", *shown, "zero_price_bound", "certified_bound"), rows)


def _covered(bound: Certificate, count: int) -> int:
    """Return how many of the decided bids the bound covers: it is renewed some time after a decision."""
    return max(1, min(bound.decided, count))


def _words(bound: Certificate) -> str:
    """Describe the bound: its kind, gap, duration, and whether all terms are exact."""
    words = f"{bound.get_kind_display().lower()}, gap {100 * bound.gap:.1f} %, computed in {bound.duration_ms:,.0f} ms"
    if bound.loose and bound.kind == BoundKind.POSTED_PRICE:
        words += f", loose for {bound.loose} of {bound.decided} bids"
    return words
