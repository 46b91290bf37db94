"""Heat maps of the cost of a slot on each server: posted prices in money, or congestion in delayed jobs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isnan

import numpy as np

from frontend.figures.base import DIGITS, Drawing, Json, Table, layout, nothing, rounded, time_axis
from frontend.figures.timeline import TimeLine
from scheduling.model.types import Floats, Ints

LARGEST_ROWS = 60
LARGEST_COLUMNS = 160
LEAST_COLUMNS = 24
MARGIN = 4
"""Slots shown beyond the last one whose prices differ from those at the end."""
DARKEST = 1e4
"""Ratio to the highest price below which prices, and free units, share the darkest colour."""
BOTH, BY_SERVER, BY_TYPE = "both", "server", "type"


@dataclass(frozen=True)
class Quantity:
    """Words for the quantity of a heat map: in its colour bar, tooltips, notes and table."""

    scale: str
    hover: str
    """Text of a tooltip; `{}` stands for the number."""
    plural: str
    highest: str
    """Adjective for the rows with the largest numbers."""
    zero: str
    """The note if all numbers are 0."""
    column: str
    """Header of the table's column of numbers."""


PRICE = Quantity(
    scale="price per unit and slot",
    hover="price {} per unit and slot",
    plural="prices",
    highest="dearest",
    zero="Every price is 0 in these slots.",
    column="price_per_unit_and_slot",
)
CONGESTION = Quantity(
    scale="jobs delayed",
    hover="{} jobs delayed if a worker of this type stops for this slot",
    plural="numbers of jobs delayed",
    highest="most congested",
    zero="No job would be delayed if a worker stopped for one of these slots.",
    column="jobs_delayed_per_worker_and_slot",
)


@dataclass(frozen=True)
class PriceView:
    """Prices of slots [start, start + T) as a chart shows them."""

    start: int
    rows: tuple[str, ...]
    price: Floats
    """Rows x T, money per unit and slot; NaN if nothing is on sale."""
    note: str = ""
    step: int = 1
    """Slots in a column."""


def default_view(capacity: Ints) -> str:
    """Return a view by server and type if it is readable; otherwise means by server, or by type."""
    if int((capacity > 0).sum()) <= LARGEST_ROWS:
        return BOTH
    return BY_SERVER if len(capacity) <= LARGEST_ROWS else BY_TYPE


def both(start: int, price: Floats, capacity: Ints, servers: Sequence[str], resources: Sequence[str]) -> PriceView:
    """Return one row for each server and type with units on sale; `price` T x S x R, `capacity` S x R."""
    pairs = [(int(s), int(r)) for s, r in np.argwhere(capacity > 0)]
    rows = tuple(f"{servers[s]} · {resources[r]}" for s, r in pairs)
    return PriceView(start=start, rows=rows, price=price[:, [s for s, _ in pairs], [r for _, r in pairs]].T)


def by_server(start: int, price: Floats, capacity: Ints, servers: Sequence[str]) -> PriceView:
    """Return the mean price of a unit on each server."""
    mean = _mean(np.nansum(price * capacity, axis=2), _for_sale(price, capacity).sum(axis=2))
    return PriceView(start=start, rows=tuple(servers), price=mean.T, note="Mean over the types of each server.")


def by_type(start: int, price: Floats, capacity: Ints, resources: Sequence[str]) -> PriceView:
    """Return the mean price of a unit of each type."""
    mean = _mean(np.nansum(price * capacity, axis=1), _for_sale(price, capacity).sum(axis=1))
    return PriceView(start=start, rows=tuple(resources), price=mean.T, note="Mean over the servers, weighted by units.")


def of_server(start: int, price: Floats, capacity: Ints, resources: Sequence[str], server: int) -> PriceView:
    """Return the prices of the types of one server."""
    have = np.flatnonzero(capacity[server] > 0)
    return PriceView(start=start, rows=tuple(resources[int(r)] for r in have), price=price[:, server, have].T)


def figure(view: PriceView, line: TimeLine, *, key: str = "prices", of: Quantity = PRICE) -> Drawing:
    """Draw the heat map; if it would not be readable, only the dearest rows, and columns of several slots."""
    shown = _columns(_until_still(_dearest(view, of), of))
    if not shown.rows or not shown.price.shape[1]:
        return nothing(key, "Nothing is on sale in these slots.")
    if not np.nan_to_num(view.price).any():
        return nothing(key, of.zero)
    starts = [shown.start + i * shown.step for i in range(shown.price.shape[1])]
    trace = {
        "type": "heatmap",
        # Centres of cells: with edges, Plotly does not find the row under the pointer on a date axis.
        "x": [line.date_of_seconds((slot + shown.step / 2) * line.slot_seconds) for slot in starts],
        "y": list(shown.rows),
        "customdata": [starts] * len(shown.rows),
        "text": [["" if np.isnan(p) else f"{p:.{DIGITS}g}" for p in row] for row in shown.price],
        "colorscale": "Cividis",
        "hoverongaps": False,
        "hovertemplate": "%{y}<br>%{x|%-d %b %H:%M} (slot %{customdata})<br>"
        + of.hover.format("%{text}")
        + "<extra></extra>",
        **_colours(shown.price, of),
    }
    height = 110 + max(120, min(760, 18 * len(shown.rows)))
    axes = {
        "xaxis": time_axis(line, range=[line.date(starts[0]), line.date(starts[-1] + shown.step)]),
        "yaxis": {"automargin": True, "autorange": "reversed", "type": "category", "ticklabelstep": _step(shown)},
    }
    return Drawing([trace], layout(height=height, key=key, **axes), note=shown.note)


