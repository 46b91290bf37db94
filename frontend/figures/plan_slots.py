"""Effect of the length of a slot (Fig. 6 of the split-learning paper): makespan and computing time."""

from collections.abc import Sequence

from frontend.figures.base import (
    BLUE,
    GREY,
    ORANGE,
    Drawing,
    Json,
    Table,
    axis,
    curve,
    nothing,
    right_axis,
    rounded,
    with_legend,
)
from studies.split_learning.plans.comparisons import Length


def figure(lengths: Sequence[Length], *, key: str = "plan slots") -> Drawing:
    """Makespans and bounds over the length, and the time to compute on an axis of its own at the right."""
    there = sorted((length for length in lengths if length.makespan is not None), key=lambda length: length.slot_ms)
    if len(there) < 2:
        return nothing(key, "Other lengths of slots were not computed yet.")
    at = [length.slot_ms for length in there]
    data = [
        _line("makespan", at, [length.makespan_ms for length in there], BLUE, "solid", "ms"),
        _line("no plan is shorter", at, [length.bound_ms for length in there], GREY, "dash", "ms"),
        _line("time to compute", at, [length.compute_s for length in there], ORANGE, "dot", "s") | {"yaxis": "y2"},
    ]
    drawn = with_legend(
        height=320,
        key=key,
        margin={"r": 60},
        xaxis=axis("slot, ms", type="log", tickvals=at),
        yaxis=axis("makespan, ms"),
        yaxis2=right_axis("time to compute, s", tickformat=".2~g"),
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
    return curve(
        name,
        at,
        [None if value is None else rounded(value) for value in values],
        colour,
        hover=f"{name}: %{{y}} {unit}<br>slots of %{{x}} ms",
        dash=dash,
        mode="lines+markers",
        marker={"color": colour, "size": 7},
    )
