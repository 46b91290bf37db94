"""Numbers of one's own rows do not count those of others: messages about a standing bid would show when it ends."""

import base64
import json
import re
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.auth.models import User
from django.test import Client

from auctions.models import BidState, Delivery, DeliveryStatus
from auctions.webhooks import hooks, messages
from auctions.webhooks.hooks import WebhookRequest
from tests.auctions.worlds import SLOT_S
from tests.frontend.sealed_bids.addresses import Spy
from tests.frontend.sealed_bids.test_worlds import assert_same, sold_out
from tests.frontend.sealed_bids.worlds import NUMBERS, POLICIES, World, stating, world

pytestmark = pytest.mark.thorough
BY_CHANCE = re.compile(rb"msg_[0-9a-f]{32}|cursor=[\w%]+")
"""Ids of messages are drawn, and positions in cursors are encrypted."""


def messages_of_another(found: World, spy: Spy) -> None:
    """Bob's bid stands, and his webhook has a message when it ends; Alice sends herself a message in each slot."""
    deadline = {"form": "step", "value": 20.0, "deadline_s": found.stated["bob"] * SLOT_S}
    assert found.bid("bob", utility=deadline, standing=True).state == BidState.STANDING
    webhook, _ = (
        hooks.create(found.people[name], WebhookRequest("chat", "https://example.org/hook")).webhook
        for name in ("alice", "bob")
    )
    for slot in range(1, 10):
        found.pass_to(slot)
        messages.derive()
        messages.add_test(webhook)
        webhook.deliveries.update(status=DeliveryStatus.DELIVERED, next_at=None)
    assert Delivery.objects.filter(type="bid.rejected", bid__owner__username="bob").exists()
    page, i = f"/api/v1/webhooks/{webhook.pk}/deliveries?page_size=3", 0
    while page:
        status, headers, content = spy.get(page)
        spy.kept["deliveries", str(i)] = status, headers, BY_CHANCE.sub(b"", content)
        page, i = json.loads(content)["next"], i + 1
    status, headers, content = spy.get(f"/account/webhooks/{webhook.pk}/")
    assert b"Send again" in content
    spy.kept["deliveries", "page"] = status, headers, BY_CHANCE.sub(b"", content)


def test_numbers_of_messages_do_not_show_when_a_standing_bid_of_another_ends(
    people: dict[str, User], client: Client
) -> None:
    read = []
    with world(people, *POLICIES["DPS, quantile prices"]) as past:
        sold_out(past)
        for deadline in (6.0, 8.0):
            with stating(past, {"bob": deadline}) as found:
                spy = Spy(client, found.market, NUMBERS)
                messages_of_another(found, spy)
                read.append(spy.kept)
    assert_same(*read)


def test_a_cursor_shows_no_key_and_one_that_was_changed_is_refused(people: dict[str, User], client: Client) -> None:
    webhook = hooks.create(people["alice"], WebhookRequest("chat", "https://example.org/hook")).webhook
    for _ in range(3):
        messages.add_test(webhook)
        webhook.deliveries.update(status=DeliveryStatus.DELIVERED, next_at=None)
    path = f"/api/v1/webhooks/{webhook.pk}/deliveries"
    following = client.get(f"{path}?page_size=1").json()["next"]
    assert following == client.get(f"{path}?page_size=1").json()["next"]
    cursor = parse_qs(urlsplit(following).query)["cursor"][0]
    [position] = parse_qs(base64.b64decode(cursor).decode())["p"]
    assert len(bytes.fromhex(position)) > 32
    shown = [client.get(f"{path}?page_size=1").json(), client.get(following).json()]
    assert [one["results"][0]["message"] for one in shown] == [one.message_id for one in hooks.deliveries(webhook)[:2]]
    for wrong in ("2", position[:-1] + "0123456789abcdef"[int(position[-1], 16) - 1]):
        changed = base64.b64encode(f"p={wrong}".encode()).decode()
        assert client.get(path, {"cursor": changed}).status_code == 400