def table(view: PriceView, line: TimeLine, *, of: Quantity = PRICE) -> Table:
    """Return all numbers of the view as a table."""
    begins = [(slot, line.date(slot)) for slot in range(view.start, view.start + view.price.shape[1])]
    rows = (
        (name, *begun, price)
        for name, prices in zip(view.rows, view.price, strict=True)
        for begun, price in zip(begins, prices.tolist(), strict=True)
        if not isnan(price)
    )
    return Table(("row", "slot", "begins_utc", of.column), rows)


def _for_sale(price: Floats, capacity: Ints) -> Ints:
    """Return units on sale in each slot, T x S x R; 0 if there is no price."""
    units: Ints = np.where(np.isnan(price), 0, capacity)
    return units


def _mean(total: Floats, units: Ints) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):  # no units: NaN means that nothing is on sale
        mean: Floats = np.where(units > 0, total / units, np.nan)
    return mean


def _dearest(view: PriceView, of: Quantity) -> PriceView:
    if len(view.rows) <= LARGEST_ROWS:
        return view
    value = np.nan_to_num(view.price).mean(axis=1)
    kept = np.sort(np.argsort(-value, kind="stable")[:LARGEST_ROWS])
    note = f"{view.note} The {LARGEST_ROWS} {of.highest} of {len(view.rows)} rows; the CSV file has all.".strip()
    return replace(view, rows=tuple(view.rows[i] for i in kept), price=view.price[kept], note=note)


def _until_still(view: PriceView, of: Quantity) -> PriceView:
    """Leave out the last slots, in which nothing is held and prices are equal."""
    slots = view.price.shape[1]
    if not slots or not view.rows:
        return view
    moving = np.flatnonzero((np.nan_to_num(view.price) != np.nan_to_num(view.price[:, -1:])).any(axis=0))
    kept = max(LEAST_COLUMNS, int(moving[-1]) + 1 + MARGIN if moving.size else 0)
    if kept >= slots:
        return view
    left_out = f"The last {slots - kept} slots on sale are not shown: their {of.plural} are those of the last column."
    note = f"{view.note} {left_out}".strip()
    return replace(view, price=view.price[:, :kept], note=note)


def _columns(view: PriceView) -> PriceView:
    slots = view.price.shape[1]
    step = -(-slots // LARGEST_COLUMNS)
    if step <= 1:
        return view
    edges = np.arange(0, slots, step)
    known = np.add.reduceat(~np.isnan(view.price), edges, axis=1)
    total = np.add.reduceat(np.nan_to_num(view.price), edges, axis=1)
    price = np.divide(total, known, out=np.full(total.shape, np.nan), where=known > 0)
    note = f"{view.note} Each column is the mean of {step} slots; the CSV file has each.".strip()
    return replace(view, price=price, step=step, note=note)


def _colours(price: Floats, of: Quantity) -> Json:
    """Return the coloured values and the scale, logarithmic if prices differ by more than a factor of 10."""
    bar: Json = {"title": {"text": of.scale, "side": "right"}, "thickness": 12, "len": 0.9, "y": 0.45}
    known = price[~np.isnan(price)]
    positive = known[known > 0]
    if not positive.size or positive.max() < 10 * positive.min():
        shown = [[None if np.isnan(p) else rounded(p) for p in row] for row in price]
        return {
            "z": shown,
            "zmin": 0,
            "zmax": 10 * float(positive.min())
            if positive.size
            else 1.0,  # otherwise equal prices would all have the brightest colour
            "colorbar": {**bar, "nticks": 5, "tickformat": ",.4~g"},
        }
    low = max(float(positive.min()), float(positive.max()) / DARKEST)
    bottom, top = float(np.log10(low)), float(np.log10(positive.max()))
    logs = np.log10(np.maximum(price, low))
    ticks = np.linspace(bottom, top, 5)
    bar |= {"tickvals": ticks.tolist(), "ticktext": [f"{10**t:.2g}" for t in ticks]}
    shown = [[None if np.isnan(p) else rounded(p) for p in row] for row in logs]
    return {"z": shown, "zmin": bottom, "zmax": top, "colorbar": bar}


def _step(view: PriceView) -> int:
    return 1 if len(view.rows) <= 42 else 2
