"""Time from arrival to completion of each job, and the mean."""

from typing import Final

from auctions.readings.types import Flow
from frontend.figures.base import (
    BLUE,
    GREY,
    ORANGE,
    Drawing,
    Json,
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
from scheduling.model.types import Floats

PUBLISHED: Final = "The mean over all jobs is published when a slot begins."
UNPUBLISHED: Final = "No job of yours is complete, and no mean over all jobs has been published yet."


def figure(series: Flow, line: TimeLine, *, key: str = "flow") -> Drawing:
    """Draw a point for each job, and both means so far."""
    count, of_all = len(series.sequence), series.weighted_mean is not None
    if not count and not len(series.mean):
        return nothing(key, "No job is complete yet." if of_all else UNPUBLISHED)
    kept, steps = thinned(count), thinned(len(series.mean))
    dates = [line.date(int(slot)) for slot in series.slot[kept]]
    jobs = points(
        "each job" if of_all else "your jobs",
        dates,
        series.flow[kept].tolist(),
        GREY,
        hover="bid %{customdata}<br>%{y} slots from arrival to completion",
        symbol="circle",
        customdata=series.sequence[kept].tolist(),
        marker={"size": 6, "opacity": 0.6},
    )
    times = [line.date(int(slot)) for slot in series.mean_slot[steps]]
    data = [jobs, _mean("mean so far", series.mean[steps], times, BLUE, "solid")]
    if series.weighted_mean is not None:
        data.append(_mean("mean so far, by weight", series.weighted_mean[steps], times, ORANGE, "dash"))
    drawn = with_legend(height=340, key=key, xaxis=time_axis(line), yaxis=axis_from_0("slots"))
    notes = [] if of_all else [PUBLISHED]
    notes += [] if len(kept) == count else [f"{len(kept)} of {count} jobs are drawn; the CSV file has all."]
    return Drawing(data, drawn, note=" ".join(notes))


def table(series: Flow, line: TimeLine) -> Table:
    """Return each completed job with the means so far; or only the viewer's jobs, and then the published means."""
    dates = [line.date(int(slot)) for slot in series.slot]
    jobs = (series.sequence.tolist(), series.slot.tolist(), dates, series.flow.tolist())
    header = ("bid", "completion_slot", "completion_utc", "jct_slots", "mean_jct_slots")
    if series.weighted_mean is not None:
        rows = zip(*jobs, series.mean.tolist(), series.weighted_mean.tolist(), strict=True)
        return Table((*header, "weighted_jct_slots"), rows)
    means = zip(series.mean_slot.tolist(), series.mean.tolist(), strict=True)
    published = [(None, slot, line.date(slot), None, mean) for slot, mean in means]
    return Table(header, [*((*job, None) for job in zip(*jobs, strict=True)), *published])


def _mean(name: str, numbers: Floats, dates: list[str], colour: str, dash: str) -> Json:
    return curve(
        name,
        dates,
        [rounded(float(n)) for n in numbers],
        colour,
        hover=f"{name}<br>%{{y:.3~g}} slots",
        dash=dash,
        mode="lines" if len(dates) > 1 else "markers",
        marker={"color": colour},
    )
