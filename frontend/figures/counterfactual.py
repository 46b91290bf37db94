"""Welfare and revenue of a record, as it was and as it would have been, bid by bid."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from frontend.figures.base import BLUE, ORANGE, Drawing, Json, layout, legend, rounded, thinned


@dataclass(frozen=True)
class Gain:
    """Welfare and revenue of one bid, as recorded and in the counterfactual; money."""

    sequence: int
    worth: float
    payment: float
    other_worth: float
    other_payment: float


def figure(gains: Sequence[Gain], *, other: str) -> Drawing:
    """Running sums in the order of bids."""
    if not gains:
        return Drawing([], layout(height=160, key="counterfactual"), note="Nothing was replayed yet.")
    kept = thinned(len(gains))
    sums = {name: list(accumulate(getattr(gain, name) for gain in gains)) for name in vars(gains[0])}
    x = [gains[i].sequence for i in kept]
    data = [_line("welfare, recorded", x, [sums["worth"][i] for i in kept], BLUE, "solid")]
    data += [_line(f"welfare, {other}", x, [sums["other_worth"][i] for i in kept], ORANGE, "solid")]
    if sums["payment"][-1] or sums["other_payment"][-1]:
        data += [_line("revenue, recorded", x, [sums["payment"][i] for i in kept], BLUE, "dot")]
        data += [_line(f"revenue, {other}", x, [sums["other_payment"][i] for i in kept], ORANGE, "dot")]
    drawn = layout(
        height=320,
        key="counterfactual",
        showlegend=True,
        legend=legend(),
        margin={"l": 60, "r": 16, "t": 72, "b": 48},
        xaxis={"title": {"text": "bid"}, "automargin": True},
        yaxis={"title": {"text": "sum so far"}, "rangemode": "tozero", "automargin": True},
    )
    note = "" if len(kept) == len(gains) else f"{len(kept)} of {len(gains)} sums are drawn; each is exact."
    return Drawing(data, drawn, note=note)


def _line(name: str, x: Sequence[int], y: Sequence[float], colour: str, dash: str) -> Json:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": list(x),
        "y": [rounded(value) for value in y],
        "line": {"color": colour, "width": 2, "dash": dash},
        "hovertemplate": f"{name} up to bid %{{x}}: %{{y:,.5~g}}<extra></extra>",
    }
