"""Numbers of workers and parameter servers that a job holds in each slot."""

from auctions.readings.types import Machines
from frontend.figures.base import (
    BLUE,
    ORANGE,
    Drawing,
    Table,
    axis_from_0,
    curve,
    nothing,
    now_mark,
    time_axis,
    with_legend,
)
from frontend.figures.timeline import MARGIN_SLOTS, TimeLine


def figure(counts: Machines, line: TimeLine, *, now: int, key: str = "machines") -> Drawing:
    """Draw one step line for each role; the line of parameter servers is dashed, and missing if the job has none."""
    slots = len(counts.workers)
    if not slots:
        return nothing(key, "It holds no machine in any slot.")
    dates = [line.date(counts.start + t) for t in range(slots + 1)]
    series = [("workers", counts.workers, BLUE, "solid"), ("parameter servers", counts.num_ps, ORANGE, "dash")]
    # The last step ends with its slot, so a point with 0 follows at the beginning of the next one.
    data = [
        curve(
            name,
            dates,
            [*numbers.tolist(), 0],
            colour,
            hover=f"%{{y}} {name}<br>from %{{x|%-d %b %H:%M}}",
            dash=dash,
            line={"shape": "hv"},
        )
        for name, numbers, colour, dash in series
        if numbers.any()
    ]
    # A mark of now far away would leave the job a sliver.
    shown = [line.date(counts.start - MARGIN_SLOTS), line.date(counts.start + slots + MARGIN_SLOTS)]
    axes = {"xaxis": time_axis(line, range=shown), "yaxis": axis_from_0("machines")}
    drawn = with_legend(height=260, key=key, **axes, **now_mark(line, now))
    return Drawing(data, drawn)


def table(counts: Machines, line: TimeLine) -> Table:
    """Return all slots from the first to the last in which the job holds machines."""
    rows = (
        (counts.start + t, line.date(counts.start + t), int(counts.workers[t]), int(counts.num_ps[t]))
        for t in range(len(counts.workers))
    )
    return Table(("slot", "begins_utc", "workers", "num_ps"), rows)


def runs(counts: Machines) -> list[tuple[int, int, int, int]]:
    """Return one row for each run of slots with equal counts: first slot, end, workers, parameter servers."""
    found: list[tuple[int, int, int, int]] = []
    for t, (workers, num_ps) in enumerate(zip(counts.workers.tolist(), counts.num_ps.tolist(), strict=True)):
        slot = counts.start + t
        if found and found[-1][1:] == (slot, workers, num_ps):
            found[-1] = (found[-1][0], slot + 1, workers, num_ps)
        elif workers or num_ps:
            found.append((slot, slot + 1, workers, num_ps))
    return found
