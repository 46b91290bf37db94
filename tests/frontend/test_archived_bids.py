"""An archived bid on pages and in REST: it says so, and shows what became of the bid."""

from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from auctions.engine import decision_queue
from auctions.engine.slots import pass_slots
from auctions.history.sealing import Before, archive
from auctions.models import Bid, BidState
from auctions.state import book
from tests.auctions.worlds import SLOT_S, make_market, make_operator, make_user, set_time, submit


@pytest.fixture
def alice(db: None, tmp_path: Path, settings: Any) -> Client:
    """A bidder with a completed bid that is archived, and one that was decided later."""
    settings.ARCHIVE_DIR = tmp_path
    book.forget()
    market, user, client = make_market(), make_user(), Client()
    for slot in range(4):
        submit(market, user, 500.0)
        decision_queue.process_pending(market.pk)
        set_time(market, (slot + 1) * SLOT_S + 10.0)
        pass_slots(market.pk)
    archive(market, Before(slot=4))
    client.force_login(user)
    return client


def test_the_page_says_that_it_is_archived_and_shows_the_outcome(alice: Client) -> None:
    bid = Bid.objects.get(sequence=1)
    assert (bid.state, bid.seal_id is None) == (BidState.COMPLETED, False)
    text = alice.get(reverse("bid", args=["lab", 1])).content.decode()
    assert "This bid is archived: its request and its receipt are no longer here, but in archive 1" in text
    assert "<dt>Payment</dt>" in text
    assert "Had it stated something else" not in text
    other = alice.get(reverse("bid", args=["lab", 4])).content.decode()
    assert "This bid is archived" not in other
    assert "Had it stated something else" in other


def test_lists_say_which_bids_are_archived(alice: Client) -> None:
    text = alice.get(reverse("bids", args=["lab"])).content.decode()
    assert text.count(">archived</span>") == Bid.objects.filter(seal__isnull=False).count() == 2
    rows = alice.get("/api/v1/clusters/lab/bids").json()["results"]
    assert {row["sequence"]: row["archived"] for row in rows} == {4: False, 3: False, 2: True, 1: True}


def test_rest_returns_the_outcome_without_request_and_receipt(alice: Client) -> None:
    bid = Bid.objects.get(sequence=1)
    found = alice.get("/api/v1/clusters/lab/bids/1").json()
    assert (found["archived"], found["body"], found["decision"]) == (True, {}, None)
    assert (found["state"], found["payment"], found["completion_slot"]) == (
        "completed",
        bid.payment,
        bid.completion_slot,
    )
    assert alice.get("/api/v1/clusters/lab/bids/1/schedule").json()["placements"]
    answer = alice.get("/api/v1/clusters/lab/bids/1/alternatives")
    assert answer.status_code == 409
    assert "What was decided before slot" in answer.json()["detail"]


@pytest.mark.parametrize("part", ["schedule", "machines"])
def test_its_charts_are_still_there(alice: Client, part: str) -> None:
    assert alice.get(reverse("bid_csv", args=["lab", 1, part])).content.decode().count("\n") > 1


def test_a_bid_like_it_begins_with_an_empty_form(alice: Client) -> None:
    assert alice.get(reverse("submit", args=["lab"]), {"from": 1}).status_code == 200


def test_to_fail_an_archived_job_is_refused_as_for_every_job_that_is_over(alice: Client) -> None:
    operator = Client()
    operator.force_login(make_operator())
    said = {}
    for number in (1, 3):  # the second one is completed, too, but not archived
        body = {"reason": "a disk broke", "refund": "undelivered"}
        answer = operator.post(f"/api/v1/clusters/lab/bids/{number}/fail", body, content_type="application/json")
        said[number] = answer.status_code, answer.json()["detail"]
    words = "is completed; only a bid that is planned or running can become failed."
    assert said == {number: (409, f"Bid {number} {words}") for number in said}
    assert [bid.seal_id is None for bid in Bid.objects.filter(sequence__in=said).order_by("sequence")] == [False, True]
