"""Competitive ratios: times of jobs divided by their lower bounds, as bars for each run."""

from collections.abc import Sequence
from dataclasses import dataclass

from frontend.figures.base import BLUE, GREY, ORANGE, Drawing, Json, Table, axis, dotted, nothing, rounded, with_legend


@dataclass(frozen=True)
class RunTotals:
    """One run of the same jobs: totals and bounds in slots."""

    name: str
    fractional: float
    fractional_bound: float
    jct: float
    jct_bound: float


def figure(runs: Sequence[RunTotals], *, note: str, key: str = "competitive_ratio") -> Drawing:
    """Draw two bars for each run and a line at 1; without runs, only the note."""
    if not runs:
        return nothing(key, note)
    names = [run.name for run in runs]
    fractional = [rounded(run.fractional / run.fractional_bound) for run in runs]
    jct = [rounded(run.jct / run.jct_bound) for run in runs]
    data = [
        _bars("fractional flow over fractional bound", names, fractional, BLUE, ""),
        _bars("completion time over its bound", names, jct, ORANGE, "/"),
    ]
    top = 1.15 * max(1.0, *fractional, *jct)  # room for the numbers above the bars
    drawn = with_legend(
        height=320,
        key=key,
        barmode="group",
        margin={"t": 72},
        xaxis={"type": "category", "automargin": True},
        yaxis=axis("times the bound", range=[0, top]),
        shapes=[dotted(y=1, colour=GREY)],
    )
    return Drawing(data, drawn, note=note)


def table(runs: Sequence[RunTotals]) -> Table:
    """Return totals, bounds and competitive ratios of every run."""
    slots = ("fractional_slots", "fractional_bound_slots", "fractional_ratio")
    rows = (
        (
            *(run.name, run.fractional, run.fractional_bound, run.fractional / run.fractional_bound),
            *(run.jct, run.jct_bound, run.jct / run.jct_bound),
        )
        for run in runs
    )
    return Table(("run", *slots, "jct_slots", "jct_bound_slots", "jct_ratio"), rows)


def _bars(name: str, runs: list[str], numbers: list[float], colour: str, pattern: str) -> Json:
    return {
        "type": "bar",
        "name": name,
        "x": runs,
        "y": numbers,
        "text": [f"{number:.2f}" for number in numbers],
        "textposition": "outside",
        "cliponaxis": False,
        "marker": {"color": colour, "pattern": {"shape": pattern}},
        "hovertemplate": f"{name}<br>%{{x}}: %{{y:.3f}}<extra></extra>",
    }
