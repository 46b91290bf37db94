"""Parts that all figures share: palette, axes, rounding."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from frontend.figures.timeline import TimeLine

Json = dict[str, Any]
Row = Sequence[str | int | float]

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

    header: tuple[str, ...]
    rows: Iterable[Row]


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


def time_axis(line: TimeLine, **more: Any) -> Json:
    """Return a date axis whose title states the length of a slot."""
    return {
        "type": "date",
        "title": {"text": f"time, UTC (1 slot = {line.slot_words})"},
        "automargin": True,
        "nticks": 7,
        **more,
    }


def legend() -> Json:
    """Return a legend above the plot, left of its buttons."""
    return {"orientation": "h", "x": 0, "y": 1, "yref": "container", "yanchor": "top"}


def now_line(line: TimeLine, now: int) -> Json:
    """Return a vertical line at the beginning of the first slot on sale."""
    return {
        "type": "line",
        "xref": "x",
        "yref": "paper",
        "x0": line.date(now),
        "x1": line.date(now),
        "y0": 0,
        "y1": 1,
        "line": {"color": VERMILION, "width": 2, "dash": "dot"},
    }


def now_word(line: TimeLine, now: int) -> Json:
    """Return the label of the vertical line."""
    return {
        "text": "now",
        "xref": "x",
        "yref": "paper",
        "x": line.date(now),
        "y": 1,
        "xanchor": "center",
        "yanchor": "bottom",
        "showarrow": False,
    }
