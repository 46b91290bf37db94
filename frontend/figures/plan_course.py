"""Progress of a plan: the bound rises and the best makespan falls until both meet or time is up."""

from collections.abc import Sequence

from frontend.figures.base import BLUE, ORANGE, Drawing, Json, Table, axis, axis_from_0, curve, nothing, with_legend
from studies.split_learning.plans.readings import Known


def figure(course: Sequence[Known], *, slot_ms: int, key: str = "plan course") -> Drawing:
    """Two staircases over seconds; the upper one is thin, so that both can be seen where they are equal."""
    if not course:
        return nothing(key, "Nothing is known yet.")
    found = [known for known in course if known.makespan is not None]
    data = [
        _line("the best so far", found, [known.makespan for known in found], BLUE, "solid", width=6),
        _line("no plan is shorter", course, [known.lower_bound for known in course], ORANGE, "dash", width=2),
    ]
    axes = {"xaxis": axis_from_0("seconds since it was begun"), "yaxis": axis(f"slots of {slot_ms:,} ms")}
    return Drawing(data, with_legend(height=300, key=key, **axes))


def table(course: Sequence[Known]) -> Table:
    """Every step that is kept."""
    rows = ((k.seconds, k.lower_bound, "" if k.makespan is None else k.makespan, k.note) for k in course)
    return Table(("seconds", "lower_bound_slots", "makespan_slots", "note"), rows)


def _line(
    name: str, course: Sequence[Known], slots: Sequence[int | None], colour: str, dash: str, *, width: int
) -> Json:
    return curve(
        name,
        [known.seconds for known in course],
        slots,
        colour,
        hover=f"{name}: %{{y}} slots<br>after %{{x:.2f}} s: %{{customdata}}",
        dash=dash,
        mode="lines+markers",
        customdata=[known.note for known in course],
        line={"shape": "hv", "width": width},
        marker={"color": colour, "size": width + 4},
    )
