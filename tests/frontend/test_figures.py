"""Figures are documents Plotly accepts, small, and honest about what they leave out."""

import json
from datetime import UTC, datetime

import numpy as np
import plotly.graph_objects as go
import pytest

from auctions.models import BoundKind, Certificate
from auctions.readings.types import Flow, Machines, Welfare
from frontend.figures import flow, gantt, machines, prices, value, welfare
from frontend.figures.base import Drawing, rounded
from frontend.figures.gantt import Span
from frontend.figures.timeline import MARGIN_SLOTS, TimeLine

LINE = TimeLine(epoch=datetime(2026, 1, 5, tzinfo=UTC), slot_seconds=3600)


def checked(drawing: Drawing) -> str:
    """The document as JSON, after Plotly's own schema has accepted it."""
    go.Figure(data=drawing.data, layout=drawing.layout)
    return json.dumps(drawing.to_json(), allow_nan=False)


def span(group: str = "edge-1", start: int = 0, end: int = 2, **more: object) -> Span:
    fields = {"who": "bid 1", "state": "planned", "machine": "gpu", "is_ps": False, "count": 1, **more}
    return Span(group=group, start=start, end=end, **fields)  # type: ignore[arg-type]


def welfare_series(count: int, *, covered: int | None = None) -> Welfare:
    sums = np.cumsum(np.ones(count))
    bound = Certificate(
        kind=BoundKind.ZERO_PRICE,
        value=2.0 * count,
        zero_price=2.0 * count,
        posted_price=3.0 * count,
        welfare=float(count),
        gap=0.5,
        decided=count if covered is None else covered,
        loose=0,
        version=1,
        duration_ms=3.0,
        computed_at=LINE.epoch,
    )
    return Welfare(
        decided=np.arange(1, count + 1),
        slot=np.arange(count),
        seconds=sums * 60,
        welfare=sums,
        revenue=sums / 2,
        sequence=np.arange(count),
        zero_price_bound=sums * 2,
        bound=bound,
    )


def published(decided: list[int], seconds: list[float], sums: list[float], revenue: list[float]) -> Welfare:
    return Welfare(
        decided=np.array(decided, dtype=np.int64),
        slot=np.array(decided, dtype=np.int64),
        seconds=np.array(seconds),
        welfare=np.array(sums),
        revenue=np.array(revenue),
        sequence=None,
        zero_price_bound=None,
        bound=None,
    )


def test_a_slot_is_shown_with_its_date() -> None:
    assert LINE.words(26) == "6 Jan 2026 02:00 (slot 26)"
    assert LINE.slot_words == "1 h"
    assert TimeLine(epoch=LINE.epoch, slot_seconds=90).slot_words == "90 s"


def test_prices_show_a_row_for_each_server_and_type_that_is_for_sale() -> None:
    capacity = np.array([[1, 0], [2, 2]])
    price = np.arange(1.0, 13.0).reshape(3, 2, 2)
    view = prices.both(4, price, capacity, ("a", "b"), ("gpu", "ps"))
    assert view.rows == ("a · gpu", "b · gpu", "b · ps")
    assert view.price.tolist() == [[1, 5, 9], [3, 7, 11], [4, 8, 12]]
    checked(prices.figure(view, LINE))


def test_means_weigh_by_units_and_leave_out_what_is_not_for_sale() -> None:
    capacity = np.array([[3, 1], [0, 0]])
    price = np.array([[[1.0, 5.0], [9.0, 9.0]]])
    view = prices.by_server(0, price, capacity, ("a", "b"))
    assert view.price[0].tolist() == [2.0]
    assert np.isnan(view.price[1]).all()
    assert len(list(prices.table(view, LINE).rows)) == 1
    assert prices.by_type(0, price, capacity, ("gpu", "ps")).price.tolist() == [[1.0], [5.0]]


@pytest.mark.slow
@pytest.mark.parametrize("choice", ["both", "server", "type"])
def test_prices_of_301_servers_stay_under_300_kb_and_say_what_is_left_out(choice: str) -> None:
    rng = np.random.default_rng(1)
    price, capacity = rng.uniform(0.01, 9, (400, 301, 10)), np.ones((301, 10), dtype=np.int64)
    servers, resources = [f"edge-{i:03}" for i in range(301)], [f"type-{i}" for i in range(10)]
    assert prices.default_view(capacity) == "type"
    view = {
        "both": lambda: prices.both(0, price, capacity, servers, resources),
        "server": lambda: prices.by_server(0, price, capacity, servers),
        "type": lambda: prices.by_type(0, price, capacity, resources),
    }[choice]()
    drawing = prices.figure(view, LINE)
    assert len(checked(drawing)) < 300_000
    assert "mean of 3 slots" in drawing.note
    assert ("dearest" in drawing.note) == (choice != "type")
    assert len(list(prices.table(view, LINE).rows)) == view.price.size


