"""A figure of a paper, computed by this project: means over seeds, and their range."""

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
from studies.papers.figure import Reproduced, Series

COLOURS = (BLUE, SKY, ORANGE, GREEN, VERMILION, PURPLE, GREY)
DASHES = ("solid", "dash", "dot", "dashdot")
PATTERNS = ("", "/", ".", "x")


def figure(reproduced: Reproduced) -> Drawing:
    """Draw a line or bars for each series, with whiskers from its smallest to its largest seed."""
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
    return Drawing(data, drawn, note=f"Means over {len(reproduced.task.seeds)} seeds; whiskers reach all of them.")


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
    mean, high, low = one.mean, one.samples.max(axis=1), one.samples.min(axis=1)
    return {
        "name": one.name,
        "x": list(one.x),
        "y": [rounded(float(y)) for y in mean],
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [rounded(float(y)) for y in high - mean],
            "arrayminus": [rounded(float(y)) for y in mean - low],
            "color": colour,
            "thickness": 1,
        },
        "hovertemplate": f"{one.name}<br>%{{x}}: %{{y:,.5~g}}<extra></extra>",
    }
