"""Numbers of workers and parameter servers that a job holds in each slot."""

from dataclasses import dataclass

from frontend.figures.base import BLUE, ORANGE, Drawing, Json, Table, layout, legend, now_line, now_word, time_axis
from frontend.figures.timeline import TimeLine
from scheduling.model.types import Ints


@dataclass(frozen=True)
class Counts:
    """Machines held in slots [start, start + T)."""

    start: int
    workers: Ints
    pss: Ints


def figure(counts: Counts, line: TimeLine, *, now: int, key: str = "machines") -> Drawing:
    """Draw one step line for each role; the line of parameter servers is dashed, and missing if the job has none."""
    slots = len(counts.workers)
    if not slots:
        return Drawing([], layout(height=160, key=key), note="It holds no machine in any slot.")
    dates = [line.date(counts.start + t) for t in range(slots + 1)]
    series = [("workers", counts.workers, BLUE, "solid"), ("parameter servers", counts.pss, ORANGE, "dash")]
    data = [_steps(name, numbers, dates, colour, dash) for name, numbers, colour, dash in series if numbers.any()]
    drawn = layout(
        height=260,
        key=key,
        showlegend=True,
        legend=legend(),
        margin={"l": 60, "r": 16, "t": 56, "b": 48},
        xaxis=time_axis(line),
        yaxis={"title": {"text": "machines"}, "rangemode": "tozero", "automargin": True},
        shapes=[now_line(line, now)],
        annotations=[now_word(line, now)],
    )
    return Drawing(data, drawn)


def table(counts: Counts, line: TimeLine) -> Table:
    """Return all slots from the first to the last in which the job holds machines."""
    rows = (
        (counts.start + t, line.date(counts.start + t), int(counts.workers[t]), int(counts.pss[t]))
        for t in range(len(counts.workers))
    )
    return Table(("slot", "begins_utc", "workers", "num_ps"), rows)


def runs(counts: Counts) -> list[tuple[int, int, int, int]]:
    """Return one row for each run of slots with equal counts: first slot, end, workers, parameter servers."""
    found: list[tuple[int, int, int, int]] = []
    for t, (workers, pss) in enumerate(zip(counts.workers.tolist(), counts.pss.tolist(), strict=True)):
        slot = counts.start + t
        if found and found[-1][1:] == (slot, workers, pss):
            found[-1] = (found[-1][0], slot + 1, workers, pss)
        elif workers or pss:
            found.append((slot, slot + 1, workers, pss))
    return found


def _steps(name: str, numbers: Ints, dates: list[str], colour: str, dash: str) -> Json:
    # The last step ends with its slot, so a point with 0 follows at the beginning of the next one.
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": dates,
        "y": [*numbers.tolist(), 0],
        "line": {"color": colour, "width": 2, "dash": dash, "shape": "hv"},
        "hovertemplate": f"%{{y}} {name}<br>from %{{x|%-d %b %H:%M}}<extra></extra>",
    }
