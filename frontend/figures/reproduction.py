"""A figure of a paper, computed by this project: means over seeds, and their intervals."""

from collections.abc import Iterator

from frontend.figures.base import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    Drawing,
    Json,
    Row,
    Table,
    axis,
    rounded,
    with_legend,
)
from scheduling.model.types import Floats
from studies.experiments.intervals import LEVEL
from studies.papers.figure import Reproduced, Series

COLOURS = (BLUE, SKY, ORANGE, GREEN, VERMILION, PURPLE, GREY)
DASHES = ("solid", "dash", "dot", "dashdot")
PATTERNS = ("", "/", ".", "x")


def figure(reproduced: Reproduced) -> Drawing:
    """Draw a line or bars for each series, with its 95 % intervals as whiskers."""
    shown, series = reproduced.figure, reproduced.data.series
    one = _bar if shown.bars else _line
    data = [one(line, i) for i, line in enumerate(series)]
    drawn = with_legend(
        height=460,
        key=f"{reproduced.paper.key}-{shown.number}",
        barmode="group",
        margin={"l": 70, "t": 110, "b": 60},
        xaxis=axis(shown.x, **({"type": "category"} if isinstance(series[0].x[0], str) else {})),
        yaxis=axis(shown.y, **({"type": "log"} if shown.log else {"rangemode": "tozero"})),
    )
    drawn["legend"] |= {"y": 1.02, "yref": "paper", "yanchor": "bottom"}
    return Drawing(data, drawn, note=_note(len(reproduced.task.seeds)))


def _note(seeds: int) -> str:
    if seeds == 1:
        return "One seed, so no intervals."
    return f"Means over {seeds} seeds; whiskers are {100 * LEVEL:.0f} % intervals of the mean, by Student's t."


def table(reproduced: Reproduced) -> Table:
    """Return all runs as a table."""
    return Table(("series", "x", "seed", "value"), _rows(reproduced))


def _rows(reproduced: Reproduced) -> Iterator[Row]:
    for one in reproduced.data.series:
        for x, samples in zip(one.x, one.samples.tolist(), strict=True):
            for seed, value in zip(reproduced.task.seeds, samples, strict=True):
                yield one.name, x, seed, value


def _line(one: Series, i: int) -> Json:
    colour = COLOURS[i % len(COLOURS)]
    return _drawn(one, colour) | {
        "type": "scatter",
        "mode": "lines+markers",
        "line": {"color": colour, "width": 2, "dash": DASHES[i // len(COLOURS) % len(DASHES)]},
        "marker": {"color": colour, "symbol": i},
    }


def _bar(one: Series, i: int) -> Json:
    shape = PATTERNS[i // len(COLOURS) % len(PATTERNS)]
    return _drawn(one, GREY) | {
        "type": "bar",
        "marker": {"color": COLOURS[i % len(COLOURS)], "pattern": {"shape": shape}},
    }


def _drawn(one: Series, colour: str) -> Json:
    half = one.half_width
    whiskers = {} if half is None else {"error_y": _whiskers(half, colour)}
    return {
        "name": one.name,
        "x": list(one.x),
        "y": [rounded(float(y)) for y in one.mean],
        "hovertemplate": f"{one.name}<br>%{{x}}: %{{y:,.5~g}}<extra></extra>",
    } | whiskers


def _whiskers(half: Floats, colour: str) -> Json:
    return {"type": "data", "array": [rounded(float(y)) for y in half], "color": colour, "thickness": 1}
