"""Gantt chart of a run of a plan: what each helper really did in a batch, below what was planned."""

from collections.abc import Sequence

from frontend.figures.base import (
    Drawing,
    Json,
    axis,
    bar_texts,
    dotted,
    hatching,
    nothing,
    rounded,
    rows_axis,
    with_legend,
)
from frontend.figures.plan_gantt import KINDS, LARGEST_BARS
from studies.split_learning.plans.readings import Piece
from studies.split_learning.runs.readings import MeasuredPiece

SHIFT = 0.2
"""Distance of bars from the middle of their row: planned ones are above it, measured ones below."""


def figure(
    planned: Sequence[Piece],
    measured: Sequence[MeasuredPiece],
    helpers: Sequence[str],
    *,
    ends: tuple[float, float],
    slot_ms: float,
    note: str,
) -> Drawing:
    """A row for each helper with two bars for each part of a pass.

    Parameters
    ----------
    planned, measured
        Parts of passes of one batch, slots.
    helpers
        Names in order.
    ends
        Planned and measured end of the batch, slots.
    slot_ms
        Length of a slot in the run, milliseconds.
    note
        Which run and batch are drawn; all that is said if `measured` is empty.
    """
    if not measured:
        return nothing("plan run", note)
    kept = [helper for helper in helpers if any(piece.helper == helper for piece in planned)]
    place = {name: i for i, name in enumerate(kept)}
    if len(planned) > LARGEST_BARS:
        note = f"{note} The first {LARGEST_BARS:,} parts of passes are drawn, the CSV file has all."
    layout = with_legend(
        height=130 + max(90, 40 * len(kept)),
        key="plan run",
        barmode="overlay",
        uniformtext={"minsize": 8, "mode": "hide"},
        xaxis=axis(f"slots of {slot_ms:g} ms", range=[0, rounded(max(ends) * 1.02 + 1)]),
        yaxis=rows_axis(range(len(kept)), [_short(name) for name in kept], rows=len(kept)),
        shapes=[dotted(x=ends[0])],
    )
    traces = [
        _trace(pieces[:LARGEST_BARS], place, kind, outlined=outlined)
        for outlined, pieces in ((True, planned), (False, measured))
        for kind in KINDS
    ]
    return Drawing(traces, layout, note=note)


def _trace(pieces: Sequence[Piece | MeasuredPiece], place: dict[str, int], kind: str, *, outlined: bool) -> Json:
    label, colour, shape = KINDS[kind]
    mine = [piece for piece in pieces if piece.kind == kind]
    what = "planned" if outlined else "measured"
    return {
        "type": "bar",
        "orientation": "h",
        "name": f"planned: {kind}" if outlined else f"measured: {label}",
        "base": [rounded(piece.start) for piece in mine],
        "x": [rounded(piece.end - piece.start) for piece in mine],
        "y": [place[piece.helper] + (-SHIFT if outlined else SHIFT) for piece in mine],
        "width": 0.36,
        "marker": {
            "color": "rgba(0,0,0,0)" if outlined else colour,
            "pattern": hatching("" if outlined else shape, colour),
            "line": {"width": 1.5 if outlined else 1, "color": colour if outlined else "rgba(128,128,128,.6)"},
        },
        **bar_texts([_short(piece.client) for piece in mine]),
        "customdata": [[piece.client, piece.helper, rounded(piece.start), rounded(piece.end)] for piece in mine],
        "hovertemplate": f"%{{customdata[0]}}, {kind} on %{{customdata[1]}}, {what}"
        "<br>slots %{customdata[2]} to %{customdata[3]}<extra></extra>",
    }


def _short(name: str) -> str:
    return name if len(name) <= 18 else f"{name[:17]}…"
