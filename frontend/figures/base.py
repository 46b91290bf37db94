"""Parts that all figures share: palette, axes, rounding."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from frontend.figures.timeline import TimeLine

Json = dict[str, Any]
Row = Sequence[object]

# Okabe and Ito's palette: safe for all common kinds of colour blindness, and visible on white and near-black.
BLUE: Final = "#0072B2"
SKY: Final = "#56B4E9"
GREEN: Final = "#009E73"
ORANGE: Final = "#E69F00"
VERMILION: Final = "#D55E00"
PURPLE: Final = "#CC79A7"
GREY: Final = "#8A8F98"

DIGITS: Final = 4
"""Significant digits of drawn numbers, to keep documents small. Tables show all digits."""
LARGEST_POINTS: Final = 500


@dataclass(frozen=True)
class Drawing:
    """A Plotly document with a note for the reader."""

    data: list[Json]
    layout: Json
    note: str = ""
    """A sentence on what was aggregated or left out; empty if nothing was."""

    def to_json(self) -> Json:
        """Return the document that pages fetch."""
        return {"data": self.data, "layout": self.layout, "note": self.note}


@dataclass(frozen=True)
class Table:
    """Header and rows of a CSV file."""

    header: Row
    rows: Iterable[Row]

    @classmethod
    def of(cls, rows: Iterable[Row]) -> "Table":
        """Return the table of these rows, the first of which is the header."""
        header, *rest = rows
        return cls(header, rest)


def rounded(number: float) -> float:
    """Return a number as it is drawn, rounded."""
    return float(f"{number:.{DIGITS}g}")


def thinned(count: int) -> list[int]:
    """Return the indices of the points to draw of a running sum or mean; the last point is always included."""
    if count <= LARGEST_POINTS:
        return list(range(count))
    return sorted({*np.linspace(0, count - 1, LARGEST_POINTS).astype(int).tolist(), count - 1})


def layout(*, height: int, key: str, **more: Any) -> Json:
    """Return a layout without colours; `key` names the view whose zoom is kept over updates."""
    return {
        "height": height,
        "uirevision": key,
        "margin": {"l": 60, "r": 16, "t": 12, "b": 48},
        "hovermode": "closest",
        "showlegend": False,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        **more,
    }


def with_legend(*, height: int, key: str, margin: Json | None = None, **more: Any) -> Json:
    """Return a layout with a legend above the plot, left of its buttons."""
    legend = {"orientation": "h", "x": 0, "y": 1, "yref": "container", "yanchor": "top"}
    around = {"l": 60, "r": 16, "t": 56, "b": 48, **(margin or {})}
    return layout(height=height, key=key, showlegend=True, legend=legend, margin=around, **more)


def nothing(key: str, note: str) -> Drawing:
    """Return a drawing without data, with a note that says why."""
    return Drawing([], layout(height=160, key=key), note=note)


def axis(title: str, **more: Any) -> Json:
    """Return an axis with this title."""
    return {"title": {"text": title}, "automargin": True, **more}


def axis_from_0(title: str) -> Json:
    """Return an axis that shows 0."""
    return axis(title, rangemode="tozero")


def right_axis(title: str, **more: Any) -> Json:
    """Return a second y axis, at the right."""
    return {**axis_from_0(title), "overlaying": "y", "side": "right", "showgrid": False, "zeroline": False, **more}


def rows_axis(places: Sequence[float], names: Sequence[str], *, rows: int) -> Json:
    """Return the y axis of a Gantt chart of this number of rows, with names at their places, from the top down."""
    grid = {"showgrid": False, "zeroline": False}
    return {"tickvals": list(places), "ticktext": list(names), "range": [rows - 0.5, -0.5], "automargin": True, **grid}


def time_axis(line: TimeLine, **more: Any) -> Json:
    """Return a date axis whose title states the length of a slot."""
    return axis(f"time, UTC (1 slot = {line.slot_words})", **{"type": "date", "nticks": 7, **more})


def curve(
    name: str, x: Sequence[Any], y: Sequence[Any], colour: str, *, hover: str, dash: str = "solid", **more: Any
) -> Json:
    """Return a line; `hover` is the text at its points."""
    stroke = {"color": colour, "width": 2, "dash": dash, **more.pop("line", {})}
    shown = {"x": list(x), "y": list(y), "line": stroke, "hovertemplate": f"{hover}<extra></extra>"}
    return {"type": "scatter", "mode": "lines", "name": name, **shown, **more}


def points(
    name: str, x: Sequence[Any], y: Sequence[Any], colour: str, *, hover: str, symbol: str = "diamond", **more: Any
) -> Json:
    """Return single points; `hover` is the text at each."""
    marker = {"color": colour, "size": 11, "symbol": symbol, **more.pop("marker", {})}
    shown = {"x": list(x), "y": list(y), "marker": marker, "hovertemplate": f"{hover}<extra></extra>"}
    return {"type": "scatter", "mode": "markers", "name": name, **shown, **more}


def hatching(shape: str, colour: str) -> Json:
    """Return the pattern of bars of a colour: stripes beside which texts can be read, light on orange, else dark."""
    stripes = {"fgcolor": "#fff", "fgopacity": 0.5} if colour == ORANGE else {"fgcolor": "#000", "fgopacity": 0.35}
    return {"shape": shape, "size": 6, "solidity": 0.3, "fillmode": "overlay", **stripes}


def bar_texts(texts: Sequence[str]) -> Json:
    """Return the texts inside the bars of a Gantt chart, which are hidden where they do not fit."""
    place = {"textposition": "inside", "insidetextanchor": "middle", "textangle": 0, "textfont": {"size": 10}}
    return {"text": list(texts), **place}


def dotted(*, x: str | float | None = None, y: float | None = None, colour: str = VERMILION) -> Json:
    """Return a dotted line across the plot: upright at `x`, or level at `y`."""
    ends = {"xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y}
    if x is not None:
        ends = {"xref": "x", "yref": "paper", "x0": x, "x1": x, "y0": 0, "y1": 1}
    return {"type": "line", **ends, "line": {"color": colour, "width": 2, "dash": "dot"}}


def now_mark(line: TimeLine, now: int, *shapes: Json) -> Json:
    """Return a labelled line at the beginning of the first slot on sale, as parts of a layout with other shapes."""
    at = line.date(now)
    place = {"xref": "x", "yref": "paper", "x": at, "y": 1, "xanchor": "center", "yanchor": "bottom"}
    return {"shapes": [*shapes, dotted(x=at)], "annotations": [{"text": "now", "showarrow": False, **place}]}
