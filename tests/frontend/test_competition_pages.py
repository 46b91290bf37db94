"""Pages of a market in which bids compete: nothing has a posted price."""

import pytest
from django.test import Client

from auctions.counterfactual.alternatives import SEALED
from auctions.engine import decision_queue
from auctions.engine.markets import open_market
from tests.auctions.worlds import SLOT_S, body, make_cluster, make_operator, make_user, submit


@pytest.mark.parametrize(("policy", "priced"), [("completions", True), ("competition", False)])
def test_an_overview_shows_prices_only_where_they_are_posted(db: None, policy: str, priced: bool) -> None:
    market, alice = open_market(make_cluster("lab"), policy=policy, parameters={}), make_user("alice")
    submit(market, alice, 50.0)
    decision_queue.process_pending(market.pk)
    client = Client()
    client.force_login(alice)
    page = client.get("/markets/lab/")
    shown = {section.name for section in page.context["sections"]}
    assert shown == {"schedule", "welfare"} | ({"prices"} if priced else set())
    assert ("price" in {tile.key for tile in page.context["tiles"]}) == priced
    assert ("Prices in force" in client.get("/markets/lab/bids/1/").content.decode()) == priced


@pytest.mark.parametrize("policy", ["completions", "competition"])
def test_the_page_of_a_job_with_a_promise_says_that_its_plan_can_change_while_it_runs(db: None, policy: str) -> None:
    market, alice = open_market(make_cluster("lab"), policy=policy, parameters={}), make_user("alice")
    submit(market, alice, 50.0)
    decision_queue.process_pending(market.pk)
    client = Client()
    client.force_login(alice)
    page = client.get("/markets/lab/bids/1/").text
    assert "A plan can change until the job is complete, as long as the promised slot is kept" in page


def test_a_quote_leaves_bids_that_stand_out_and_says_so(db: None) -> None:
    open_market(make_cluster("lab"), policy="competition", parameters={})
    client = Client()
    client.force_login(make_user("alice"))
    answer = client.post("/api/v1/clusters/lab/quotes", body(5.0), content_type="application/json")
    assert answer.status_code == 200
    assert answer.json()["explanation"].startswith("If no bid that stands comes first, it is admitted now and complete")
    assert (answer.json()["payment"], answer.json()["payoff"]) == (None, None)
    form = {"model": "ResNet-50", "epochs": "2", "form": "constant", "value": "40", "architecture": "ps"}
    answer = client.post("/markets/lab/quote/", form)
    assert "what this takes from bids that stand" in answer.text
    assert "Payoff" not in answer.text
    assert "May be admitted" in answer.text
    assert "it stands and is tried again" not in answer.text
    assert (
        "If other bids come first, it stands and is tried again"
        in client.post("/markets/lab/quote/", form | {"standing": "on"}).text
    )
    assert [trace["name"] for trace in answer.json()["figure"]["data"]] == ["value if complete then", "value"]


@pytest.mark.parametrize("policy", ["completions", "competition"])
def test_the_figure_of_a_quote_marks_the_promised_slot_and_its_value(db: None, policy: str) -> None:
    open_market(make_cluster("lab"), policy=policy, parameters={})
    client = Client()
    client.force_login(make_user("alice"))
    utility = {"form": "linear", "value": 40.0, "zero_at_s": 40 * SLOT_S}
    quoted = client.post("/api/v1/clusters/lab/quotes", body(utility=utility), content_type="application/json")
    promised = quoted.json()
    form = {"model": "ResNet-50", "epochs": "1", "form": "linear", "value": "40", "architecture": "ps"}
    shown = client.post("/markets/lab/quote/", form | {"zero_at_h": str(40 * SLOT_S / 3600)}).json()["figure"]["data"]
    assert promised["promised_slot"] > promised["schedule"]["completion_slot"]
    assert shown[1]["y"] == [pytest.approx(promised["value"], rel=1e-4)]
    assert shown[1]["x"] == [shown[0]["x"][shown[0]["customdata"].index(promised["promised_slot"])]]


@pytest.mark.parametrize(("policy", "sealed"), [("completions", False), ("competition", True)])
def test_what_other_statements_would_have_brought_is_sealed_where_bids_compete(
    db: None, policy: str, sealed: bool
) -> None:
    market, alice = open_market(make_cluster("lab"), policy=policy, parameters={}), make_user("alice")
    submit(market, alice, 50.0)
    decision_queue.process_pending(market.pk)
    for user in (alice, make_operator()):
        client = Client()
        client.force_login(user)
        page, answer = "/markets/lab/bids/1", client.get("/api/v1/clusters/lab/bids/1/alternatives")
        assert answer.status_code == (409 if sealed else 200)
        assert (answer.json().get("detail") == SEALED) == sealed
        assert (SEALED in client.get(f"{page}/").text) == sealed
        assert (f"{page}/alternatives.csv" in client.get(f"{page}/").text) != sealed
        assert client.get(f"{page}/alternatives.csv").status_code == (404 if sealed else 200)
        for kind in ("value", "time"):
            assert (SEALED in client.get(f"{page}/stating/{kind}.json").text) == sealed