def test_the_heat_map_ends_soon_after_the_last_slot_that_anything_is_held_in() -> None:
    price = np.full((150, 1, 2), 0.01)
    price[30:40] = 0.5
    view = prices.both(7, price, np.array([[1, 1]]), ("a",), ("x", "y"))
    drawing = prices.figure(view, LINE)
    (trace,) = drawing.data
    assert len(trace["x"]) == 44
    assert "The last 106 slots on sale are not shown" in drawing.note
    assert len(list(prices.table(view, LINE).rows)) == 300


def test_a_cluster_in_which_nothing_is_held_shows_a_day_of_prices() -> None:
    view = prices.both(0, np.full((150, 1, 1), 0.01), np.array([[1]]), ("a",), ("x",))
    (trace,) = prices.figure(view, LINE).data
    assert len(trace["x"]) == 24
    assert trace["zmax"] == pytest.approx(0.1)  # the cheapest there is does not look dear


def test_free_units_do_not_break_the_scale_of_magnitudes() -> None:
    view = prices.both(0, np.array([[[0.0, 1.0, 100.0]]]), np.array([[1, 1, 1]]), ("a",), ("x", "y", "z"))
    (trace,) = prices.figure(view, LINE).data
    assert trace["z"] == [[0.0], [0.0], [2.0]]
    assert trace["text"] == [["0"], ["1"], ["100"]]


def test_nothing_for_sale_is_said_in_words() -> None:
    view = prices.both(0, np.zeros((0, 1, 1)), np.zeros((1, 1), dtype=np.int64), ("a",), ("x",))
    assert prices.figure(view, LINE).note


def test_bars_that_overlap_get_lanes_of_their_own_and_others_share() -> None:
    spans = [span(start=0, end=4), span(start=2, end=6), span(start=4, end=8), span("edge-2")]
    drawing = gantt.figure(spans, LINE, now=3, window=(0, 10))
    checked(drawing)
    (bars,) = drawing.data
    assert bars["y"] == [0, 1, 0, 2]
    assert drawing.layout["yaxis"]["ticktext"] == ["edge-1", "edge-2"]


@pytest.mark.parametrize(("servers", "all_named"), [(3, True), (49, True), (95, False)])
def test_names_of_servers_do_not_cover_each_other(servers: int, all_named: bool) -> None:
    drawing = gantt.figure([span(f"node-{i}") for i in range(servers)], LINE, now=3, window=(0, 10))
    checked(drawing)
    axis, lane_px = drawing.layout["yaxis"], (drawing.layout["height"] - 130) / servers
    assert min(np.diff(axis["tickvals"])) * lane_px >= gantt.NAME_PX
    assert (len(axis["ticktext"]) == servers) is all_named
    assert ("Names that have no room are left out." in drawing.note) is not all_named
    assert axis["ticktext"][0] == "node-0"


def test_an_elastic_job_keeps_its_lane_and_its_bars_follow_the_count() -> None:
    elastic = [span(start=t, end=t + 1, count=n) for t, n in enumerate((2, 4, 1))]
    other = [span(start=0, end=1, who="bid 2"), span(start=1, end=3, who="bid 3")]
    drawing = gantt.figure([*other, *elastic], LINE, now=0, window=(0, 4))
    checked(drawing)
    (bars,) = drawing.data
    rows = zip(bars["customdata"], bars["y"], bars["width"], bars["text"], strict=True)
    mine = [row[1:] for row in rows if row[0][0] == "bid 1"]
    assert [lane for lane, _, _ in mine] == [mine[0][0]] * 3
    assert [text for _, _, text in mine] == ["2", "4", "1"]
    assert mine[2][1] < mine[0][1] < mine[1][1] == gantt.HIGHEST
    assert "lower where it holds fewer" in drawing.note


def test_what_is_planned_differs_from_what_runs_in_more_than_colour() -> None:
    planned, running = gantt.figure([span(), span(state="running")], LINE, now=0, window=(0, 4)).data
    assert planned["marker"]["opacity"] < running["marker"]["opacity"]
    assert planned["marker"]["line"]["width"] > running["marker"]["line"]["width"]
    assert planned["name"] != running["name"]


