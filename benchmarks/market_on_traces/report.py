"""The table and the picture of a run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from benchmarks.market_on_traces.cells import Cell
from benchmarks.market_on_traces.targets import LOW_LOAD, ratio, rows_of

PRICED = ("dps", "oasis")
"""Markets with two learned price rules."""
COLUMNS = ("values", "policy", "*", "admitted", "low", "JCT low", "p95 low", "idle wanted", "revenue")


@dataclass(frozen=True)
class Line:
    """Means over the cells of one policy and one family of values."""

    family: str
    contender: str
    over_bound: dict[float, float]
    """Welfare over the bound, by load."""
    acceptance: float
    acceptance_low: float
    """At loads up to `LOW_LOAD`, as the two below."""
    jct_low: float
    """Mean JCT over that of SRTF."""
    p95_low: float
    idle_while_wanted: float
    revenue: float
    """Revenue over the bound."""


def lines_of(cells: Sequence[Cell]) -> Iterator[Line]:
    """Yield a line for each family and policy, in the order in which they ran."""
    rows = rows_of(cells)
    names = list(dict.fromkeys((cell.place.family, cell.contender) for cell in cells))
    for family, contender in sorted(names, key=lambda name: name[0] != names[0][0]):
        pairs = [(row[contender], row.get("srtf")) for place, row in rows.items()
                 if place.family == family and contender in row]  # fmt: skip
        own = [cell for cell, _ in pairs]
        low = [(cell, srtf) for cell, srtf in pairs if cell.place.load <= LOW_LOAD]
        loads = sorted({cell.place.load for cell in own})
        yield Line(
            family,
            contender,
            {load: fmean(cell.over_bound for cell in own if cell.place.load == load) for load in loads},
            acceptance=fmean(cell.acceptance for cell in own),
            acceptance_low=_mean([cell.acceptance for cell, _ in low]),
            jct_low=_mean([ratio(cell.mean_jct_h, srtf.mean_jct_h) for cell, srtf in low if srtf]),
            p95_low=_mean([ratio(cell.p95_jct_h, srtf.p95_jct_h) for cell, srtf in low if srtf]),
            idle_while_wanted=fmean(cell.idle_while_wanted for cell in own),
            revenue=fmean(cell.revenue / cell.bound if cell.bound > 0 else 0.0 for cell in own),
        )


def _mean(numbers: list[float]) -> float:
    return fmean(numbers) if numbers else 1.0


def table(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield the table in Markdown."""
    loads = sorted({cell.place.load for cell in cells})
    heads = [f"{load:g}" for load in loads]
    columns = [column for name in COLUMNS for column in (heads if name == "*" else [name])]
    yield f"| {' | '.join(columns)} |"
    yield "|" + " --- |" * len(columns)
    for line in lines_of(cells):
        shares = [f"{line.over_bound[load]:.3f}" if load in line.over_bound else "-" for load in loads]
        others = (
            f"{line.acceptance:.0%}", f"{line.acceptance_low:.1%}", f"{line.jct_low:.2f}", f"{line.p95_low:.2f}",
            f"{line.idle_while_wanted:.1%}", f"{line.revenue:.2f}",
        )  # fmt: skip
        yield f"| {' | '.join((line.family, line.contender, *shares, *others))} |"


def rules_table(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield, in Markdown, what each market would gain if it knew for every cell which of two price rules is better.

    For each load: welfare over the bound with quantile prices, with fluid prices, with the better one of the two in
    each cell, and the number of cells in which fluid prices are ahead.
    """
    rows = rows_of(cells)
    yield "| values | market | load | quantile | fluid | better | fluid ahead |"
    yield "|" + " --- |" * 7
    for family in dict.fromkeys(place.family for place in rows):
        for market in PRICED:
            for load in sorted({place.load for place in rows}):
                pairs = [
                    (row[market].over_bound, row[f"{market} fluid"].over_bound)
                    for place, row in rows.items()
                    if (place.family, place.load) == (family, load) and {market, f"{market} fluid"} <= row.keys()
                ]
                if pairs:
                    yield f"| {family} | {market} | {load:g} | {_better(pairs)} |"


def _better(pairs: list[tuple[float, float]]) -> str:
    learned, fluid = (fmean(column) for column in zip(*pairs, strict=True))
    ahead = sum(other > one for one, other in pairs)
    return f"{learned:.3f} | {fluid:.3f} | {fmean(max(pair) for pair in pairs):.3f} | {ahead} of {len(pairs)}"
