"""Effect of noise on a plan: mean and worst makespans of three kinds of helpers, and the planned one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from frontend.figures.base import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    VERMILION,
    Drawing,
    Json,
    Table,
    axis_from_0,
    dotted,
    nothing,
    points,
    rounded,
    with_legend,
)


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
        return nothing(key, note)
    names = [bar.name for bar in bars]
    means: Json = {
        "type": "bar",
        "orientation": "h",
        "name": "mean",
        "y": names,
        "x": [rounded(bar.mean) for bar in bars],
        "marker": {"color": [bar.colour for bar in bars]},
        "hovertemplate": "%{y}: %{x} slots in the mean<extra></extra>",
    }
    hover = "%{y}: %{x} slots in the worst draw"
    worst = points("worst draw", [bar.worst for bar in bars], names, VERMILION, hover=hover)
    drawn = with_legend(
        height=270,
        key=key,
        xaxis=axis_from_0(f"slots of {slot_ms:,} ms"),
        yaxis={"autorange": "reversed", "automargin": True, "showgrid": False},
        shapes=[dotted(x=planned)],
    )
    return Drawing([means, worst], drawn, note=note)


def table(draws: Iterable[Sequence[int]]) -> Table:
    """Every draw: what was planned, then the makespan of each kind, slots."""
    header = ("draw", "planned_slots", *(f"{name}_slots" for name in NAMES))
    return Table(header, ((n, *row) for n, row in enumerate(draws, 1)))
