"""Gantt chart of the workers and parameter servers that jobs hold, by server, in the past and in the future.

`auctions.readings.gantt` reads the bars from the rows, and `frontend.views.charts.spans` makes a span of each bar.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from frontend.figures.base import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    VERMILION,
    Drawing,
    Json,
    Table,
    bar_texts,
    hatching,
    layout,
    now_mark,
    rounded,
    rows_axis,
    time_axis,
    with_legend,
)
from frontend.figures.timeline import TimeLine

LARGEST_LANES = 120
LARGEST_BARS = 1200
NAME_PX = 13
"""Height of a group's name."""
PALE = ("planned", "promised")
"""Kinds of bars with an outline."""
LOWEST, HIGHEST = 0.2, 0.86
"""Height of a bar, in lanes, as its count goes from none to the most its job has of that type there."""
STATES = {
    "planned": ("planned (pale)", ORANGE),
    "running": ("running", BLUE),
    "completed": ("completed", GREEN),
    "cancelled": ("cancelled", PURPLE),
    "failed": ("failed", VERMILION),
    "promised": ("promised (pale)", ORANGE),
    "ran": ("what ran", BLUE),
    "other": ("others' work", GREY),
}
"""Label and colour of each kind of bar."""


@dataclass(frozen=True)
class Span:
    """Machines of one type held on one server in slots [start, end), whole slots unless from a queue."""

    group: str
    """Heading under which it is drawn: a server, or a machine type on a server."""
    who: str
    state: str
    """One of STATES."""
    machine: str
    is_ps: bool
    count: int
    start: float
    end: float


@dataclass(frozen=True)
class _Placed:
    span: Span
    lane: int
    height: float


def figure(spans: Sequence[Span], line: TimeLine, *, now: int, window: tuple[int, int], key: str = "gantt") -> Drawing:
    """Draw a band of lanes for each group. The note states how many bars do not fit."""
    window_axis = time_axis(line, range=[line.date(window[0]), line.date(window[1])])
    if not spans:
        return Drawing([], layout(height=160, key=key, xaxis=window_axis), note="No machine is held in these slots.")
    placed, bands, note = _place(spans)
    lanes = sum(size for _, _, size in bands)
    data = [_trace(placed, line, state, is_ps) for state in STATES for is_ps in (False, True)]
    data = [trace for trace in data if trace["y"]]
    for i, trace in enumerate(data):
        # One label for each job: on its workers, or on its parameter servers if it has no workers.
        trace["showlegend"] = i == 0 or data[i - 1]["legendgroup"] != trace["legendgroup"]
    if any(p.span.is_ps for p in placed):
        data.append(_hatching(line.date(window[0])))
    if any(p.height < HIGHEST for p in placed):
        note = f"{note} A job's bars are lower where it holds fewer machines.".strip()
    height = max(90, min(640, 20 * lanes))
    names = _names(bands, apart=NAME_PX * lanes / height)
    if len(names) < len(bands):
        note = f"{note} Names that have no room are left out.".strip()
    drawn = with_legend(
        height=130 + height,
        key=key,
        barmode="overlay",
        uniformtext={"minsize": 7, "mode": "hide"},
        xaxis=window_axis,
        yaxis=rows_axis([*names.values()], [*names], rows=lanes),
        **now_mark(line, now, *(_between(first) for _, first, _ in bands[1:])),
    )
    return Drawing(data, drawn, note=note)


def _names(bands: Sequence[tuple[str, int, int]], *, apart: float) -> dict[str, float]:
    """Return the names that are written, with the middles of their bands; each two are `apart` lanes or more."""
    written: dict[str, float] = {}
    last = -apart
    for name, first, size in bands:
        middle = first + (size - 1) / 2
        if middle - last >= apart:
            written[name] = last = middle
    return written


def _between(first: int) -> Json:
    """Return the line above a band that begins with this lane."""
    ends = {"xref": "paper", "yref": "y", "x0": 0, "x1": 1, "y0": first - 0.5, "y1": first - 0.5}
    return {"type": "line", **ends, "line": {"color": "rgba(128,128,128,.35)", "width": 1}}


def _hatching(at: str) -> Json:
    """Return a bar of length 0 for the legend; without a base, the axis would reach back to 1970."""
    marker = {"color": GREY, "pattern": hatching("/", GREY), "line": {"width": 0}}
    hatched = {"type": "bar", "orientation": "h", "name": "hatched: parameter servers", "marker": marker}
    return {**hatched, "base": [at], "x": [0], "y": [0], "showlegend": True, "hoverinfo": "skip"}


