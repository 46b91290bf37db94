"""Gantt chart of a plan of split learning: forward and backward passes of clients on helpers."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from frontend.figures.base import (
    BLUE,
    ORANGE,
    Drawing,
    Json,
    axis,
    bar_texts,
    dotted,
    hatching,
    nothing,
    rows_axis,
    with_legend,
)
from studies.split_learning.plans.readings import Piece

LARGEST_HELPERS: Final = 60
LARGEST_BARS: Final = 1200
KINDS: Final = {"forward": ("forward", BLUE, ""), "backward": ("backward (hatched)", ORANGE, "/")}
"""Label, colour and hatching of each pass."""


def figure(
    pieces: Sequence[Piece],
    helpers: Sequence[str],
    *,
    makespan: int,
    slot_ms: int,
    first: int = 0,
    key: str = "plan",
    none: str = "",
) -> Drawing:
    """A row for each helper in order from the first on, as many as may be drawn; without a bar it is idle.

    `none` is the note where there are no pieces.
    """
    if not pieces:
        return nothing(key, none)
    start = max((at for at in pages(pieces, helpers) if at <= first), default=0)
    rows, kept = _cut(pieces, helpers, start)
    place = {name: i for i, name in enumerate(rows)}
    note = "Where nothing is drawn a helper is idle; the dotted line is the end of the batch."
    if len(rows) < len(helpers):
        note = f"Helpers {start + 1} to {start + len(rows)} of {len(helpers)} are drawn, the CSV file has all. {note}"
    drawn = with_legend(
        height=130 + max(90, 26 * len(rows)),
        key=key,
        barmode="overlay",
        uniformtext={"minsize": 8, "mode": "hide"},
        xaxis=axis(f"slots of {slot_ms:,} ms", range=[0, makespan * 1.02 + 1]),
        yaxis=rows_axis(range(len(rows)), [_short(name) for name in rows], rows=len(rows)),
        shapes=[dotted(x=makespan)],
    )
    return Drawing([_trace(kept, place, kind) for kind in KINDS], drawn, note=note)


def pages(pieces: Sequence[Piece], helpers: Sequence[str]) -> list[int]:
    """The first helper of each drawing, if one holds too few."""
    bars = Counter(piece.helper for piece in pieces)
    starts, drawn, rows = [0], 0, 0
    for i, name in enumerate(helpers):
        if rows and (rows == LARGEST_HELPERS or drawn + bars[name] > LARGEST_BARS):
            starts.append(i)
            drawn = rows = 0
        drawn += bars[name]
        rows += 1
    return starts


def _cut(pieces: Sequence[Piece], helpers: Sequence[str], start: int) -> tuple[list[str], list[Piece]]:
    """Return the helpers from there on that may be drawn, and their pieces."""
    rows: list[str] = []
    kept: list[Piece] = []
    of: dict[str, list[Piece]] = {name: [] for name in helpers}
    for piece in pieces:
        of[piece.helper].append(piece)
    for name in helpers[start : start + LARGEST_HELPERS]:
        if rows and len(kept) + len(of[name]) > LARGEST_BARS:
            break
        rows.append(name)
        kept += of[name]
    return rows, kept


def _trace(pieces: Sequence[Piece], place: dict[str, int], kind: str) -> Json:
    label, colour, shape = KINDS[kind]
    mine = [piece for piece in pieces if piece.kind == kind]
    return {
        "type": "bar",
        "orientation": "h",
        "name": label,
        "base": [piece.start for piece in mine],
        "x": [piece.end - piece.start for piece in mine],
        "y": [place[piece.helper] for piece in mine],
        "width": 0.8,
        # Hatching shows the kind of pass, not colour alone; a border separates consecutive passes.
        "marker": {
            "color": colour,
            "pattern": hatching(shape, colour),
            "line": {"width": 1, "color": "rgba(128,128,128,.6)"},
            "opacity": 1.0,
        },
        **bar_texts([_short(piece.client) for piece in mine]),
        "customdata": [[piece.client, piece.helper, piece.start, piece.end] for piece in mine],
        "hovertemplate": f"%{{customdata[0]}}, {kind} on %{{customdata[1]}}"
        "<br>slots %{customdata[2]} to %{customdata[3]}<extra></extra>",
    }


def _short(name: str) -> str:
    return name if len(name) <= 18 else f"{name[:17]}…"
