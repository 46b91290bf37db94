"""The charts of a market: each converts a reading to the arguments of a figure, for the chart and for its CSV."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Final

import numpy as np
from django.contrib.auth.models import User
from django.http import Http404, QueryDict

from auctions.models import Market, Outage
from auctions.readings import market_readings, publications
from auctions.readings.competitive_ratio import found
from auctions.state.market_snapshot import market_snapshot
from frontend.access import timeline_of
from frontend.figures import competitive_ratio, flow, gantt, prices, welfare
from frontend.figures.base import Drawing, Table
from scheduling.policies.base import Objective, Policy

PAST_SLOTS: Final = 24
"""Number of past slots in the schedule."""

Choices = list[tuple[str, str]]


@dataclass(frozen=True)
class Shown:
    """A chart and its table, each made from the same data when it is asked for."""

    draw: Callable[[], Drawing]
    tabulate: Callable[[], Table]


@dataclass(frozen=True)
class Chart:
    """One chart of an overview."""

    read: Callable[[Market, User, str], Shown]
    """Read the market for a viewer and a choice."""
    title: str
    spoken: str
    """Description for screen readers."""
    chooser: str = ""
    """Label of the choice."""
    choices: Callable[[Sequence[str]], Choices] = lambda servers: []
    """Values and labels of the choice, from the servers' names; empty if there is nothing to choose."""


def price_view(market: Market, choice: str, *, priced_only: bool = False) -> prices.PriceView:
    """The future prices as chosen in the address: `both`, `server`, `type`, `server:NAME`, or the default.

    `priced_only`: without what has no price in any slot, if anything has one.
    """
    snapshot = (seen := market_snapshot(market)).book.snapshot
    read = market_readings.prices(market, start=seen.book.now, end=seen.book.end)
    names, capacity = snapshot.inventory.servers, snapshot.built
    read = replace(
        read,
        servers=service_names(market, read.servers),
        # Nothing is on sale there.
        price=np.where(read.closed[:, :, np.newaxis], np.nan, read.price),
    )
    if priced_only and np.nan_to_num(read.price).any():
        capacity = capacity * (np.nan_to_num(read.price).max(axis=0) > 0)
    choice = choice or prices.default_view(capacity)
    if choice == prices.BOTH:
        return prices.both(read.start, read.price, capacity, read.servers, read.resources)
    if choice == prices.BY_SERVER:
        return prices.by_server(read.start, read.price, capacity, read.servers)
    if choice == prices.BY_TYPE:
        return prices.by_type(read.start, read.price, capacity, read.resources)
    name = choice.removeprefix("server:")
    if name not in names or name == choice:
        raise Http404
    return prices.of_server(read.start, read.price, capacity, read.resources, names.index(name))


def service_names(market: Market, names: Sequence[str]) -> tuple[str, ...]:
    """Return the servers' names, with the state of those that take no new work."""
    said = service_of(market)
    return tuple(f"{name} ({said[name]})" if name in said else name for name in names)


def service_of(market: Market) -> dict[str, str]:
    """Return the state of each server that takes no new work as text, by its name."""
    line, rows = timeline_of(market), Outage.objects.filter(server__cluster=market.cluster, ended_version=None)
    said = {}
    for row in rows.select_related("server"):
        drains = f"drains from {line.time_words(row.from_slot)}"
        said[row.server.name] = drains if row.out_slot is None else "out of service"
    return said


def spans(market: Market, viewer: User, choice: str) -> tuple[list[gantt.Span], int, tuple[int, int]]:
    """Return held machines, the first slot on sale, and the window; `choice` is `server:NAME`, or empty for all."""
    book = market_snapshot(market).book
    start, end = book.now - PAST_SLOTS, book.end
    only = choice.removeprefix("server:") if choice.startswith("server:") else ""
    if only and only not in book.snapshot.inventory.servers:
        raise Http404
    servers = book.snapshot.inventory.servers
    names = dict(zip(servers, service_names(market, servers), strict=True))
    held = [
        bar_span(bar, group=f"{names[bar.server]} · {bar.machine_type}" if only else names[bar.server])
        for bar in market_readings.bars(market, start=start, end=end, viewer=viewer)
        if not only or bar.server == only
    ]
    last = max((ceil(span.end) for span in held), default=end)
    return held, book.now, (max(0, start), min(end, max(last, book.now + 12) + 1))


def bar_span(bar: market_readings.Bar, *, group: str) -> gantt.Span:
    """Return a bar as the chart draws it; for other users' jobs, only the total number of machines."""
    known = bar.sequence is not None
    return gantt.Span(
        group=group,
        who=f"bid {bar.sequence}{': ' + bar.label if bar.label else ''}" if known else "others' work",
        state=str(bar.state) if known else "other",
        machine=bar.machine_type,
        is_ps=bar.role == "ps",
        count=bar.count,
        start=bar.start,
        end=bar.end,
    )


def _prices(market: Market, viewer: User, choice: str) -> Shown:
    view, line = price_view(market, choice), timeline_of(market)
    return Shown(
        lambda: prices.figure(view, line, key=f"prices {choice}"),
        lambda: prices.table(view, line),
    )


def _congestion(market: Market, viewer: User, choice: str) -> Shown:
    view, line = price_view(market, choice, priced_only=True), timeline_of(market)
    return Shown(
        lambda: prices.figure(view, line, key=f"congestion {choice}", of=prices.CONGESTION),
        lambda: prices.table(view, line, of=prices.CONGESTION),
    )


