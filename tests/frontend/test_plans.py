"""Markets where plans move and nobody pays, and jobs whose machines change in number."""

from typing import Any

import numpy as np
import pytest
from django.contrib.auth.models import User
from django.test import Client

from auctions.engine import decision_queue
from auctions.engine.markets import open_market
from auctions.engine.submission import submit_bid
from auctions.models import Bid, BidState, Market
from auctions.readings.types import Machines
from cluster.models import MachineRole, MachineType
from frontend.figures import machines
from frontend.presenters import plans
from frontend.presenters.states import LOOKS, PAUSED, PLAN, WAITS, look_of
from tests.auctions.worlds import make_cluster, set_time
from tests.frontend.test_figures import LINE

HOME = "/markets/lab/"
FORM = {"model": "ResNet-50", "epochs": "1", "weight": "3", "architecture": "ps", "label": "mine"}


@pytest.fixture
def planned(db: None) -> Market:
    """Two servers and a cloud under weighted completion."""
    return open_market(make_cluster(), policy="weighted_completion")


def send(market: Market, owner: User, *, weight: float = 1.0, epochs: int = 1, **changes: Any) -> Bid:
    body = {"model": "ResNet-50", "epochs": epochs, "weight": weight, **changes}
    bid = submit_bid(cluster=market.cluster, owner=owner, body=body).bid
    decision_queue.process_pending(market.pk)
    bid.refresh_from_db()
    return bid


def crowd(market: Market, owner: User) -> list[Bid]:
    """Long light jobs until one has no start, then a heavy one that goes before them all."""
    sent = [send(market, owner, epochs=8)]
    while sent[-1].start_slot is not None:
        sent.append(send(market, owner, epochs=8))
    sent.append(send(market, owner, weight=100.0, epochs=8))
    for bid in sent:
        bid.refresh_from_db()
    return sent


def test_a_job_in_line_says_so_and_has_its_place(planned: Market, alice: User, as_alice: Client) -> None:
    crowd(planned, alice)
    waits = Bid.objects.filter(state=BidState.PLANNED, start_slot=None).order_by("-sequence")[0]
    page = as_alice.get(f"{HOME}bids/{waits.sequence}/")
    assert WAITS.meaning in page.text
    assert "none yet" in page.text
    place, of = page.context["place"]
    assert place == of == Bid.objects.filter(state=BidState.PLANNED).exclude(start_slot=0).count()
    found = as_alice.get(f"{HOME}bids/", {"state": "in_line"})
    assert [bid.sequence for bid in found.context["page"]] == list(
        Bid.objects.filter(start_slot=None).order_by("-sequence").values_list("sequence", flat=True)
    )
    assert WAITS.label in found.text


def test_a_plan_is_called_one_and_its_changes_are_listed(planned: Market, alice: User, as_alice: Client) -> None:
    moved = [bid for bid in crowd(planned, alice) if bid.plan_changes.count() > 1]
    assert moved
    page = as_alice.get(f"{HOME}bids/{moved[0].sequence}/")
    assert "Planned start" in page.text
    assert "How its plan changed" in page.text
    assert page.context["steps"][0].words == "first plan"
    rows = as_alice.get(f"{HOME}bids/{moved[0].sequence}/plan.csv").text.splitlines()
    assert len(rows) == 1 + len(page.context["steps"])


def test_a_job_that_runs_has_no_place_in_line_and_no_planned_start(
    planned: Market, alice: User, as_alice: Client
) -> None:
    bid = send(planned, alice, epochs=4)
    set_time(planned, 150)
    decision_queue.process_pending(planned.pk)
    page = as_alice.get(f"{HOME}bids/{bid.sequence}/")
    bid.refresh_from_db()
    assert bid.state == BidState.RUNNING
    assert page.context["place"] is None
    assert "Planned start" not in page.text


def test_where_nobody_pays_no_page_asks_for_money(planned: Market, alice: User, as_alice: Client) -> None:
    send(planned, alice)
    assert "jobs do not pay here" in as_alice.get(f"{HOME}bids/1/").text
    assert "Payment" not in as_alice.get(f"{HOME}bids/").text
    home = as_alice.get(HOME).text
    for word in ("Revenue", "optimum", "Welfare"):
        assert word not in home
    quote = as_alice.post(f"{HOME}quote/", FORM).json()
    assert "jobs do not pay here" in quote["html"]
    assert quote["figure"]["data"] == []


