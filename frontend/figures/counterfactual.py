"""Welfare and revenue of a record, as it was and as it would have been, bid by bid."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from frontend.figures.base import (
    BLUE,
    ORANGE,
    Drawing,
    axis,
    axis_from_0,
    curve,
    nothing,
    rounded,
    thinned,
    with_legend,
)


@dataclass(frozen=True)
class Gain:
    """Welfare and revenue of one bid, as recorded and in the counterfactual; money."""

    sequence: int
    value: float
    payment: float
    other_value: float
    other_payment: float


def figure(gains: Sequence[Gain], *, other: str) -> Drawing:
    """Running sums in the order of bids."""
    if not gains:
        return nothing("counterfactual", "Nothing was replayed yet.")
    kept = thinned(len(gains))
    sums = {name: list(accumulate(getattr(gain, name) for gain in gains)) for name in vars(gains[0])}
    x = [gains[i].sequence for i in kept]
    lines = {"value": ("welfare, recorded", BLUE, "solid"), "other_value": (f"welfare, {other}", ORANGE, "solid")}
    if sums["payment"][-1] or sums["other_payment"][-1]:
        lines |= {"payment": ("revenue, recorded", BLUE, "dot"), "other_payment": (f"revenue, {other}", ORANGE, "dot")}
    data = []
    for key, (name, colour, dash) in lines.items():
        y = [rounded(sums[key][i]) for i in kept]
        data.append(curve(name, x, y, colour, dash=dash, hover=f"{name} up to bid %{{x}}: %{{y:,.5~g}}"))
    axes = {"xaxis": axis("bid"), "yaxis": axis_from_0("sum so far")}
    drawn = with_legend(height=320, key="counterfactual", margin={"t": 72}, **axes)
    note = "" if len(kept) == len(gains) else f"{len(kept)} of {len(gains)} sums are drawn; each is exact."
    return Drawing(data, drawn, note=note)