def test_roles_are_distinguished_without_colour() -> None:
    drawing = gantt.figure([span(), span(is_ps=True)], LINE, now=0, window=(0, 4))
    patterns = [trace["marker"]["pattern"] for trace in drawing.data]
    assert {pattern["shape"] for pattern in patterns} == {"", "/"}
    assert {pattern["fillmode"] for pattern in patterns} == {"overlay"}, "numbers are read on the bar's own colour"


def test_every_bar_of_a_schedule_begins_in_its_slots() -> None:
    """A bar without a base begins in 1970, and the drawing is then millions of pixels wide."""
    drawing = gantt.figure([span(), span(is_ps=True)], LINE, now=0, window=(0, 4))
    first, last = drawing.layout["xaxis"]["range"]
    bases = [base for trace in drawing.data for base in trace["base"]]
    assert len(bases) == 3
    assert all(first <= base <= last for base in bases)


@pytest.mark.thorough
def test_a_busy_cluster_is_cut_with_a_word_and_the_table_is_whole() -> None:
    spans = [span(f"edge-{i}", j, j + 3) for i in range(301) for j in range(150)]
    drawing = gantt.figure(spans, LINE, now=3, window=(0, 160))
    assert len(checked(drawing)) < 300_000
    assert "of 301 rows" in drawing.note
    assert len(list(gantt.table(spans, LINE).rows)) == len(spans)


def test_welfare_keeps_the_last_decision_when_points_are_left_out() -> None:
    drawing = welfare.figure(welfare_series(5000), LINE)
    assert len(checked(drawing)) < 300_000
    by_name = {trace["name"]: trace for trace in drawing.data}
    assert by_name["welfare"]["y"][-1] == 5000
    # One number for all decisions so far: a point at the end, no line along times it says nothing about.
    assert by_name["certified bound"]["y"] == [10000]
    certified = "Certified bound, for all bids decided so far: zero-price bound, gap 50.0 %, computed in 3 ms."
    assert certified in drawing.note
    assert "500 of 5000" in drawing.note
    assert len(list(welfare.table(welfare_series(5000), LINE).rows)) == 5000


def test_the_table_of_welfare_has_the_certified_bound_where_the_chart_has_it() -> None:
    series = welfare_series(3)
    assert series.bound is not None
    table = welfare.table(series, LINE)
    assert table.header[-1] == "certified_bound"
    assert [row[-1] for row in table.rows] == [None, None, series.bound.value]
    assert list(welfare.table(welfare_series(0), LINE).rows) == []


def test_a_bound_that_is_not_renewed_yet_stands_at_the_last_bid_that_it_covers() -> None:
    series = welfare_series(4, covered=3)
    drawing = welfare.figure(series, LINE)
    by_name = {trace["name"]: trace for trace in drawing.data}
    assert by_name["certified bound"]["x"] == [by_name["welfare"]["x"][2]]
    assert "Certified bound, for the first 3 of 4 decided bids: zero-price bound" in drawing.note
    assert [row[-1] for row in welfare.table(series, LINE).rows] == [None, None, 8.0, None]


def test_a_single_decision_is_drawn_within_its_hour() -> None:
    drawing = welfare.figure(welfare_series(1), LINE)
    checked(drawing)
    assert drawing.layout["xaxis"]["range"] == ["2026-01-04 23:01:00", "2026-01-05 01:01:00"]


def test_an_empty_market_has_words_instead_of_plots() -> None:
    assert welfare.figure(welfare_series(0), LINE).note
    none = np.zeros(0, dtype=np.int64)
    assert "decided" in welfare.figure(welfare_series(0), LINE).note
    assert "published" in welfare.figure(published([], [], [], []), LINE).note
    assert flow.figure(Flow(none, none, none, none, np.zeros(0), np.zeros(0)), LINE).note
    assert "published" in flow.figure(Flow(none, none, none, none, np.zeros(0), None), LINE).note
    assert machines.figure(Machines(0, none, none), LINE, now=0).note
    assert gantt.figure([], LINE, now=0, window=(0, 4)).note


def test_the_value_curve_marks_completion_and_payment() -> None:
    drawing = value.figure(value.Offer(arrival=2, curve=np.array([3.0, 2, 1]), completion=3, payment=0.5), LINE)
    checked(drawing)
    assert [trace["y"] for trace in drawing.data] == [[3, 2, 1], [2], [0.5]]