def test_every_chart_of_a_page_is_served_with_its_table(planned: Market, alice: User, as_alice: Client) -> None:
    send(planned, alice)
    set_time(planned, 1150)
    decision_queue.process_pending(planned.pk)
    sections = as_alice.get(HOME).context["sections"]
    assert "flow" in [section.name for section in sections]
    for section in sections:
        for kind in ("json", "csv"):
            assert as_alice.get(f"{HOME}figures/{section.name}.{kind}").status_code == 200
    for part in ("machines", "schedule"):
        assert as_alice.get(f"{HOME}bids/1/{part}.json").json()["data"]
        assert len(as_alice.get(f"{HOME}bids/1/{part}.csv").text.splitlines()) > 1


def test_the_form_asks_what_the_policy_wants(planned: Market, market_of_dps: Market, as_alice: Client) -> None:
    mine = as_alice.get(f"{HOME}submit/").context["form"].fields
    assert {"weight", "architecture", "reduce_step_s"} <= set(mine)
    assert not {"value", "form", "points"} & set(mine)
    other = as_alice.get("/markets/other/submit/").context["form"].fields
    assert {"value", "form", "points"} <= set(other)
    assert not {"weight", "architecture", "reduce_step_s"} & set(other)


def test_without_parameter_servers_the_form_offers_rings_alone(planned: Market, as_alice: Client) -> None:
    MachineType.objects.filter(cluster=planned.cluster, role=MachineRole.PS).delete()
    field = as_alice.get(f"{HOME}submit/").context["form"].fields["architecture"]
    assert field.choices == [("ring", "Ring-AllReduce")]


@pytest.fixture
def market_of_dps(db: None) -> Market:
    """Another market, under DPS."""
    return open_market(make_cluster("other"), policy="dps")


@pytest.mark.parametrize(
    ("typed", "sent"),
    [
        ({"architecture": "ring", "reduce_step_s": "0.5"}, {"architecture": "ring", "reduce_step_s": 0.5}),
        ({"reduce_step_s": "0.5"}, {"architecture": "ps"}),
    ],
)
def test_a_form_with_a_weight_becomes_a_bid_and_comes_back(
    planned: Market, as_alice: Client, typed: dict[str, str], sent: dict[str, Any]
) -> None:
    as_alice.post(f"{HOME}submit/", {**FORM, **typed})
    assert Bid.objects.get().body == {"label": "mine", "model": "ResNet-50", "epochs": 1, "weight": 3.0, **sent}
    again = as_alice.get(f"{HOME}submit/", {"from": "1"}).context["form"]
    assert again["weight"].value() == 3.0
    assert again["architecture"].value() == sent["architecture"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"weight": "0"}, "weight"),
        ({"weight": ""}, "weight"),
        ({"architecture": "star"}, "architecture"),
        ({"architecture": "ring", "reduce_step_s": "-1"}, "reduce_step_s"),
        ({"more": '{"utility": {}}'}, "more"),
    ],
)
def test_what_is_wrong_is_said_beside_its_field(
    planned: Market, as_alice: Client, changes: dict[str, str], field: str
) -> None:
    assert list(as_alice.post(f"{HOME}quote/", {**FORM, **changes}).json()["errors"]) == [field]


def test_another_bidders_plan_and_machines_are_404(planned: Market, alice: User, as_bob: Client) -> None:
    send(planned, alice)
    for part in ("machines.json", "machines.csv", "plan.csv"):
        assert as_bob.get(f"{HOME}bids/1/{part}").status_code == 404


def test_steps_say_what_changed(planned: Market, alice: User) -> None:
    bid = send(planned, alice)
    first = bid.plan_changes.get()
    windows = [(5, 7), (3, 7), (3, 6), (None, None), (None, None), (4, 6)]
    rows = [
        type(first)(bid=bid, version=i, at=first.at, slot=2, start=s, completion=c) for i, (s, c) in enumerate(windows)
    ]
    words = [step.words for step in plans.steps(rows)]
    assert words == [
        "first plan",
        "starts 2 slots earlier",
        "complete 1 slot earlier",
        "back in line",
        "in line as before",
        "given a start",
    ]
    assert list(plans.table(plans.steps(rows), LINE).rows)[3][3:7] == ("", "", "", "")


def test_states_distinguish_plans_and_pauses() -> None:
    planned = Bid(state=BidState.PLANNED, start_slot=3, completion_slot=5)
    assert look_of(planned) is LOOKS[BidState.PLANNED]
    assert look_of(planned, may_move=True) is PLAN
    assert look_of(Bid(state=BidState.PLANNED)) is WAITS
    assert look_of(Bid(state=BidState.RUNNING, start_slot=3)) is PAUSED


def test_equal_slots_are_one_row_and_rest_is_none() -> None:
    counts = Machines(start=2, workers=np.array([1, 1, 0, 3]), num_ps=np.array([1, 1, 0, 2]))
    assert machines.runs(counts) == [(2, 4, 1, 1), (5, 6, 3, 2)]
