"""What noise does to a plan: mean and worst makespans of three kinds of helpers, beside what was planned."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from frontend.figures.base import BLUE, GREEN, GREY, ORANGE, VERMILION, Drawing, Json, Table, layout, legend, rounded


@dataclass(frozen=True)
class Bar:
    """One kind of helpers, or the bound."""

    name: str
    mean: float
    """Slots."""
    worst: int
    colour: str


COLOURS = {"priorities": BLUE, "first_come": ORANGE, "replanned": GREEN, "bound": GREY}
NAMES = {
    "priorities": "priorities as sent",
    "first_come": "first come, first served",
    "replanned": "priorities made again",
    "bound": "no assignment is shorter",
}


def figure(bars: Sequence[Bar], *, planned: int, slot_ms: int, note: str = "", key: str = "plan noise") -> Drawing:
    """A bar for the mean of each kind, a mark for its worst draw, a dotted line for what was planned."""
    if not bars:
        return Drawing([], layout(height=160, key=key), note=note)
    names = [bar.name for bar in bars]
    data: list[Json] = [
        {
            "type": "bar",
            "orientation": "h",
            "name": "mean",
            "y": names,
            "x": [rounded(bar.mean) for bar in bars],
            "marker": {"color": [bar.colour for bar in bars]},
            "hovertemplate": "%{y}: %{x} slots in the mean<extra></extra>",
        },
        {
            "type": "scatter",
            "mode": "markers",
            "name": "worst draw",
            "y": names,
            "x": [bar.worst for bar in bars],
            "marker": {"color": VERMILION, "size": 11, "symbol": "diamond"},
            "hovertemplate": "%{y}: %{x} slots in the worst draw<extra></extra>",
        },
    ]
    line: Json = {
        "type": "line",
        "xref": "x",
        "yref": "paper",
        "x0": planned,
        "x1": planned,
        "y0": 0,
        "y1": 1,
        "line": {"color": VERMILION, "width": 2, "dash": "dot"},
    }
    drawn = layout(
        height=270,
        key=key,
        showlegend=True,
        legend=legend(),
        margin={"l": 60, "r": 16, "t": 56, "b": 48},
        xaxis={"title": {"text": f"slots of {slot_ms:,} ms"}, "rangemode": "tozero", "automargin": True},
        yaxis={"autorange": "reversed", "automargin": True, "showgrid": False},
        shapes=[line],
    )
    return Drawing(data, drawn, note=note)


def table(draws: Iterable[Sequence[int]]) -> Table:
    """Every draw: what was planned, then the makespan of each kind, slots."""
    header = ("draw", "planned_slots", *(f"{name}_slots" for name in NAMES))
    return Table(header, ((n, *row) for n, row in enumerate(draws, 1)))