def table(spans: Iterable[Span], line: TimeLine) -> Table:
    """Return all spans as a table."""
    rows = (
        (
            *(s.group, s.machine, "ps" if s.is_ps else "worker", s.count, s.who, s.state),
            *(s.start, s.end, line.date(s.start), line.date(s.end)),
        )
        for s in spans
    )
    times = ("from_slot", "to_slot", "begins_utc", "ends_utc")
    return Table(("server", "machine_type", "role", "count", "job", "state", *times), rows)


def _place(spans: Sequence[Span]) -> tuple[list[_Placed], list[tuple[str, int, int]], str]:
    """Return spans with their lanes, bands as (group, first lane, lanes), and the number of spans left out."""
    groups: dict[str, list[Span]] = {}
    for span in spans:
        groups.setdefault(span.group, []).append(span)
    placed: list[_Placed] = []
    bands: list[tuple[str, int, int]] = []
    lane = 0
    for name, members in groups.items():
        local, size = _pack(members)
        if bands and (lane + size > LARGEST_LANES or len(placed) + len(members) > LARGEST_BARS):
            continue
        placed += [_Placed(p.span, lane + p.lane, p.height) for p in local]
        bands.append((name, lane, size))
        lane += size
    left = len(groups) - len(bands)
    note = ""
    if left:
        note = f"{len(bands)} of {len(groups)} rows with work are drawn; choose a server, or see the CSV file for all."
    return placed, bands, note


def _pack(spans: Sequence[Span]) -> tuple[list[_Placed], int]:
    """Assign each span, in order of start, to the lane its job just left, or else to the first free lane.

    The height of a bar is its count relative to the largest count of its job's bars of that type here.
    """
    peaks: dict[tuple[str, str], int] = {}
    for span in spans:
        peaks[span.who, span.machine] = max(span.count, peaks.get((span.who, span.machine), 0))
    ends = {(s.who, s.machine, s.end) for s in spans}
    left: dict[tuple[str, str, float], list[int]] = {}
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    placed, size = [], 0
    # Spans that continue come first, because spans that begin could take their lanes.
    for span in sorted(spans, key=lambda s: (s.start, (s.who, s.machine, s.start) not in ends, s.is_ps, s.end)):
        while busy and busy[0][0] <= span.start:
            heappush(free, heappop(busy)[1])
        before = [lane for lane in left.get((span.who, span.machine, span.start), ()) if lane in free]
        if before:
            lane = before[0]
            free.remove(lane)
            heapify(free)
        elif free:
            lane = heappop(free)
        else:
            lane, size = size, size + 1
        heappush(busy, (span.end, lane))
        left.setdefault((span.who, span.machine, span.end), []).append(lane)
        placed.append(_Placed(span, lane, height=_height(span.count, peaks[span.who, span.machine])))
    return placed, size


def _height(count: int, peak: int) -> float:
    return HIGHEST if count == peak else LOWEST + (HIGHEST - LOWEST) * count / peak


def _trace(placed: Sequence[_Placed], line: TimeLine, state: str, is_ps: bool) -> Json:
    mine = [p for p in placed if p.span.state == state and p.span.is_ps == is_ps]
    label, colour = STATES[state]
    return {
        "type": "bar",
        "orientation": "h",
        "name": label,
        "legendgroup": state,
        "base": [line.date(p.span.start) for p in mine],
        "x": [line.milliseconds(p.span.end - p.span.start) for p in mine],
        "y": [p.lane for p in mine],
        "width": [rounded(p.height) for p in mine],
        # Hatching shows the role, so that it does not depend on colour.
        "marker": {
            "color": colour,
            "pattern": hatching("/" if is_ps else "", colour),
            "line": {"width": 1.5 if state in PALE else 0, "color": colour},
            "opacity": 0.45 if state in PALE else 1.0,
        },
        # Show the count where it fits: the bars of an elastic job differ from slot to slot.
        **bar_texts([str(p.span.count) for p in mine]),
        "customdata": [
            [p.span.who, f"{p.span.count} × {p.span.machine}", line.words(p.span.start), line.words(p.span.end)]
            for p in mine
        ],
        "hovertemplate": "%{customdata[0]}<br>%{customdata[1]}<br>from %{customdata[2]}"
        "<br>to %{customdata[3]}<extra></extra>",
    }
