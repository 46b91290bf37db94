"""Webhooks by REST."""

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from accounts.models import ClusterTeams
from auctions.models import Delivery, Market, Webhook
from auctions.webhooks import hooks, messages
from tests.auctions.worlds import submit

PATH = "/api/v1/webhooks"
HOOK: dict[str, Any] = {"name": "chat", "url": "https://example.org/hook"}


def made(api: APIClient, **more: Any) -> Any:
    answer = api.post(PATH, {**HOOK, **more}, format="json")
    assert answer.status_code == 201, answer.content
    return answer.json()


def wrong(answer: Any) -> dict[str, str]:
    assert answer.status_code == 400
    return {row["field"]: row["message"] for row in answer.json()["errors"]}


def test_a_webhook_is_made_and_its_secret_is_shown_once(api: APIClient) -> None:
    answer = api.post(PATH, HOOK, format="json")
    assert answer.json()["secret"].startswith("whsec_")
    assert answer["Cache-Control"] == "no-store"
    read = api.get(answer["Location"]).json()
    assert read == {key: value for key, value in answer.json().items() if key != "secret"}
    assert (read["cluster"], read["of_team"], read["types"], read["is_on"]) == (None, False, [], True)
    assert api.get(PATH).json()["results"] == [read]


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, {"name", "url"}),
        ({"name": "", "url": 7, "types": ["bid.won"], "cluster": 1, "of_team": "yes"},
         {"name", "url", "types", "cluster", "of_team"}),
        ({**HOOK, "secret": "mine"}, {"secret"}),
        ({**HOOK, "url": "http://example.org/"}, {"url"}),
        ({**HOOK, "url": "https://10.0.0.1/"}, {"url"}),
        ({**HOOK, "url": "https://[::1]/", "name": ""}, {"url", "name"}),
        ({**HOOK, "cluster": "mars"}, {"cluster"}),
        ({"name": "", "cluster": "mars", "url": "http://example.org/"}, {"name", "cluster", "url"}),
    ],
)  # fmt: skip
def test_each_wrong_field_is_named_and_nothing_is_stored(api: APIClient, body: Any, fields: set[str]) -> None:
    assert {field.partition("[")[0] for field in wrong(api.post(PATH, body, format="json"))} == fields
    assert not Webhook.objects.exists()


def test_a_webhook_is_changed_switched_off_and_deleted(api: APIClient) -> None:
    path = f"{PATH}/{made(api)['id']}"
    body = {"name": "desk", "url": "https://example.org/other", "types": ["bid.failed"], "cluster": "lab"}
    assert set(wrong(api.put(path, {**body, "url": "https://192.168.1.1/"}, format="json"))) == {"url"}
    changed = api.put(path, {**body, "is_on": False}, format="json").json()
    assert changed.items() >= {**body, "is_on": False}.items()
    assert api.delete(path).status_code == 204
    assert api.get(path).status_code == 404


def test_a_webhook_of_a_cluster_that_was_closed_to_its_user_is_switched_off(
    api: APIClient, client_of: Callable[[User], APIClient], alice: User, market: Market
) -> None:
    path = f"{PATH}/{made(api, cluster='lab')['id']}"
    ClusterTeams.objects.create(cluster=market.cluster, is_restricted=True)
    api = client_of(User.objects.get(pk=alice.pk))  # the rights of now
    changed = api.put(path, {**HOOK, "cluster": "lab", "is_on": False}, format="json").json()
    assert (changed["cluster"], changed["is_on"]) == ("lab", False)
    assert set(wrong(api.post(PATH, {**HOOK, "cluster": "lab"}, format="json"))) == {"cluster"}
    api.put(path, HOOK, format="json")
    assert set(wrong(api.put(path, {**HOOK, "cluster": "lab"}, format="json"))) == {"cluster"}


def test_a_secret_is_replaced(api: APIClient) -> None:
    first = made(api)
    answer = api.post(f"{PATH}/{first['id']}/rotate", {"overlap_s": 60}, format="json")
    assert (answer.status_code, answer.json()["id"]) == (201, first["id"])
    assert answer.json()["secret"] not in ("", first["secret"])


def test_deliveries_are_listed_filtered_and_sent_again(api: APIClient, market: Market) -> None:
    number = made(api)["id"]
    webhook = Webhook.objects.get()
    submit(market, webhook.owner)
    messages.derive()
    api.post(f"{PATH}/{number}/test")
    path = f"{PATH}/{number}/deliveries"
    test, bid = api.get(path).json()["results"]
    assert (test["type"], test["bid"], test["cluster"], test["status"]) == ("webhook.test", None, None, "waiting")
    assert (bid["type"], bid["bid"], bid["cluster"], bid["attempts"]) == ("bid.submitted", 1, "lab", 0)
    assert bid["body"] == Delivery.objects.get(type="bid.submitted").body
    Delivery.objects.filter(type="bid.submitted").update(status="given_up", next_at=None, attempts=9)
    for query, expected in (("status=given_up", [bid["message"]]), ("type=webhook.test", [test["message"]])):
        assert [row["message"] for row in api.get(f"{path}?{query}").json()["results"]] == expected
    assert set(wrong(api.get(f"{path}?status=lost"))) == {"status"}
    again = api.post(f"{path}/{bid['message']}/redeliver")
    assert (again.status_code, again.json()["status"], again.json()["attempts"]) == (202, "waiting", 0)
    assert api.post(f"{path}/{bid['message']}/redeliver").status_code == 409


def test_one_has_ten_webhooks_at_most(api: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("auctions.webhooks.hooks.MOST_WEBHOOKS", 1)
    made(api)
    assert api.post(PATH, HOOK, format="json").status_code == 409


def test_http_is_taken_where_the_operator_allows_networks(api: APIClient, settings: LazySettings) -> None:
    settings.WEBHOOK_NETWORKS = ["10.0.0.0/8"]
    assert made(api, url="http://inner.example.org/")["url"] == "http://inner.example.org/"


def test_one_that_another_request_has_deleted_is_not_changed(api: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"{PATH}/{made(api)['id']}"
    before = Webhook.objects.get()
    assert api.delete(path).status_code == 204
    monkeypatch.setattr("auctions.api.webhooks._found", lambda _request, _number: before)  # it was looked up earlier
    for answer in (
        api.put(path, HOOK, format="json"),
        api.post(f"{path}/rotate", {}, format="json"),
        api.post(f"{path}/test", {}, format="json"),
    ):
        assert (answer.status_code, answer.json()["detail"]) == (409, "The webhook chat was deleted.")
    assert api.delete(path).status_code == 204
    hooks.switch_off(before, "an operator switched it off")
    assert not Webhook.objects.exists()
