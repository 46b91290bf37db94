"""A picture of welfare over the bound by load, as SVG."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from benchmarks.market_on_traces.cells import Cell
from benchmarks.market_on_traces.report import Line, lines_of

DRAWN: Mapping[str, tuple[str, str]] = {
    "dps": ("#0b5fa5", ""),
    "dps before": ("#0b5fa5", "6 4"),
    "completions": ("#a0126b", ""),
    "competition": ("#1b2430", ""),
    "oasis": ("#b3541e", ""),
    "oasis before": ("#b3541e", "6 4"),
    "srtf": ("#2f7048", ""),
    "tiresias": ("#7a4aa0", ""),
    "fifo": ("#6b7480", "2 3"),
}
"""Policies that are drawn, with the colour and the dashes of their lines."""
TITLES = {"by_size": "values grow with the size of a job", "equal": "values do not grow with the size"}
WIDTH, HEIGHT, LEFT, TOP, GAP = 380, 260, 60, 50, 70
"""Pixels of one of the two charts, and around it."""


def picture(cells: Sequence[Cell]) -> str:
    """Return the picture: a chart for each family of values."""
    lines = list(lines_of(cells))
    families = list(dict.fromkeys(line.family for line in lines))
    loads = sorted({load for line in lines for load in line.over_bound})
    drawn = [line for line in lines if line.contender in DRAWN]
    least = min((share for line in drawn for share in line.over_bound.values()), default=0.0)
    floor = min(0.9, int(10 * least) / 10)
    width = LEFT + len(families) * (WIDTH + GAP)
    height = TOP + HEIGHT + 90
    body: list[str] = []
    for i, family in enumerate(families):
        body += _chart([line for line in drawn if line.family == family], loads, floor, LEFT + i * (WIDTH + GAP))
        body.append(_text(LEFT + i * (WIDTH + GAP), TOP - 18, TITLES.get(family, family)))
    body += _legend([name for name in DRAWN if any(line.contender == name for line in drawn)], height - 26)
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-labelledby="t">',
            '<title id="t">Welfare over the bound by load</title>',
            "<style>text { font: 14px system-ui, sans-serif; fill: #1b2430; }</style>",
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
            *body,
            "</svg>\n",
        )
    )


def _chart(lines: Sequence[Line], loads: Sequence[float], floor: float, left: float) -> Iterator[str]:
    def x(load: float) -> float:
        return left + WIDTH * loads.index(load) / max(1, len(loads) - 1)

    def y(share: float) -> float:
        return TOP + HEIGHT * (1.0 - share) / (1.0 - floor)

    for tenth in range(round(10 * floor), 11):
        at = y(tenth / 10)
        yield f'<path d="M{left} {at:.1f}H{left + WIDTH}" stroke="#d5dae1"/>'
        yield _text(left - 34, at + 5, f"{tenth / 10:.1f}")
    for load in loads:
        yield _text(x(load) - 8, TOP + HEIGHT + 22, f"{load:g}")
    yield _text(left + WIDTH / 2 - 14, TOP + HEIGHT + 42, "load")
    for line in lines:
        colour, dashes = DRAWN[line.contender]
        points = " ".join(f"{x(load):.1f},{y(share):.1f}" for load, share in sorted(line.over_bound.items()))
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2.2"{dashed}/>'


def _legend(names: Sequence[str], at: float) -> Iterator[str]:
    for i, name in enumerate(names):
        colour, dashes = DRAWN[name]
        left = LEFT + 125 * i
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        yield f'<path d="M{left} {at - 5}h26" stroke="{colour}" stroke-width="2.2"{dashed}/>'
        yield _text(left + 32, at, name)


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'
