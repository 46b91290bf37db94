"""What was known of a plan when: the bound rising, the best so far falling, until both meet or time is up."""

from collections.abc import Sequence
from dataclasses import dataclass

from frontend.figures.base import BLUE, ORANGE, Drawing, Json, Table, layout, legend


@dataclass(frozen=True)
class Known:
    """After so many seconds."""

    seconds: float
    lower_bound: int
    makespan: int | None
    """The best so far, slots; None while there is no plan."""
    note: str


def figure(course: Sequence[Known], *, slot_ms: int, key: str = "plan course") -> Drawing:
    """Two staircases over seconds."""
    if not course:
        return Drawing([], layout(height=160, key=key), note="Nothing is known yet.")
    found = [known for known in course if known.makespan is not None]
    data = [
        _line("the best so far", found, [known.makespan for known in found], BLUE, "solid"),
        _line("no plan is shorter", course, [known.lower_bound for known in course], ORANGE, "dash"),
    ]
    drawn = layout(
        height=300,
        key=key,
        showlegend=True,
        legend=legend(),
        margin={"l": 60, "r": 16, "t": 56, "b": 48},
        xaxis={"title": {"text": "seconds since it was begun"}, "rangemode": "tozero", "automargin": True},
        yaxis={"title": {"text": f"slots of {slot_ms:,} ms"}, "automargin": True},
    )
    return Drawing(data, drawn)


def table(course: Sequence[Known]) -> Table:
    """Every step that is kept."""
    rows = ((k.seconds, k.lower_bound, "" if k.makespan is None else k.makespan, k.note) for k in course)
    return Table(("seconds", "lower_bound_slots", "makespan_slots", "note"), rows)


def _line(name: str, course: Sequence[Known], slots: Sequence[int | None], colour: str, dash: str) -> Json:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": [known.seconds for known in course],
        "y": list(slots),
        "line": {"color": colour, "width": 2, "dash": dash, "shape": "hv"},
        "marker": {"color": colour, "size": 5},
        "customdata": [known.note for known in course],
        "hovertemplate": f"{name}: %{{y}} slots<br>after %{{x:.2f}} s: %{{customdata}}<extra></extra>",
    }
