"""Time from arrival to completion of each job, and the mean."""

from dataclasses import dataclass
from typing import Final

from frontend.figures.base import BLUE, GREY, ORANGE, Drawing, Json, Table, layout, legend, rounded, thinned, time_axis
from frontend.figures.timeline import TimeLine
from scheduling.model.types import Floats, Ints

PUBLISHED: Final = "The mean over all jobs is published when a slot begins."
UNPUBLISHED: Final = "No job of yours is complete, and no mean over all jobs has been published yet."


@dataclass(frozen=True)
class Course:
    """J completed jobs in order of completion, and means over all jobs at K slots."""

    sequence: Ints
    """Sequence numbers, J."""
    slot: Ints
    """Slot of completion, J."""
    flow: Ints
    """Slots from arrival to completion, J."""
    mean_slot: Ints
    """K."""
    mean: Floats
    """K."""
    weighted_mean: Floats | None
    """K; None if it is not published, and jobs are the viewer's own."""


def figure(course: Course, line: TimeLine, *, key: str = "flow") -> Drawing:
    """Draw a point for each job, and both means so far."""
    count, of_all = len(course.sequence), course.weighted_mean is not None
    if not count and not len(course.mean):
        return Drawing([], layout(height=160, key=key), note="No job is complete yet." if of_all else UNPUBLISHED)
    kept, steps = thinned(count), thinned(len(course.mean))
    dates = [line.date(int(slot)) for slot in course.slot[kept]]
    points: Json = {
        "type": "scatter",
        "mode": "markers",
        "name": "each job" if of_all else "your jobs",
        "x": dates,
        "y": course.flow[kept].tolist(),
        "customdata": course.sequence[kept].tolist(),
        "marker": {"color": GREY, "size": 6, "opacity": 0.6},
        "hovertemplate": "bid %{customdata}<br>%{y} slots from arrival to completion<extra></extra>",
    }
    times = [line.date(int(slot)) for slot in course.mean_slot[steps]]
    data = [points, _mean("mean so far", course.mean[steps], times, BLUE, "solid")]
    if course.weighted_mean is not None:
        data.append(_mean("mean so far, by weight", course.weighted_mean[steps], times, ORANGE, "dash"))
    drawn = layout(
        height=340,
        key=key,
        showlegend=True,
        legend=legend(),
        margin={"l": 60, "r": 16, "t": 56, "b": 48},
        xaxis=time_axis(line),
        yaxis={"title": {"text": "slots"}, "rangemode": "tozero", "automargin": True},
    )
    notes = [] if of_all else [PUBLISHED]
    notes += [] if len(kept) == count else [f"{len(kept)} of {count} jobs are drawn; the CSV file has all."]
    return Drawing(data, drawn, note=" ".join(notes))


def table(course: Course, line: TimeLine) -> Table:
    """Return each completed job with the means so far; or only the viewer's jobs, without means."""
    header = ("bid", "completion_slot", "completion_utc", "jct_slots")
    if course.weighted_mean is None:
        dates = [line.date(int(slot)) for slot in course.slot]
        columns = (course.sequence.tolist(), course.slot.tolist(), dates, course.flow.tolist())
        return Table(header, zip(*columns, strict=True))
    weighted = course.weighted_mean
    rows = (
        (
            int(course.sequence[i]),
            int(course.slot[i]),
            line.date(int(course.slot[i])),
            int(course.flow[i]),
            float(course.mean[i]),
            float(weighted[i]),
        )
        for i in range(len(course.sequence))
    )
    return Table((*header, "mean_jct_slots", "weighted_jct_slots"), rows)


def _mean(name: str, numbers: Floats, dates: list[str], colour: str, dash: str) -> Json:
    return {
        "type": "scatter",
        "mode": "lines" if len(dates) > 1 else "markers",
        "name": name,
        "x": dates,
        "y": [rounded(float(n)) for n in numbers],
        "line": {"color": colour, "width": 2, "dash": dash},
        "marker": {"color": colour},
        "hovertemplate": f"{name}<br>%{{y:.3~g}} slots<extra></extra>",
    }
