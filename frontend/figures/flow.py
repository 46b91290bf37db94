"""Time from arrival to completion of jobs, one by one and in the mean."""

from dataclasses import dataclass

from frontend.figures.base import BLUE, GREY, ORANGE, Drawing, Json, Table, layout, legend, rounded, thinned, time_axis
from frontend.figures.timeline import TimeLine
from scheduling.arrays import Floats, Ints


@dataclass(frozen=True)
class Course:
    """Completed jobs in order of completion; all arrays as long."""

    sequence: Ints
    slot: Ints
    """Slot of completion."""
    flow: Ints
    """Slots from arrival to completion."""
    mean: Floats
    weighted_mean: Floats


def figure(course: Course, line: TimeLine, *, key: str = "flow") -> Drawing:
    """A point a job, and both means so far."""
    count = len(course.sequence)
    if not count:
        return Drawing([], layout(height=160, key=key), note="No job is complete yet.")
    kept = thinned(count)
    dates = [line.date(int(slot)) for slot in course.slot[kept]]
    points: Json = {
        "type": "scatter",
        "mode": "markers",
        "name": "each job",
        "x": dates,
        "y": course.flow[kept].tolist(),
        "customdata": course.sequence[kept].tolist(),
        "marker": {"color": GREY, "size": 6, "opacity": 0.6},
        "hovertemplate": "bid %{customdata}<br>%{y} slots from arrival to completion<extra></extra>",
    }
    data = [
        points,
        _mean("mean so far", course.mean[kept], dates, BLUE, "solid"),
        _mean("mean so far, by weight", course.weighted_mean[kept], dates, ORANGE, "dash"),
    ]
    drawn = layout(
        height=340,
        key=key,
        showlegend=True,
        legend=legend(),
        margin={"l": 60, "r": 16, "t": 56, "b": 48},
        xaxis=time_axis(line),
        yaxis={"title": {"text": "slots"}, "rangemode": "tozero", "automargin": True},
    )
    note = "" if len(kept) == count else f"{len(kept)} of {count} jobs are drawn; the CSV file has all."
    return Drawing(data, drawn, note=note)


def table(course: Course, line: TimeLine) -> Table:
    """Every completed job."""
    rows = (
        (
            int(course.sequence[i]),
            int(course.slot[i]),
            line.date(int(course.slot[i])),
            int(course.flow[i]),
            float(course.mean[i]),
            float(course.weighted_mean[i]),
        )
        for i in range(len(course.sequence))
    )
    return Table(("bid", "completion_slot", "completion_utc", "flow_slots", "mean_slots", "weighted_mean_slots"), rows)


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
