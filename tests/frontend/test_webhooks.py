"""The pages of a user's webhooks."""

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client

from accounts.models import ClusterTeams
from auctions.models import Delivery, Market, Webhook
from auctions.webhooks import hooks, messages
from auctions.webhooks.hooks import WebhookRequest
from tests.auctions.worlds import make_operator, submit

PAGE = "/account/webhooks/"
FORM = {"name": "chat", "url": "https://example.org/hook", "cluster": ""}


@pytest.fixture
def webhook(alice: User) -> Webhook:
    return hooks.create(alice, WebhookRequest("chat", FORM["url"])).webhook


def shown(text: str) -> str:
    found = re.search(r'<pre id="secret">(whsec_\S+)</pre>', text)
    assert found
    return found[1]


def test_a_secret_is_shown_once(as_alice: Client) -> None:
    answer = as_alice.post(PAGE, FORM)
    secret = shown(answer.text)
    assert "no-store" in answer.headers["Cache-Control"]
    path = f"{PAGE}{Webhook.objects.get().pk}/"
    for page in (PAGE, path):
        assert secret not in as_alice.get(page).text
    assert shown(as_alice.post(f"{path}rotate/").text) != secret


def test_a_wrong_form_names_each_wrong_field_and_stores_nothing(as_alice: Client) -> None:
    answer = as_alice.post(PAGE, {"name": "", "url": "ftp://x", "cluster": "mars", "types": ["bid.won"]})
    assert (answer.status_code, set(answer.context["form"].errors)) == (422, {"name", "url", "cluster", "types"})
    for url in ("http://169.254.169.254/latest", "https://169.254.169.254/latest", "https://[::1]/"):
        answer = as_alice.post(PAGE, {**FORM, "url": url})
        assert (answer.status_code, set(answer.context["form"].errors)) == (422, {"url"})
    assert not Webhook.objects.exists()


def test_a_webhook_is_changed_and_deleted(as_alice: Client, webhook: Webhook) -> None:
    path = f"{PAGE}{webhook.pk}/"
    assert as_alice.post(path, {**FORM, "name": "desk", "types": ["bid.failed"]}).status_code == 302
    webhook.refresh_from_db()
    assert (webhook.name, webhook.types, webhook.is_on) == ("desk", ["bid.failed"], False)
    assert "was deleted" in as_alice.post(f"{path}delete/", follow=True).text
    assert "You have no webhooks yet." in as_alice.get(PAGE).text


def test_a_webhook_of_a_cluster_that_was_closed_to_its_user_stays_for_that_cluster(
    as_alice: Client, alice: User, market: Market
) -> None:
    webhook = hooks.create(alice, WebhookRequest("chat", FORM["url"], market.cluster)).webhook
    ClusterTeams.objects.create(cluster=market.cluster, is_restricted=True)
    path = f"{PAGE}{webhook.pk}/"
    text = as_alice.get(path).text
    assert '<option value="lab" selected>' in text, "what is sent unless something else is chosen"
    assert as_alice.post(path, {**FORM, "name": "desk", "cluster": "lab"}).status_code == 302
    webhook.refresh_from_db()
    assert (webhook.name, webhook.cluster) == ("desk", market.cluster)
    assert set(as_alice.post(PAGE, {**FORM, "cluster": "lab"}).context["form"].errors) == {"cluster"}


def test_deliveries_are_listed_filtered_and_sent_again(as_alice: Client, webhook: Webhook, market: Market) -> None:
    path = f"{PAGE}{webhook.pk}/"
    assert "Nothing has been sent yet." in as_alice.get(path).text
    submit(market, webhook.owner)
    messages.derive()
    as_alice.post(f"{path}test/")
    Delivery.objects.filter(type="bid.submitted").update(status="given_up", next_at=None, problem="no connection")
    text = as_alice.get(path).text
    assert "webhook.test</th>" in text
    assert "no connection" in text
    filtered = as_alice.get(f"{path}?status=given_up").text
    assert "webhook.test</th>" not in filtered
    assert "/markets/lab/bids/1/" in filtered
    assert "No delivery matches" in as_alice.get(f"{path}?status=delivered").text
    number = Delivery.objects.get(type="bid.submitted").message_id
    answer = as_alice.post(f"{path}deliveries/{number}/redeliver/", follow=True)
    assert "will be sent again" in answer.text
    assert "waits to be sent" in as_alice.post(f"{path}deliveries/{number}/redeliver/", follow=True).text


def test_a_webhook_that_was_switched_off_says_why(as_alice: Client, webhook: Webhook) -> None:
    client = Client()
    client.force_login(make_operator())
    chosen = {"action": "switch_off", "_selected_action": [webhook.pk]}
    assert client.post("/admin/auctions/webhook/", chosen).status_code == 302
    assert "an operator switched it off" in as_alice.get(f"{PAGE}{webhook.pk}/").text
    text = client.get(f"/admin/auctions/webhook/{webhook.pk}/change/").text
    assert webhook.secret not in text


def test_the_record_of_changes_has_no_secret(as_alice: Client) -> None:
    as_alice.post(PAGE, FORM)
    client = Client()
    client.force_login(make_operator())
    text = client.get("/changes.csv").text
    assert "https://example.org/hook" in text
    assert Webhook.objects.get().secret not in text
