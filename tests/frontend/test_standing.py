"""Standing bids on pages: the form, the quote, the bid and the list."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models import F
from django.test import Client

from auctions.engine import decision_queue
from auctions.engine.jobs import cancel_job
from auctions.engine.markets import open_market
from auctions.engine.slots import pass_slots
from auctions.models import Bid, BidState, Certificate, Market
from auctions.readings import certificates, publications
from cluster.models import Cluster
from frontend.forms.submission import BidForm, initial_of
from frontend.presenters.tiles import tiles_of
from tests.auctions.worlds import (
    SLOT_S,
    body,
    make_cluster,
    make_market,
    make_operator,
    make_user,
    sell_out,
    set_time,
    submit,
)

pytestmark = pytest.mark.thorough

HOME = "/markets/lab/"
FIELDS = {"model": "ResNet-50", "epochs": "1", "value": "9", "form": "step", "deadline_h": "0.25"}
"""Worth 9 if it is complete within nine slots."""


@pytest.fixture(scope="module")
def sold(kept_rows: None) -> Market:
    return sell_out(make_market())


@pytest.fixture
def full(sold: Market, db: None) -> Market:
    """A market whose machines are all sold to another user; in each test as it was made."""
    return Market.objects.get(pk=sold.pk)


def sent(client: Client, market: Market, **fields: str) -> Bid:
    answer = client.post(f"{HOME}submit/", {**FIELDS, "key": "one", **fields})
    assert answer.status_code == 302, answer.text
    decision_queue.process_pending(market.pk)
    return Bid.objects.latest("sequence")


def test_a_ticked_box_lets_a_bid_stand_and_its_page_says_so(full: Market, as_alice: Client) -> None:
    assert "Keep trying until it is worth nothing, for 0.6667 hours at most" in as_alice.get(f"{HOME}submit/").text
    bid = sent(as_alice, full, standing="on", standing_until_h="0.2")
    assert bid.body["standing_until_s"] == 720
    set_time(full, 4 * SLOT_S)
    pass_slots(full.pk)
    page = as_alice.get(f"{HOME}bids/{bid.sequence}/").text
    for words in (
        "Standing</span>",
        "Stands since",
        "Tried again until",
        "1 time, last at",
        "It will not be tried again",
    ):
        assert words in page
    assert f"/bids/{bid.sequence}/" in as_alice.get(f"{HOME}bids/?state=standing").text
    as_alice.post(f"{HOME}bids/{bid.sequence}/withdraw/")
    page = as_alice.get(f"{HOME}bids/{bid.sequence}/").text
    assert "Stood from" in page
    assert "It stood, and its owner withdrew it." in page
    assert "This was its first decision, after which it stood." in page
    assert "Tried again until" not in page


def test_the_value_to_submit_again_with_would_be_admitted_at_the_prices_of_now(alice: User, as_alice: Client) -> None:
    market = make_market(make_cluster("priced", servers=1, units=4, horizon=24), initial_low=5.0, initial_high=9.0)
    dear = submit(market, make_user("bob"), 1e5, epochs=5)
    bid = submit(market, alice, 0.05, standing=True)
    decision_queue.process_pending(market.pk)
    path = f"/markets/priced/bids/{bid.sequence}/"
    before = as_alice.get(path).context["again_value"]
    cancel_job(Bid.objects.get(pk=dear.pk))
    page = as_alice.get(path)
    assert "With this value it would be admitted at the prices of now." in page.text
    least = page.context["standing"].least_value
    assert page.context["again_value"] == least < before
    assert page.context["again"] == f"/markets/priced/submit/?from={bid.sequence}&value={least:.2f}"


def test_without_the_box_a_rejection_is_final(full: Market, as_alice: Client) -> None:
    bid = sent(as_alice, full)
    assert bid.state == BidState.REJECTED
    assert "standing" not in bid.body
    assert "Tried again" not in as_alice.get(f"{HOME}bids/{bid.sequence}/").text


def test_a_quote_says_that_a_bid_would_stand_and_how_long_others_waited(full: Market, as_alice: Client) -> None:
    final = as_alice.post(f"{HOME}quote/", FIELDS).json()["html"]
    assert "Would be rejected" in final
    stands = as_alice.post(f"{HOME}quote/", {**FIELDS, "standing": "on"}).json()["html"]
    for words in ("Would stand", "Tried again until", "There is no figure yet"):
        assert words in stands
        assert words not in final


def test_the_box_is_ticked_where_the_cluster_says_so_and_absent_where_nobody_pays(full: Market) -> None:
    assert BidForm(cluster=full.cluster)["standing"].initial is False
    assert "empty for 0.6667" in BidForm(cluster=full.cluster)["standing_until_h"].help_text, (
        "24 slots of 100 s, two horizons"
    )
    Cluster.objects.update(standing_by_default=True)
    assert BidForm(cluster=Cluster.objects.get(name="lab"))["standing"].initial is True
    unticked = BidForm(FIELDS, cluster=Cluster.objects.get(name="lab"))
    assert unticked.is_valid()
    assert unticked.body()["standing"] is False
    weighted = open_market(make_cluster("weighted"), policy="weighted_completion")
    assert not {"standing", "standing_until_h"} & set(BidForm(cluster=weighted.cluster).fields)


def test_a_time_before_the_first_turn_is_refused_in_hours(full: Market, as_alice: Client) -> None:
    page = as_alice.post(f"{HOME}submit/", {**FIELDS, "standing": "on", "standing_until_h": "0.1"}).text
    assert "Expected at least 0.111 hours." in page
    assert not Bid.objects.filter(owner__username="alice").exists()


def test_a_similar_bid_stands_as_long(full: Market) -> None:
    shown: Any = initial_of({**body(), "standing": True, "standing_until_s": 5400}, full.cluster)
    assert (shown["standing"], shown["standing_until_h"]) == (True, 1.5)


def test_operators_read_how_many_standing_bids_acceptance_and_proven_share_leave_out(
    full: Market, as_alice: Client, as_operator: Client
) -> None:
    certificates.renew(full.pk)
    assert "left out" not in as_operator.get(HOME).text
    sent(as_alice, full, standing="on")
    certificates.renew(full.pk)
    tiles = {tile.key: tile.note for tile in tiles_of(publications.summary(full, make_operator("olivia")))}
    assert {key for key, note in tiles.items() if note.endswith(", 1 standing bid left out")} == {"admitted", "optimum"}
    assert as_operator.get(HOME).text.count("1 standing bid left out") == 2
    assert "left out" not in as_alice.get(HOME).text


def test_the_proven_share_says_of_how_many_bids_it_is_until_it_is_renewed(full: Market, as_operator: Client) -> None:
    certificates.renew(full.pk)
    assert "of the first" not in as_operator.get(HOME).text
    Certificate.objects.filter(market=full).update(decided=F("decided") - 1)
    covered = Certificate.objects.get(market=full).decided
    assert f"of the first {covered} decided" in as_operator.get(HOME).text


@pytest.mark.parametrize(
    ("policy", "parameters", "fee"),
    [
        ("dps", {}, "0.003 %"),
        ("dps", {"price": "fluid", "sooner": 0.25}, "25 %"),
        ("dps", {"sooner": 0.0}, ""),
        ("dps", {"price": "paper"}, ""),
        ("completions", {}, ""),
        ("competition", {}, ""),
    ],
)
def test_the_form_says_what_each_slot_ahead_adds_to_the_price(
    policy: str, parameters: dict[str, Any], fee: str, as_alice: Client
) -> None:
    open_market(make_cluster("fees"), policy=policy, parameters=parameters)
    page = as_alice.get("/markets/fees/submit/").text
    assert ("With each slot ahead" in page) == bool(fee)
    assert f"With each slot ahead, prices rise by {fee} of what past bids usually offered" in page or not fee
