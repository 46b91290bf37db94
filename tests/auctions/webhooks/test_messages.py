"""Messages are derived from events: of the owner's own bids, each once, whatever ends in between."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from accounts.models import ClusterTeams, Membership
from auctions.domain.refunds import Refund
from auctions.engine import decision_queue, slots
from auctions.engine.jobs import cancel_job, fail_job, withdraw_bid
from auctions.models import Bid, Delivery, Event, Market, Webhook, WebhookCursor
from auctions.webhooks import hooks, messages
from auctions.webhooks.hooks import Made, WebhookRequest, create
from tests.accounts.members import in_team
from tests.auctions.worlds import make_cluster, make_market, make_user, set_time, submit


def sent(webhook: Webhook) -> list[tuple[str, int]]:
    """Type and bid of the messages of a webhook, in order."""
    rows = webhook.deliveries.order_by("pk").values_list("type", "bid__sequence")
    return list(rows)


def decide(market: Market, *bids: Bid) -> None:
    decision_queue.process_pending(market.pk)
    for bid in bids:
        bid.refresh_from_db()


def test_a_bid_s_life_becomes_messages_in_order(market: Market, alice: User, made: Made) -> None:
    set_time(market, 50)
    bid, poor = submit(market, alice, label="a job"), submit(market, alice, 0.0001)
    decide(market, bid)
    assert bid.start_slot is not None
    assert bid.completion_slot is not None
    set_time(market, bid.start_slot * 100)
    slots.pass_slots(market.pk)
    set_time(market, bid.completion_slot * 100)
    slots.pass_slots(market.pk)
    messages.derive()
    assert sent(made.webhook) == [
        ("bid.submitted", 1),
        ("bid.submitted", 2),
        ("bid.admitted", 1),
        ("bid.rejected", 2),
        ("bid.started", 1),
        ("bid.completed", 1),
    ]
    assert poor.sequence == 2


def test_a_message_says_what_the_bid_says(market: Market, alice: User, made: Made) -> None:
    bid = submit(market, alice, label="a job")
    decide(market, bid)
    fail_job(bid, "a disk broke", refund=Refund.FULL)
    bid.refresh_from_db()
    messages.derive()
    texts = {one.type: json.loads(one.body) for one in Delivery.objects.all()}
    event = Event.objects.get(kind="admitted")
    data = {"cluster": "lab", "bid": 1, "label": "a job", "owner": "alice", "slot": event.slot}
    money = {"value": bid.value, "payment": bid.payment}
    assert texts["bid.admitted"] == {
        "type": "bid.admitted",
        "timestamp": event.at.isoformat(),
        "data": {**data, **money},
    }
    assert texts["bid.submitted"]["data"] == data
    assert texts["bid.failed"]["data"].items() >= {"reason": "a disk broke", "refund": bid.payment}.items()


@pytest.mark.parametrize("end", [cancel_job, partial(fail_job, reason="a disk broke")])
def test_a_job_that_ended_before_its_completion_has_no_value_as_in_rest(
    end: Callable[[Bid], Bid], market: Market, alice: User, made: Made
) -> None:
    bid = submit(market, alice)
    decide(market, bid)
    end(bid)
    bid.refresh_from_db()
    messages.derive()
    client = APIClient()
    client.force_authenticate(alice)
    read = client.get("/api/v1/clusters/lab/bids/1").json()
    data = json.loads(Delivery.objects.get(type=f"bid.{bid.state}").body)["data"]
    assert (data["value"], data["payment"]) == (read["value"], read["payment"]) == (0.0, bid.payment)


def test_a_bidder_hears_nothing_of_others(market: Market, alice: User, made: Made) -> None:
    charlie = make_user("charlie")
    his = create(charlie, WebhookRequest("his", made.webhook.url)).webhook
    mine, other = submit(market, alice), submit(market, charlie)
    decide(market, mine, other)
    withdraw_bid(submit(market, charlie))
    set_time(market, 5_000)
    slots.pass_slots(market.pk)
    messages.derive()
    assert {number for _, number in sent(made.webhook)} == {1}
    assert {number for _, number in sent(his)} == {2, 3}
    assert not [one for one in made.webhook.deliveries.all() if "charlie" in one.body]


def test_what_happened_before_is_not_sent(market: Market, alice: User) -> None:
    submit(market, alice)
    webhook = create(alice, WebhookRequest("late", "https://example.org/")).webhook
    messages.derive()
    assert sent(webhook) == []
    second = submit(market, alice)
    cancelled = submit(market, alice)
    decide(market, second, cancelled)
    cancel_job(cancelled)
    messages.derive()
    assert [row for row in sent(webhook) if row[1] == 3][-1] == ("bid.cancelled", 3)
    assert ("bid.submitted", 1) not in sent(webhook)
    assert ("bid.admitted", 1) in sent(webhook)


@pytest.mark.parametrize("to_all", [True, False])
def test_what_happened_in_other_clusters_before_a_change_is_not_sent(market: Market, alice: User, to_all: bool) -> None:
    hall = make_market(make_cluster("hall"))
    request = WebhookRequest("one", "https://example.org/", market.cluster)
    webhook, other = create(alice, request).webhook, create(alice, WebhookRequest("other", request.url)).webhook
    submit(hall, alice)
    messages.derive()
    mine = submit(market, alice)
    changed = hooks.change(webhook, replace(request, cluster=None if to_all else hall.cluster), is_on=True)
    messages.derive()
    assert sent(changed) == ([("bid.submitted", mine.sequence)] if to_all else [])
    assert len(sent(other)) == 2
    second = submit(hall, alice)
    messages.derive()
    assert sent(changed)[-1] == ("bid.submitted", second.sequence)
    hooks.change(changed, request, is_on=True)
    submit(hall, alice)
    hooks.change(changed, replace(request, name="renamed"), is_on=True)
    messages.derive()
    assert changed.deliveries.filter(market=hall).count() == 1


def test_a_market_opened_later_is_followed_from_its_beginning(alice: User, made: Made) -> None:
    submit(make_market(make_cluster("later")), alice)
    messages.derive()
    assert sent(made.webhook) == [("bid.submitted", 1)]


def test_each_event_becomes_one_message(
    market: Market, alice: User, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "PAGE", 2)
    bids = [submit(market, alice) for _ in range(3)]
    decide(market, *bids)
    set_time(market, 20_000)
    slots.pass_slots(market.pk)
    assert messages.derive() == 2, "as many events as a page has"
    for _ in range(20):
        messages.derive()
    assert len(sent(made.webhook)) == len(set(sent(made.webhook)))
    assert [row for row in sent(made.webhook) if row[1] == 3] == [
        ("bid.submitted", 3),
        ("bid.admitted", 3),
        ("bid.started", 3),
        ("bid.completed", 3),
    ]
    assert WebhookCursor.objects.get().version == Market.objects.get().version


def test_nothing_is_lost_if_the_cursor_is_not_moved(
    market: Market, alice: User, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is killed before the commit leaves neither messages nor a new cursor."""
    submit(market, alice)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Delivery.objects, "bulk_create", killed)
        with pytest.raises(KeyboardInterrupt):
            messages.derive()
    assert not Delivery.objects.exists()
    messages.derive()
    assert sent(made.webhook) == [("bid.submitted", 1)]