def _schedule(market: Market, viewer: User, choice: str) -> Shown:
    (held, now, window), line = spans(market, viewer, choice), timeline_of(market)

    def draw() -> Drawing:
        drawn = gantt.figure(held, line, now=now, window=window, key=f"schedule {choice}")
        said = [f"{name} {words}" for name, words in service_of(market).items()]
        return drawn if not said else replace(drawn, note=f"{drawn.note} No new work: {', '.join(said)}.".strip())

    return Shown(draw, lambda: gantt.table(held, line))


def _welfare(market: Market, viewer: User, choice: str) -> Shown:
    course, line = publications.welfare(market, viewer), timeline_of(market)
    return Shown(lambda: welfare.figure(course, line), lambda: welfare.table(course, line))


def _flow(market: Market, viewer: User, choice: str) -> Shown:
    course, line = publications.flow(market, viewer), timeline_of(market)
    return Shown(lambda: flow.figure(course, line), lambda: flow.table(course, line))


def _competitive_ratio(market: Market, viewer: User, choice: str) -> Shown:
    runs, note = competitive_ratio_of(market)
    return Shown(lambda: competitive_ratio.figure(runs, note=note), lambda: competitive_ratio.table(runs))


def competitive_ratio_of(market: Market) -> tuple[list[competitive_ratio.RunTotals], str]:
    """Return the runs of the competitive ratio, and the note below the chart."""
    known = found(market)
    runs = [
        competitive_ratio.RunTotals(row.run, row.fractional, known.fractional_bound, row.jct, known.jct_bound)
        for row in known.rows
    ]
    if not runs:
        return [], known.reason
    which = f"the latest {known.jobs} of {known.complete}" if known.jobs < known.complete else f"all {known.jobs}"
    return runs, (
        f"Of {which} complete jobs on the servers there are now: their times added up, over a linear program's bound"
        f" that no schedule at speed 1 is below (steps of {known.step:g} slots). As it ran; and by speed,"
        " the same jobs simulated without others, ageing or storage limits, on workers faster by the factor shown."
    )


def _price_choices(servers: Sequence[str]) -> Choices:
    views = [
        ("", "automatic"),
        (prices.BOTH, "each server and type"),
        (prices.BY_SERVER, "mean of each server"),
        (prices.BY_TYPE, "mean of each type"),
    ]
    return [*views, *((f"server:{name}", name) for name in servers)]


def _server_choices(servers: Sequence[str]) -> Choices:
    return [("", "all"), *((f"server:{name}", name) for name in servers)]


CHARTS: Final[Mapping[str, Chart]] = {
    "prices": Chart(
        _prices,
        "Prices of future slots",
        "Heat map of posted prices by server and type against future slots",
        "Show",
        _price_choices,
    ),
    "congestion": Chart(
        _congestion,
        "Congestion: jobs delayed if a worker stops for one slot",
        "Heat map of the jobs that are delayed if a worker stops, by server and type against future slots",
        "Show",
        _price_choices,
    ),
    "schedule": Chart(
        _schedule,
        "Schedule",
        "Gantt chart of committed workers and parameter servers by server",
        "Server",
        _server_choices,
    ),
    "welfare": Chart(
        _welfare,
        "Welfare and its upper bound",
        "Cumulative welfare and revenue with the certified upper bound",
    ),
    "flow": Chart(
        _flow,
        "Time from arrival to completion",
        "Slots from arrival to completion of each job, and their mean, unweighted and weighted",
    ),
    "competitive_ratio": Chart(
        _competitive_ratio,
        "Competitive ratio: total time divided by a lower bound",
        "Bars of both competitive ratios of the latest complete jobs, as they ran and with faster workers",
    ),
}
"""All charts of overviews. To add one, write a module in `figures/`, an entry here and one in `SECTIONS`."""

SECTIONS: Final[Mapping[Objective, tuple[str, ...]]] = {
    Objective.WELFARE: ("prices", "schedule", "welfare"),
    Objective.WEIGHTED_COMPLETION: ("schedule", "flow", "prices"),
    Objective.COMPLETION: ("schedule", "congestion", "flow", "competitive_ratio"),
}
"""The charts of a market's overview, in order, by the objective of its policy."""


@dataclass(frozen=True)
class Section:
    """A chart on the page: its name in addresses, its texts, and the choice it offers."""

    name: str
    chart: Chart
    choices: Choices
    chosen: str
    others: list[tuple[str, str]]
    """Choices of the other charts, which are kept when the form of this one is sent."""


PUBLISHED: Final[Mapping[str, Chart]] = {
    **CHARTS,
    "welfare": replace(
        CHARTS["welfare"],
        title="Welfare and revenue",
        spoken="Cumulative welfare and revenue as published",
    ),
}
"""The charts of published figures, which have no bound."""


def charts_of(policy: type[Policy]) -> list[str]:
    """Return the names of the charts of a market that decides by this policy, in the order of its overview."""
    # Where bids compete, nothing has a posted price.
    return [name for name in SECTIONS[policy.objective] if name != "prices" or not policy.competes]


def sections_of(
    policy: type[Policy], servers: Sequence[str], query: QueryDict, *, published: bool = False
) -> list[Section]:
    """Return the charts of an overview with the choices in the address; `published` for published figures."""
    charts = PUBLISHED if published else CHARTS
    if published and policy.competes:
        sealed = replace(charts["welfare"], title="Welfare", spoken="Cumulative welfare as published")
        charts = {**charts, "welfare": sealed}
    names = charts_of(policy)
    choices = {name: charts[name].choices(servers) for name in names}
    chosen = {name: query.get(name, "") for name in names if choices[name]}
    return [
        Section(
            name=name,
            chart=charts[name],
            choices=choices[name],
            chosen=chosen.get(name, ""),
            others=[(other, value) for other, value in chosen.items() if other != name],
        )
        for name in names
    ]
