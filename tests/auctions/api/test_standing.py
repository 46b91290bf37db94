"""Standing bids in the REST interface."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from auctions.engine import decision_queue
from auctions.engine.slots import pass_slots
from auctions.models import Market
from cluster.guards import checked_change
from cluster.models import LARGEST_SECONDS, Cluster
from tests.auctions.api.conftest import BASE
from tests.auctions.worlds import SLOT_S, body, sell_out, set_time

pytestmark = pytest.mark.thorough

BIDS = f"{BASE}/bids"


@pytest.fixture
def full(market: Market) -> Market:
    """A market whose machines are all sold to another user."""
    return sell_out(market)


def standing(**changes: Any) -> dict[str, Any]:
    deadline = {"form": "step", "value": 9.0, "deadline_s": 9 * SLOT_S}
    return {**body(), "utility": deadline, "standing": True, **changes}


def sent(api: APIClient, market: Market, document: Any) -> Any:
    answer = api.post(BIDS, document, format="json")
    assert answer.status_code == 202, answer.json()
    decision_queue.process_pending(market.pk)
    return api.get(answer["Location"]).json()


def test_a_bid_stands_with_its_first_receipt_until_it_is_withdrawn(api: APIClient, full: Market) -> None:
    found = sent(api, full, standing())
    assert (found["state"], found["tries"]) == ("standing", 0)
    assert (found["stands_until_slot"], found["stands_until_s"]) == (8, 8 * SLOT_S)
    assert found["decision"]["reason"] == "no_room"
    seen = found["standing"]
    assert (seen["since_slot"], seen["last_try_slot"], seen["next_try_slot"], seen["least_value"]) == (0, None, 4, None)
    assert "It is tried next at the beginning of slot 4, and in slot 8 at the latest." in seen["explanation"]
    set_time(full, 4 * SLOT_S)
    pass_slots(full.pk)
    where = f"{BIDS}/{found['sequence']}"
    found = api.get(where).json()
    assert (found["state"], found["tries"]) == ("standing", 1)
    assert [one["sequence"] for one in api.get(f"{BIDS}?state=standing").json()["results"]] == [found["sequence"]]
    assert api.post(f"{where}/cancel").status_code == 409
    assert api.post(f"{where}/withdraw").json()["state"] == "withdrawn"
    assert api.get(where).json()["decision"]["reason"] == "no_room"


def test_a_bid_that_has_ended_says_why(api: APIClient, full: Market) -> None:
    found = sent(api, full, standing(standing_until_s=4 * SLOT_S))
    assert found["stands_until_slot"] == 4
    set_time(full, 5 * SLOT_S)
    pass_slots(full.pk)
    found = api.get(f"{BIDS}/{found['sequence']}").json()
    assert (found["state"], found["decision"]["reason"]) == ("rejected", "expired")
    assert (found["standing"]["next_try_slot"], found["standing"]["least_value"]) == (None, None)


def test_a_quote_says_whether_the_bid_would_stand(api: APIClient, full: Market) -> None:
    quote = api.post(f"{BASE}/quotes", standing(), format="json").json()
    assert not quote["admitted"]
    assert (quote["stands_until_slot"], quote["standing_wait_slots"]) == (8, None)
    assert quote["standing_admitted_share"] is None
    final = api.post(f"{BASE}/quotes", standing(standing=False), format="json").json()
    assert final["stands_until_slot"] is None
    assert (quote["reason"], quote["explanation"]) == (final["reason"], final["explanation"])


def test_a_cluster_says_what_bids_do_that_do_not_say_so(api: APIClient, full: Market) -> None:
    assert api.get(BASE).json()["standing_by_default"] is False
    with checked_change(full.cluster):
        Cluster.objects.update(standing_by_default=True)
    assert api.get(BASE).json()["standing_by_default"] is True
    document = standing()
    del document["standing"]
    assert sent(api, full, document)["state"] == "standing"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"standing": 1}, "standing"),
        ({"standing": "yes"}, "standing"),
        ({"standing_until_s": -1}, "standing_until_s"),
        ({"standing_until_s": 4 * SLOT_S - 1}, "standing_until_s"),
        ({"standing": False, "standing_until_s": 5}, "standing_until_s"),
    ],
)
def test_wrong_fields_of_standing_bids_are_named(
    api: APIClient, full: Market, changes: dict[str, Any], field: str
) -> None:
    answer = api.post(BIDS, standing(**changes), format="json")
    assert answer.status_code == 400
    assert [error["field"] for error in answer.json()["errors"]] == [field]


def test_a_time_before_the_first_turn_is_answered_with_the_least_and_the_largest_one(
    api: APIClient, full: Market
) -> None:
    for stated in (0, -1):
        (error,) = api.post(BIDS, standing(standing_until_s=stated), format="json").json()["errors"]
        assert error["message"] == f"expected {4 * SLOT_S:,.0f} to {LARGEST_SECONDS:,.0f}, got {stated}"
