"""What the length of a slot costs and saves (Fig. 6 of the split-learning paper): makespan, and time to compute."""

from collections.abc import Sequence
from dataclasses import dataclass

from frontend.figures.base import BLUE, GREY, ORANGE, Drawing, Json, Table, layout, legend, rounded


@dataclass(frozen=True)
class Length:
    """The same devices and links in slots of one length."""

    slot_ms: int
    makespan: int | None
    """Slots; None while there is no plan."""
    lower_bound: int | None
    compute_s: float | None
    """Seconds until the method was done."""

    @property
    def makespan_ms(self) -> int | None:
        """Milliseconds, so that lengths compare."""
        return None if self.makespan is None else self.makespan * self.slot_ms

    @property
    def bound_ms(self) -> int | None:
        """Milliseconds."""
        return None if self.lower_bound is None else self.lower_bound * self.slot_ms


def figure(lengths: Sequence[Length], *, key: str = "plan slots") -> Drawing:
    """Makespans and bounds over the length, and the time to compute on an axis of its own at the right."""
    there = sorted((length for length in lengths if length.makespan is not None), key=lambda length: length.slot_ms)
    if len(there) < 2:
        return Drawing([], layout(height=160, key=key), note="Other lengths of slots were not computed yet.")
    at = [length.slot_ms for length in there]
    data = [
        _line("makespan", at, [length.makespan_ms for length in there], BLUE, "solid", "ms"),
        _line("no plan is shorter", at, [length.bound_ms for length in there], GREY, "dash", "ms"),
        {
            **_line("time to compute", at, [length.compute_s for length in there], ORANGE, "dot", "s"),
            "yaxis": "y2",
        },
    ]
    drawn = layout(
        height=320,
        key=key,
        showlegend=True,
        legend=legend(),
        margin={"l": 60, "r": 60, "t": 56, "b": 48},
        xaxis={"title": {"text": "slot, ms"}, "type": "log", "tickvals": at, "automargin": True},
        yaxis={"title": {"text": "makespan, ms"}, "automargin": True},
        yaxis2={
            "title": {"text": "time to compute, s"},
            "overlaying": "y",
            "side": "right",
            "rangemode": "tozero",
            "showgrid": False,
            "tickformat": ".2~g",
            "zeroline": False,
            "automargin": True,
        },
    )
    note = (
        "Times are rounded up to whole slots, so that longer ones cost makespan; the time to compute is of these runs."
    )
    return Drawing(data, drawn, note=note)


def table(lengths: Sequence[Length]) -> Table:
    """Each length; nothing where it is not known."""
    header = ("slot_ms", "makespan_slots", "makespan_ms", "lower_bound_slots", "lower_bound_ms", "compute_s")
    found = sorted(lengths, key=lambda length: length.slot_ms)
    rows = ((r.slot_ms, r.makespan, r.makespan_ms, r.lower_bound, r.bound_ms, r.compute_s) for r in found)
    return Table(header, (["" if cell is None else cell for cell in row] for row in rows))


def _line(name: str, at: Sequence[int], values: Sequence[float | None], colour: str, dash: str, unit: str) -> Json:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": list(at),
        "y": [None if value is None else rounded(value) for value in values],
        "line": {"color": colour, "width": 2, "dash": dash},
        "marker": {"color": colour, "size": 7},
        "hovertemplate": f"{name}: %{{y}} {unit}<br>slots of %{{x}} ms<extra></extra>",
    }
