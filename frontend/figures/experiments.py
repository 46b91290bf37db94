"""Comparison of policies by one metric: means over seeds, their intervals, and the upper bound."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from frontend.figures.base import BLUE, VERMILION, Drawing, Json, Table, axis_from_0, dotted, layout, nothing, rounded

NO_INTERVAL: Final = "none"
"""Plotly draws null as an interval of length 0, and nothing for what is no number."""


@dataclass(frozen=True)
class Bar:
    """A policy."""

    policy: str
    n: int
    """Seeds."""
    mean: float
    half: float | None
    """Half of its 95 % interval; None for one seed."""


@dataclass(frozen=True)
class Line:
    """An upper bound."""

    words: str
    value: float


@dataclass(frozen=True)
class View:
    """One metric on one workload."""

    metric: str
    unit: str
    workload: str
    bars: Sequence[Bar]
    line: Line | None
    note: str
    synthetic: bool = False
    """Whether it rests on what was drawn."""


def figure(view: View, *, key: str) -> Drawing:
    """A bar for each policy with its interval, and a line for the bound."""
    if not view.bars:
        return nothing(key, "No run that has this figure is done yet.")
    title = f"{view.metric}{f', {view.unit}' if view.unit else ''}"
    tops = [bar.mean + (bar.half or 0.0) for bar in view.bars]
    lows = [bar.mean - (bar.half or 0.0) for bar in view.bars]
    drawn = layout(
        height=360,
        key=key,
        margin={"l": 60, "r": 16, "t": 28, "b": 48},
        xaxis={"type": "category", "automargin": True, "dtick": 1},
        yaxis=axis_from_0(title),
    )
    notes = [view.note]
    if view.line is not None:
        top = max(*tops, view.line.value)
        drawn["yaxis"]["range"] = [min(0.0, *lows), 1.08 * top]
        drawn["shapes"] = [dotted(y=rounded(view.line.value))]
        notes.append(f"Dotted: {view.line.words}, {view.line.value:,.6g}{f' {view.unit}' if view.unit else ''}.")
    return Drawing([_bars(view)], drawn, note=" ".join(note for note in notes if note))


def table(view: View) -> Table:
    """Every number that is drawn."""
    rows: list[Sequence[str | int | float]] = [
        (view.workload, bar.policy, view.metric, view.unit, bar.n, bar.mean, *_ends(bar), view.synthetic)
        for bar in view.bars
    ]
    if view.line is not None:
        rows.append(
            (view.workload, view.line.words, view.metric, view.unit, "", view.line.value, "", "", view.synthetic)
        )
    return Table(("workload", "policy", "metric", "unit", "n", "mean", "low_95", "high_95", "synthetic"), rows)


def _ends(bar: Bar) -> tuple[float | str, float | str]:
    return ("", "") if bar.half is None else (bar.mean - bar.half, bar.mean + bar.half)


def _spread(bar: Bar) -> str:
    return "" if bar.half is None else f" ± {bar.half:,.4g}"


def _bars(view: View) -> Json:
    unit = f" {view.unit}" if view.unit else ""
    return {
        "type": "bar",
        # Two lines, so that neighbours do not meet on a narrow page.
        "x": [bar.policy.replace(" (", "<br>(") for bar in view.bars],
        "y": [rounded(bar.mean) for bar in view.bars],
        "error_y": {
            "type": "data",
            "array": [NO_INTERVAL if bar.half is None else rounded(bar.half) for bar in view.bars],
            "color": VERMILION,
            "thickness": 2,
        },
        "marker": {"color": BLUE, "pattern": {"shape": ""}},
        "customdata": [f"{_spread(bar)}<br>{bar.n} seed{'s' if bar.n > 1 else ''}" for bar in view.bars],
        "hovertemplate": f"%{{x}}: %{{y:,.4g}}{unit}%{{customdata}}<extra></extra>",
    }
