"""Quarantined bids and the money of ended jobs by REST, on pages and in the admin."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client
from rest_framework.test import APIClient

from auctions.domain.money import money_of
from auctions.domain.refunds import Refund
from auctions.engine import decision_queue
from auctions.engine.jobs import cancel_job, fail_job, withdraw_bid
from auctions.engine.markets import open_market
from auctions.engine.policies import change_policy
from auctions.engine.slots import pass_slots
from auctions.models import Bid, Market
from tests.auctions.faulty import UNLUCKY, process_pending, register, send
from tests.auctions.worlds import make_cluster, make_user, set_time, submit

BASE = "/api/v1/clusters/lab/bids"


@pytest.fixture
def unlucky(db: None, alice: User, monkeypatch: pytest.MonkeyPatch) -> Bid:
    """Alice's quarantined bid."""
    register(monkeypatch)
    market = open_market(make_cluster(), policy="faulty_dps")
    bid = send(market, alice, UNLUCKY, auction=True)
    process_pending(market)
    return bid


@pytest.fixture
def operator(db: None) -> User:
    """A user who may put it back."""
    return make_user("otto", is_staff=True, is_superuser=True)


def test_its_owner_reads_that_it_is_quarantined_and_nothing_of_the_error(
    unlucky: Bid, alice: User, client_of: Callable[[User], APIClient]
) -> None:
    answered = client_of(alice).get(f"{BASE}/1")
    assert (answered.json()["state"], answered.json()["decision"], answered.json()["payoff"]) == (
        "quarantined",
        None,
        None,
    )
    assert "unlucky" not in answered.content.decode()
    pages = Client()
    pages.force_login(alice)
    page = pages.get("/markets/lab/bids/1/").content.decode()
    assert "It could not be decided; an operator has been informed." in page
    assert "unlucky" not in page
    assert "Put back in the queue" not in page


def test_only_an_operator_puts_it_back_in_the_queue_by_rest(
    unlucky: Bid, alice: User, operator: User, client_of: Callable[[User], APIClient]
) -> None:
    assert client_of(alice).post(f"{BASE}/1/retry", format="json").status_code == 403
    change_policy(unlucky.market, name="dps", parameters={}, by=None)
    answer = client_of(operator).post(f"{BASE}/1/retry", format="json")
    assert (answer.status_code, answer.json()["state"]) == (200, "submitted")
    decision_queue.process_pending(unlucky.market_id)
    assert client_of(operator).post(f"{BASE}/1/retry", format="json").status_code == 409


def test_an_operator_finds_the_error_and_puts_the_bid_back_on_its_page(
    unlucky: Bid, alice: User, operator: User
) -> None:
    pages = Client()
    pages.force_login(operator)
    assert "OutsideHorizon: bid 1 is unlucky" in pages.get("/markets/lab/bids/1/").content.decode()
    assert "OutsideHorizon: bid 1 is unlucky" in pages.get("/admin/auctions/policyerror/").content.decode()
    assert pages.post("/markets/lab/bids/1/retry/").status_code == 302
    unlucky.refresh_from_db()
    assert unlucky.state == "submitted"
    pages.force_login(alice)
    assert pages.post("/markets/lab/bids/1/retry/").status_code == 403


def test_an_operator_puts_it_back_in_the_admin(unlucky: Bid, operator: User) -> None:
    pages = Client()
    pages.force_login(operator)
    asked = {"action": "retry", "_selected_action": [unlucky.pk]}
    assert "Bid 1 is back in the queue." in pages.post("/admin/auctions/bid/", asked, follow=True).text
    unlucky.refresh_from_db()
    assert unlucky.state == "submitted"
    page = pages.post("/admin/auctions/bid/", asked, follow=True).text
    assert "Bid 1 is waiting; only a bid that is quarantined can become waiting." in page


def test_the_admin_fails_jobs_with_a_reason_and_a_refund_that_are_given(
    market: Market, alice: User, operator: User
) -> None:
    bid = submit(market, alice, 100.0, epochs=3)
    decision_queue.process_pending(market.pk)
    pages = Client()
    pages.force_login(operator)

    def fail(why: str, refund: str) -> str:
        asked = {"action": "fail", "_selected_action": [bid.pk], "reason": why, "refund": refund}
        page = pages.post("/admin/auctions/bid/", asked, follow=True).text
        bid.refresh_from_db()
        return page

    page = pages.post("/admin/auctions/bid/", {"action": "fail", "_selected_action": [bid.pk]}).text
    assert f"<li>{market}: {bid}</li>" in page
    assert "errorlist" not in page
    for why, refund, words in (
        ("a disk broke", "", "This field is required."),
        (" ", "full", "This field is required."),
        ("a disk broke", "twice", "twice is not one of the available choices."),
        ("x" * 201, "full", "at most 200 characters"),
    ):
        page = fail(why, refund)
        assert words in page, "beside the field"
        assert f'<input type="hidden" name="_selected_action" value="{bid.pk}">' in page, "the rows stay chosen"
    assert bid.state == "running"
    page = fail("x" * 200, "full")
    assert (bid.state, bid.end_reason, bid.refund) == ("failed", "x" * 200, bid.payment)
    assert f"failed; {bid.refund:,.2f} was paid back." in page
    assert "only a bid that is planned or running can become failed" in fail("again", "full")