def test_machines_are_steps_by_role_and_a_table_by_slot() -> None:
    counts = Machines(start=3, workers=np.array([2, 0, 5]), num_ps=np.array([1, 0, 3]))
    drawing = machines.figure(counts, LINE, now=4)
    checked(drawing)
    assert [trace["y"] for trace in drawing.data] == [[2, 0, 5, 0], [1, 0, 3, 0]]
    assert len({trace["line"]["dash"] for trace in drawing.data}) == 2
    rows = list(machines.table(counts, LINE).rows)
    assert rows == [(3, LINE.date(3), 2, 1), (4, LINE.date(4), 0, 0), (5, LINE.date(5), 5, 3)]


@pytest.mark.parametrize("now", [0, 4, 1000])
def test_the_machines_of_a_job_fill_the_chart_however_long_ago_it_ran(now: int) -> None:
    counts = Machines(start=10, workers=np.array([2, 0, 5]), num_ps=np.array([1, 0, 3]))
    shown = machines.figure(counts, LINE, now=now).layout["xaxis"]["range"]
    assert shown == [LINE.date(10 - MARGIN_SLOTS), LINE.date(13 + MARGIN_SLOTS)]


def test_a_ring_has_no_line_of_parameter_servers() -> None:
    counts = Machines(start=0, workers=np.array([2]), num_ps=np.array([0]))
    assert [trace["name"] for trace in machines.figure(counts, LINE, now=0).data] == ["workers"]


def test_times_to_completion_are_points_with_their_means() -> None:
    three = np.array([3.0])
    course = Flow(np.array([7]), np.array([4]), np.array([3]), np.array([4]), three, three)
    checked(flow.figure(course, LINE))
    many, mean = np.arange(5000), np.arange(5000, dtype=np.float64)
    drawing = flow.figure(Flow(many, many, many, many, mean / 2, mean * 0.6), LINE)
    assert len(checked(drawing)) < 300_000
    assert [trace["y"][-1] for trace in drawing.data] == [4999, rounded(2499.5), rounded(2999.4)]
    assert "of 5000" in drawing.note
    assert list(flow.table(course, LINE).rows) == [(7, 4, LINE.date(4), 3, 3.0, 3.0)]


def test_published_welfare_names_no_bid_and_no_bound() -> None:
    sums = published([5, 9], [60.0, 180.0], [7.0, 11.0], [3.0, 4.0])
    drawing = welfare.figure(sums, LINE)
    text = checked(drawing)
    assert [trace["name"] for trace in drawing.data] == ["welfare", "revenue"]
    assert "after bid" not in text
    assert "after %{customdata} decisions" in text
    assert "several owners" in drawing.note
    rows = list(welfare.table(sums, LINE).rows)
    assert rows == [(LINE.date_of_seconds(60), 5, 7.0, 3.0), (LINE.date_of_seconds(180), 9, 11.0, 4.0)]


def test_published_times_to_completion_are_ones_own_jobs_and_the_mean_over_all() -> None:
    own = Flow(np.array([7]), np.array([4]), np.array([3]), np.array([2, 5]), np.array([1.0, 2.0]), None)
    drawing = flow.figure(own, LINE)
    checked(drawing)
    assert [trace["name"] for trace in drawing.data] == ["your jobs", "mean so far"]
    assert [trace["x"] for trace in drawing.data] == [[LINE.date(4)], [LINE.date(2), LINE.date(5)]]
    table = flow.table(own, LINE)
    assert table.header == ("bid", "completion_slot", "completion_utc", "jct_slots", "mean_jct_slots")
    means = [(None, 2, LINE.date(2), None, 1.0), (None, 5, LINE.date(5), None, 2.0)]
    assert list(table.rows) == [(7, 4, LINE.date(4), 3, None), *means]


def test_congestion_is_counted_in_jobs_and_never_called_a_price() -> None:
    view = prices.both(0, np.array([[[0.0, 2.0]], [[1.0, 30.0]]]), np.array([[1, 1]]), ("a",), ("gpu", "cpu"))
    drawing = prices.figure(view, LINE, of=prices.CONGESTION)
    (trace,) = drawing.data
    assert trace["colorbar"]["title"]["text"] == "jobs delayed"
    assert "jobs delayed" in trace["hovertemplate"]
    assert prices.table(view, LINE, of=prices.CONGESTION).header[-1] == "jobs_delayed_per_worker_and_slot"
    idle = prices.figure(
        prices.both(0, np.zeros((2, 1, 1)), np.array([[1]]), ("a",), ("gpu",)), LINE, of=prices.CONGESTION
    )
    for text in (json.dumps(trace), drawing.note, idle.note):
        assert "price" not in text
    (trace,) = prices.figure(view, LINE).data
    assert trace["colorbar"]["title"]["text"] == "price per unit and slot"
