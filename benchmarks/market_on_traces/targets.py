"""Targets, and whether a run reaches them. Each is judged in every cell, and the worst cell decides."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks.market_on_traces.cells import Cell, Place
from benchmarks.market_on_traces.contenders import BEFORE, MARKETS, QUEUES
from benchmarks.market_on_traces.workloads import BY_SIZE, EQUAL

LOW_LOAD, HIGH_LOAD = 0.5, 1.0
NEAR_BEST, LEAD, NEAR_QUEUE, NEAR_BOUND, ADMITTED, SLOWER = 0.99, 1.15, 0.95, 0.995, 0.98, 1.3
P50_MS, P99_MS, RETRIES_MS = 5.0, 30.0, 2.0
CONSERVED: Final = 0.0
ROUNDING: Final = 1e-9
Rows = Mapping[Place, Mapping[str, Cell]]


@dataclass(frozen=True)
class Verdict:
    """A target of a market with its figures."""

    market: str
    text: str
    wanted: float
    at_least: bool
    """Whether the figure has to be at least `wanted`; otherwise at most."""
    in_mean: bool
    """Whether the mean over the cells is judged; otherwise the worst cell is."""
    figures: tuple[float, ...]
    """One for each cell."""
    worst_place: Place | None

    @property
    def mean(self) -> float:
        """Mean over the cells."""
        return float(np.mean(self.figures))

    @property
    def worst(self) -> float:
        """Figure of the worst cell."""
        return min(self.figures) if self.at_least else max(self.figures)

    @property
    def kept(self) -> int:
        """Number of cells that reach the target by themselves."""
        return sum(self._reaches(figure) for figure in self.figures)

    @property
    def met(self) -> bool:
        """Whether the target is reached; never without cells."""
        return bool(self.figures) and self._reaches(self.mean if self.in_mean else self.worst)

    @property
    def line(self) -> str:
        """A line of text."""
        if not self.figures:
            return f"{self.market}: {self.text}: no cell to judge by"
        sign = ">=" if self.at_least else "<="
        worst = self.worst_place
        where = f" ({worst.trace}, load {worst.load:g}, {worst.family}, seed {worst.seed})" if worst else ""
        return (
            f"{self.market}: {self.text} {sign} {self.wanted:g}{' in the mean' if self.in_mean else ' in every cell'}: "
            f"{'MET' if self.met else 'NOT MET'}; mean {self.mean:.3f}, worst {self.worst:.3f}{where}, "
            f"{self.kept} of {len(self.figures)} cells"
        )

    def _reaches(self, figure: float) -> bool:
        if self.at_least:
            return figure >= self.wanted - ROUNDING
        return figure <= self.wanted + ROUNDING


def rows_of(cells: Iterable[Cell]) -> Rows:
    """Return the cells by place and contender."""
    rows: dict[Place, dict[str, Cell]] = {}
    for cell in cells:
        rows.setdefault(cell.place, {})[cell.contender] = cell
    return rows


def verdicts(cells: Sequence[Cell]) -> Iterator[Verdict]:
    """Yield the verdict on every target for each market."""
    rows = rows_of(cells)
    for market in MARKETS:
        yield from _verdicts(market, rows)


def _verdicts(market: str, rows: Rows) -> Iterator[Verdict]:
    mine = {place: row for place, row in rows.items() if market in row}
    by_size = {place: row for place, row in mine.items() if place.family == BY_SIZE}
    # Where no queue was run, nothing is judged against one.
    queued = {place: row for place, row in mine.items() if _queues(row)}
    equal = {place: row for place, row in queued.items() if place.family == EQUAL}
    high = {place: row for place, row in queued.items() if place.family == BY_SIZE and place.load >= HIGH_LOAD}
    low = {place: row for place, row in mine.items() if place.load <= LOW_LOAD}

    def verdict(
        text: str,
        wanted: float,
        among: Rows,
        figure: Callable[[Cell, Mapping[str, Cell]], float],
        *,
        at_least: bool = True,
        in_mean: bool = False,
    ) -> Verdict:
        figures = {place: figure(row[market], row) for place, row in among.items()}
        sign = 1.0 if at_least else -1.0
        worst = min(figures, key=lambda place: sign * figures[place], default=None)
        return Verdict(market, text, wanted, at_least, in_mean, tuple(figures.values()), worst)

    def over(own: Cell, others: Iterable[Cell]) -> float:
        best = max(other.welfare for other in others)
        return own.welfare / best if best > 0 else 1.0

    yield verdict(
        "by size: welfare / best policy", NEAR_BEST, by_size,
        lambda own, row: over(own, row.values()),
    )  # fmt: skip
    yield verdict(
        "by size, load >= 1: best queue", LEAD, high,
        lambda own, row: over(own, _queues(row)), in_mean=True,
    )  # fmt: skip
    before = _before(market)
    yield verdict(
        "by size: welfare / that before" if market in before else "by size: welfare / best before", 1.0,
        {place: row for place, row in by_size.items() if all(f"{name} before" in row for name in before)},
        lambda own, row: over(own, [row[f"{name} before"] for name in before]),
    )  # fmt: skip
    yield verdict("equal: welfare / best queue", NEAR_QUEUE, equal, lambda own, row: over(own, _queues(row)))
    yield verdict("load <= 0.5: welfare / bound", NEAR_BOUND, low, lambda own, _: own.over_bound)
    yield verdict("load <= 0.5: admitted", ADMITTED, low, lambda own, _: own.acceptance)
    yield verdict(
        "load <= 0.5: JCT / SRTF", SLOWER, {place: row for place, row in low.items() if "srtf" in row},
        lambda own, row: ratio(own.mean_jct_h, row["srtf"].mean_jct_h), at_least=False,
    )  # fmt: skip
    yield verdict(
        "idle while wanted / GPU-slots needed", CONSERVED, mine, lambda own, _: own.idle_while_wanted, at_least=False
    )
    for text, wanted, figure in (
        ("decision, p50 ms", P50_MS, lambda own, _: own.p50_ms),
        ("decision, p99 ms", P99_MS, lambda own, _: own.p99_ms),
    ):
        yield verdict(text, wanted, mine, figure, at_least=False)
    yield verdict(
        "retries and slots, ms a bid", RETRIES_MS, mine, lambda own, _: own.between_ms,
        at_least=False, in_mean=True,
    )  # fmt: skip


def possible_lead(cells: Sequence[Cell]) -> float | None:
    """Return the mean of the bound for any schedule over the welfare of the best queue, where a lead is asked for.

    Values that grow with the size and loads of 1 and more; no policy can lead by more. None if there is no such cell.
    """
    queues = (
        (row, max(one.welfare for one in _queues(row)))
        for place, row in rows_of(cells).items()
        if place.family == BY_SIZE and place.load >= HIGH_LOAD and _queues(row)
    )
    leads = [next(iter(row.values())).bound_any / best for row, best in queues if best > 0]
    return float(np.mean(leads)) if leads else None


def ratio(hours: float | None, others: float | None) -> float:
    """Return the ratio of two times; 1 if a policy completed no job."""
    return hours / others if hours is not None and others else 1.0


def _before(market: str) -> tuple[str, ...]:
    """Return the markets whose former defaults a market is judged by: its own, or all if it has none."""
    return (market,) if market in BEFORE else tuple(BEFORE)


def _queues(row: Mapping[str, Cell]) -> list[Cell]:
    return [row[name] for name in QUEUES if name in row]