def test_another_worker_that_was_faster_is_noticed(
    market: Market, alice: User, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(market, alice)
    events = messages._events

    def slower(*arguments: Any) -> Any:
        found = events(*arguments)
        with monkeypatch.context() as patched:
            patched.setattr(messages, "_events", events)
            messages.derive()
        return found

    monkeypatch.setattr(messages, "_events", slower)
    assert messages.derive() == 0
    assert sent(made.webhook) == [("bid.submitted", 1)]


def test_an_event_that_is_younger_than_the_market_that_was_read_is_sent_once(market: Market, alice: User) -> None:
    """A bid that arrives between two queries of one pass is a message of the next pass."""
    read = Market.objects.get()
    submit(market, alice)
    now = Market.objects.get()
    assert read.version < now.version
    bids = Bid.objects.filter(market=market)
    assert messages._events(read, 0, bids) == ([], read.version)
    found, reached = messages._events(now, read.version, bids)
    assert ([one.type for one in found], reached) == (["bid.submitted"], now.version)


def test_types_and_a_cluster_are_chosen(market: Market, alice: User, made: Made) -> None:
    elsewhere = make_market(make_cluster("other"))
    few = create(alice, WebhookRequest("few", made.webhook.url, market.cluster, types=("bid.admitted",))).webhook
    for one in (market, elsewhere):
        decide(one, submit(one, alice))
    messages.derive()
    assert [one.body for one in few.deliveries.all() if "other" in one.body] == []
    assert sent(few) == [("bid.admitted", 1)]


def test_numbers_of_bids_in_another_market_are_not_those_of_this_one(market: Market, alice: User, made: Made) -> None:
    """Events of slots list bids by their numbers, which each market counts from 1."""
    elsewhere, bob = make_market(make_cluster("other")), make_user("bob")
    decide(elsewhere, *(submit(elsewhere, alice) for _ in range(3)))
    decide(market, submit(market, bob))
    set_time(market, 20_000)
    slots.pass_slots(market.pk)
    decide(market, submit(market, bob), submit(market, alice))
    assert messages.derive() == 8
    assert {what for what, _ in sent(made.webhook)} == {"bid.submitted", "bid.admitted"}
    set_time(elsewhere, 20_000)
    slots.pass_slots(elsewhere.pk)
    assert messages.derive() > 0
    assert not made.webhook.deliveries.filter(type="bid.started", market=market).exists()


def of_both(made: Made) -> Sequence[Webhook]:
    """Alice's webhook for her own bids, and one for those of her team."""
    return made.webhook, create(made.webhook.owner, WebhookRequest("team", made.webhook.url, of_team=True)).webhook


def test_bids_of_the_team_are_sent_if_the_owner_says_so(market: Market, alice: User, made: Made) -> None:
    bob = make_user("bob")
    in_team(alice, bob)
    own, of_team = of_both(made)
    submit(market, bob)
    submit(market, make_user("charlie"))
    messages.derive()
    assert (sent(own), sent(of_team)) == ([], [("bid.submitted", 1)])


def test_who_has_left_the_team_hears_nothing_more(market: Market, alice: User, made: Made) -> None:
    bob = make_user("bob")
    in_team(alice, bob)
    of_team = of_both(made)[1]
    Membership.objects.filter(user=alice).delete()
    submit(market, bob)
    messages.derive()
    assert sent(of_team) == []


def test_bids_of_a_cluster_that_does_not_exist_for_the_owner_are_not_sent(
    market: Market, alice: User, made: Made
) -> None:
    submit(market, alice)
    ClusterTeams.objects.create(cluster=market.cluster, is_restricted=True)
    messages.derive()
    assert sent(made.webhook) == []


def test_a_webhook_that_is_off_goes_on_where_it_stopped(market: Market, alice: User, made: Made) -> None:
    request = WebhookRequest("chat", made.webhook.url)
    hooks.change(made.webhook, request, is_on=False)
    other = create(alice, WebhookRequest("other", made.webhook.url)).webhook
    submit(market, alice)
    messages.derive()
    assert (sent(made.webhook), sent(other)) == ([], [("bid.submitted", 1)])
    hooks.change(made.webhook, request, is_on=True)
    messages.derive()
    assert sent(made.webhook) == [("bid.submitted", 1)]


def test_the_cursor_waits_while_too_many_messages_do(
    market: Market, alice: User, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "MOST_WAITING", 1)
    submit(market, alice)
    messages.derive()
    submit(market, alice)
    messages.derive()
    assert sent(made.webhook) == [("bid.submitted", 1)]
    Delivery.objects.update(status="delivered", next_at=None)
    messages.derive()
    assert sent(made.webhook) == [("bid.submitted", 1), ("bid.submitted", 2)]


def test_an_inactive_user_s_webhook_rests(market: Market, alice: User, made: Made) -> None:
    submit(market, alice)
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert messages.derive() == 0


def test_a_bid_is_seen_by_its_owner_and_in_the_owner_s_team_if_the_webhook_says_so(market: Market) -> None:
    alice, bob, charlie, dora = (make_user(name) for name in ("alice", "bob", "charlie", "dora"))
    team = in_team(alice, bob)
    bids = [submit(market, user) for user in (alice, bob, charlie)]
    assert [bid.team_id for bid in bids] == [team.pk, team.pk, None]
    for user, of_own, of_team in (
        (alice, [True, False, False], [True, True, False]),
        (charlie, [False, False, True], [False, False, True]),
        (dora, [False, False, False], [False, False, False]),
    ):
        for is_of_team, seen in ((False, of_own), (True, of_team)):
            webhook = create(user, WebhookRequest("one", "https://example.org/", of_team=is_of_team)).webhook
            assert [messages.sees(webhook, bid) for bid in bids] == seen


def test_a_webhook_that_is_deleted_while_messages_are_written_gets_none(
    market: Market, alice: User, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = create(alice, WebhookRequest("other", made.webhook.url)).webhook
    submit(market, alice)
    events = messages._events

    def meanwhile(*arguments: Any) -> Any:
        hooks.delete(made.webhook)
        return events(*arguments)

    monkeypatch.setattr(messages, "_events", meanwhile)
    messages.derive()
    assert sent(other) == [("bid.submitted", 1)]
    assert Delivery.objects.count() == WebhookCursor.objects.count() == 1


def test_without_webhooks_one_query_is_asked(market: Market, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(1):
        messages.derive()


def test_of_a_market_without_news_the_cursors_alone_are_read(
    market: Market, alice: User, made: Made, django_assert_num_queries: Any
) -> None:
    submit(market, alice)
    messages.derive()
    with django_assert_num_queries(4):  # webhooks, their waiting messages, markets, and cursors
        messages.derive()