def test_a_market_shows_operators_that_bids_are_quarantined(unlucky: Bid, alice: User, operator: User) -> None:
    pages = Client()
    pages.force_login(operator)
    page = pages.get("/markets/lab/").content.decode()
    assert '<a href="/markets/lab/bids/?state=quarantined">1 bid</a>, which is quarantined.' in page
    assert "1 quarantined" in str(pages.get("/markets/lab/tiles.json").json()["tiles"])
    pages.force_login(alice)
    assert "The policy failed on" not in pages.get("/markets/lab/").content.decode()
    withdraw_bid(unlucky)
    pages.force_login(operator)
    assert "quarantined" not in pages.get("/markets/lab/").content.decode()


def ended(market: Market, owner: User, how: str) -> Bid:
    bid = submit(market, owner, 100.0, epochs=3)
    decision_queue.process_pending(market.pk)
    bid.refresh_from_db()
    assert bid.payment
    if how == "cancelled":
        cancel_job(bid)
    else:
        fail_job(bid, "a disk broke", refund=Refund(how))
    bid.refresh_from_db()
    return bid


@pytest.mark.parametrize(("how", "share"), [("cancelled", -1.0), ("none", -1.0), ("full", 0.0)])
def test_an_ended_job_is_worth_nothing_and_its_owner_has_what_is_paid_back_less_what_was_paid(
    how: str, share: float, market: Market, alice: User, client_of: Callable[[User], APIClient]
) -> None:
    bid = ended(market, alice, how)
    money, paid = money_of(bid), bid.payment or 0.0
    assert money is not None
    assert (money.value, money.paid, money.payoff) == (0.0, paid, share * paid)
    for answered in (client_of(alice).get(f"{BASE}/1").json(), client_of(alice).get(BASE).json()["results"][0]):
        assert (answered["value"], answered["payment"], answered["payoff"]) == (0.0, paid, share * paid)
    pages = Client()
    pages.force_login(alice)
    page = pages.get("/markets/lab/bids/1/").content.decode()
    assert "<dt>Value</dt><dd>0.00</dd>" in page
    assert f"<dt>Payoff</dt><dd>{share * paid + 0.0:,.2f}</dd>" in page.replace("\u2212", "-")
    assert "Would have been complete" in page
    assert "100.00" not in pages.get("/markets/lab/bids/").content.decode()


def shown(viewer: User, bid: Bid) -> str:
    pages = Client()
    pages.force_login(viewer)
    return " ".join(pages.get(f"/markets/lab/bids/{bid.sequence}/").content.decode().split())


@pytest.mark.parametrize("how", ["cancelled", "full"])
def test_a_receipt_says_that_a_job_that_ended_before_its_start_would_have_started(
    how: str, market: Market, alice: User, client_of: Callable[[User], APIClient]
) -> None:
    bid = submit(market, alice, 100.0, epochs=3, upload_delay_s={"edge-0": 500, "edge-1": 500, "cloud": 500})
    decision_queue.process_pending(market.pk)
    bid.refresh_from_db()
    assert bid.state == "planned"
    assert "<dt>Starts</dt>" in shown(alice, bid)
    assert "has ended since" not in shown(alice, bid)
    if how == "cancelled":
        cancel_job(bid)
    else:
        fail_job(bid, "a disk broke", refund=Refund(how))
    page = shown(alice, bid)
    assert "<dt>Would have started</dt>" in page
    assert "<dt>Starts</dt>" not in page
    assert "This was the decision; the job has ended since." in page
    assert "After arrival" not in page
    assert "<summary>Schedule</summary>" not in page
    assert client_of(alice).get(f"{BASE}/{bid.sequence}").json()["started"] is False


def test_a_receipt_says_that_a_job_that_ended_while_it_ran_had_started(
    market: Market, alice: User, client_of: Callable[[User], APIClient]
) -> None:
    bid = submit(market, alice, 100.0, epochs=3)
    decision_queue.process_pending(market.pk)
    set_time(market, 100.0)
    pass_slots(market.pk)
    bid.refresh_from_db()
    assert bid.state == "running"
    assert "<dt>Started</dt>" in shown(alice, bid)
    assert client_of(alice).get(f"{BASE}/1").json()["started"] is True
    cancel_job(bid)
    page = shown(alice, bid)
    assert "<dt>Started</dt>" in page
    assert "Would have started" not in page
    assert "<summary>Schedule</summary>" in page
    assert client_of(alice).get(f"{BASE}/1").json()["started"] is True
