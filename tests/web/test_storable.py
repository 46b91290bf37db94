"""NUL in an address is refused on every database; PostgreSQL would fail on it, and the answer would be 500."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from accounts.teams import create_team
from auctions.models import Bid, Market
from tests.auctions.worlds import make_market, make_operator

TEAM = "/api/v1/teams/vision"


@pytest.fixture
def olga(db: None) -> Client:
    """The client of an operator who administers a team."""
    user = make_operator()
    create_team("vision", "Vision", administrator=user)
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def market(db: None) -> Market:
    return make_market()


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/markets/lab/bids/?label=a%00", 400),
        ("/changes/?who=%00", 400),
        ("/teams/vision/credits/?cluster=%00", 400),
        ("/admin/auctions/bid/?q=%00", 400),
        ("/markets/lab/servers/%00/", 404),
        ("/markets/lab/bids/?label=%2500", 200),
    ],
)
def test_a_page_is_not_asked_for_a_text_with_nul(market: Market, olga: Client, address: str, status: int) -> None:
    answer = olga.get(address)
    assert (answer.status_code, answer.headers["Content-Type"]) == (status, "text/html; charset=utf-8")


@pytest.mark.parametrize(
    ("address", "status", "field"),
    [
        (f"{TEAM}/budget/transactions?cluster=%00", 400, "cluster"),
        ("/api/v1/clusters/lab/bids?label=a%00", 400, "label"),
        ("/api/v1/clusters/lab/servers/%00", 404, None),
    ],
)
def test_an_operation_names_the_parameter(
    market: Market, olga: Client, address: str, status: int, field: str | None
) -> None:
    answer = olga.get(address)
    assert (answer.status_code, answer.headers["Content-Type"]) == (status, "application/problem+json")
    assert [row["field"] for row in answer.json()["errors"]] == ([] if field is None else [field])


def test_no_member_has_nul_in_the_name(market: Market, olga: Client) -> None:
    answer = olga.put(f"{TEAM}/members/%00", {"role": "viewer"}, content_type="application/json")
    assert answer.status_code == 404
    assert User.objects.count() == 1


def test_the_key_of_a_form_is_one_that_the_page_has_made(market: Market, olga: Client) -> None:
    shown = olga.get("/markets/lab/submit/").context["key"]
    form = {"model": "ResNet-50", "epochs": "1", "form": "constant", "value": "5"}
    for key in (shown, shown, "a\0b", "a\0b"):
        assert olga.post("/markets/lab/submit/", {**form, "key": key}).status_code == 302
    keys = set(Bid.objects.values_list("idempotency_key", flat=True))
    assert len(keys) == 3
    assert f"page {shown}" in keys
    assert not any("\0" in str(key) for key in keys)
