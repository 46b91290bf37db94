"""Messages are delivered at least once and in order, tried again, given up, and sent again on demand."""

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from threading import Event
from time import sleep
from typing import Any

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from accounts.models import Membership
from auctions.domain.errors import TooManyWebhooks, WrongState
from auctions.models import Delivery, DeliveryStatus, Market, Webhook
from auctions.webhooks import delivering, hooks, messages
from auctions.webhooks.delivering import BACKOFF_S, OFF_AFTER, claim, deliver
from auctions.webhooks.hooks import Made, WebhookRequest, create
from auctions.webhooks.sending import Outcome
from cluster import clock
from tests.accounts.members import in_team
from tests.auctions.webhooks.receiver import Receiver
from tests.auctions.webhooks.test_sending import verified
from tests.auctions.worlds import make_user, submit


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let the wall clock be ahead by as many seconds."""
    ahead = [0.0]

    def now() -> datetime:
        return timezone.now() + timedelta(seconds=ahead[0])

    monkeypatch.setattr(clock, "now", now)

    def wait(seconds: float) -> None:
        ahead[0] += seconds

    return wait


def ids(there: Receiver) -> list[str]:
    return [headers["webhook-id"] for _, headers, _ in there.received]


def test_messages_arrive_signed_and_in_order(market: Market, alice: User, made: Made, there: Receiver) -> None:
    for _ in range(3):
        submit(market, alice)
    assert deliver() == 3
    rows = list(Delivery.objects.order_by("pk"))
    assert ids(there) == [f"msg_{row.message.hex}" for row in rows]
    assert [body.decode() for _, _, body in there.received] == [row.body for row in rows]
    assert all(verified(made.secret, headers, body) for _, headers, body in there.received)
    assert {(row.status, row.attempts, row.answer, row.problem) for row in rows} == {("delivered", 1, 204, "")}
    assert deliver() == 0


def test_a_message_waits_while_its_secret_cannot_be_read(
    market: Market, alice: User, made: Made, there: Receiver, settings: LazySettings, later: Any
) -> None:
    first, settings.SECRET_KEY = settings.SECRET_KEY, "another key"
    submit(market, alice)
    assert deliver() == 1
    assert there.received == []
    assert Delivery.objects.get().problem.startswith("the secret cannot be read")
    settings.SECRET_KEY_FALLBACKS = [first]
    later(BACKOFF_S[0] + 1)
    assert deliver() == 1
    assert all(verified(made.secret, headers, body) for _, headers, body in there.received)
    assert Delivery.objects.get().status == DeliveryStatus.DELIVERED


def test_a_failed_message_is_tried_again_later_and_later_ones_wait(
    market: Market, alice: User, made: Made, there: Receiver, later: Any
) -> None:
    there.status = 500
    for _ in range(2):
        submit(market, alice)
    assert (deliver(), deliver()) == (1, 0)
    first, second = Delivery.objects.order_by("pk")
    assert (first.attempts, first.answer, first.status) == (1, 500, DeliveryStatus.WAITING)
    assert first.problem == "expected a status of 200 to 299, got 500"
    assert second.attempts == 0
    later(BACKOFF_S[0] + 1)
    assert (deliver(), deliver()) == (1, 0)
    there.status = 200
    later(BACKOFF_S[1] + 1)
    assert deliver() == 2
    assert ids(there) == [f"msg_{first.message.hex}"] * 3 + [f"msg_{second.message.hex}"]
    assert Webhook.objects.get().failing_since is None


def test_messages_do_not_wait_for_a_clock_that_was_set_back(
    market: Market, alice: User, made: Made, there: Receiver, later: Any
) -> None:
    there.status = 500
    later(86_400)
    for _ in range(2):
        submit(market, alice)
    assert deliver() == 1
    there.status = 200
    later(-86_400)
    assert deliver() == 2
    assert set(Delivery.objects.values_list("status", flat=True)) == {DeliveryStatus.DELIVERED}


def test_a_webhook_is_not_held_for_a_clock_that_was_set_back(
    market: Market, alice: User, made: Made, there: Receiver, later: Any
) -> None:
    submit(market, alice)
    messages.derive()
    later(86_400)
    assert len(claim(1)) == 1  # by a worker that dies
    later(-86_400)
    assert deliver() == 1


def test_a_message_is_given_up_after_the_last_attempt_and_the_next_one_is_sent(
    market: Market, alice: User, made: Made, there: Receiver, later: Any
) -> None:
    there.status = 400
    submit(market, alice)
    for wait_s in BACKOFF_S:
        assert deliver() == 1
        later(wait_s + 1)
    there.before = lambda _: setattr(there, "status", 400 if len(there.received) == len(BACKOFF_S) + 1 else 200)
    submit(market, alice)
    assert deliver() == 2
    given_up, delivered = Delivery.objects.order_by("pk")
    assert (given_up.status, given_up.attempts) == (DeliveryStatus.GIVEN_UP, len(BACKOFF_S) + 1)
    assert delivered.status == DeliveryStatus.DELIVERED


def test_metrics_count_the_messages_that_wait_and_those_that_were_given_up(
    market: Market, alice: User, made: Made, settings: LazySettings
) -> None:
    def counts() -> dict[str, int]:
        lines = Client().get("/metrics").content.decode().splitlines()
        found = (re.match(r'shadowprice_webhook_messages\{status="(\w+)"\} (\S+)', line) for line in lines)
        return {one[1]: int(float(one[2])) for one in found if one}

    settings.METRICS_ADDRESSES = ["127.0.0.1"]
    assert counts() == {"waiting": 0, "given_up": 0}
    for _ in range(2):
        submit(market, alice)
    messages.derive()
    assert counts() == {"waiting": 2, "given_up": 0}
    Delivery.objects.filter(pk=min(Delivery.objects.values_list("pk", flat=True))).update(
        status=DeliveryStatus.GIVEN_UP, next_at=None
    )
    assert counts() == {"waiting": 1, "given_up": 1}
    Delivery.objects.update(created_at=clock.now() - timedelta(days=4))
    assert counts() == {"waiting": 1, "given_up": 0}


def test_a_webhook_without_success_for_days_is_switched_off_and_keeps_its_messages(
    market: Market, alice: User, made: Made, there: Receiver, later: Any
) -> None:
    there.status = 503
    submit(market, alice)
    deliver()
    later(OFF_AFTER.total_seconds() + 1)
    deliver()
    webhook = Webhook.objects.get()
    assert (webhook.is_on, webhook.off_reason) == (False, "no message was delivered for 3 days")
    webhook = hooks.change(webhook, WebhookRequest("another name", webhook.url), is_on=False)
    assert (webhook.name, webhook.off_reason) == ("another name", "no message was delivered for 3 days")
    later(1e6)
    assert deliver() == 0
    there.status = 200
    hooks.change(webhook, WebhookRequest("chat", webhook.url), is_on=True)
    assert deliver() == 1
    assert Delivery.objects.get().status == DeliveryStatus.DELIVERED


@pytest.mark.parametrize(("failing", "is_on"), [(OFF_AFTER - timedelta.resolution, True), (OFF_AFTER, False)])
def test_a_webhook_is_on_until_the_time_without_success_is_over(
    market: Market, alice: User, made: Made, monkeypatch: pytest.MonkeyPatch, failing: timedelta, is_on: bool
) -> None:
    submit(market, alice)
    messages.derive()
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now)
    Webhook.objects.update(failing_since=now - failing)
    delivering.record(Delivery.objects.get(), Outcome(503, "expected another"))
    assert Webhook.objects.get().is_on is is_on


def test_an_operator_switches_a_webhook_off(market: Market, alice: User, made: Made, there: Receiver) -> None:
    other = create(alice, WebhookRequest("other", there.url)).webhook
    submit(market, alice)
    messages.derive()
    hooks.switch_off(made.webhook, "too many")
    assert (deliver(), deliver()) == (1, 0)
    assert list(hooks.of_user(alice).values_list("pk", "is_on", "off_reason").order_by("pk")) == [
        (made.webhook.pk, False, "too many"),
        (other.pk, True, ""),
    ]
    assert not hooks.of_user(make_user("bob")).exists()


def test_a_message_of_an_inactive_user_waits(market: Market, alice: User, made: Made, there: Receiver) -> None:
    submit(market, alice)
    messages.derive()
    User.objects.update(is_active=False)
    assert claim(8) == []
    User.objects.update(is_active=True)
    assert deliver() == 1


def test_a_change_of_a_failing_webhook_that_is_on_sends_nothing_sooner(
    market: Market, alice: User, made: Made, there: Receiver
) -> None:
    there.status = 500
    submit(market, alice)
    deliver()
    before, failing_since = Delivery.objects.get(), Webhook.objects.get().failing_since
    hooks.change(made.webhook, WebhookRequest("another name", there.url), is_on=True)
    now, webhook = Delivery.objects.get(), Webhook.objects.get()
    assert (now.attempts, now.next_at) == (1, before.next_at)
    assert (webhook.name, webhook.failing_since) == ("another name", failing_since)
    assert failing_since is not None
    there.status = 200
    for is_on in (False, True):
        hooks.change(made.webhook, WebhookRequest("chat", there.url), is_on=is_on)
    assert deliver() == 1, "one that is switched on again is tried at once, with all its attempts"
    assert Delivery.objects.get().attempts == 1
    for is_on in (False, True):
        hooks.change(made.webhook, WebhookRequest("chat", there.url), is_on=is_on)
    assert deliver() == 0, "what was delivered stays so"


def test_a_failing_webhook_with_another_address_sends_at_once_with_all_attempts(
    market: Market, alice: User, made: Made, there: Receiver
) -> None:
    there.status = 500
    submit(market, alice)
    deliver()
    there.status = 200
    hooks.change(made.webhook, WebhookRequest("chat", f"{there.url}/other"), is_on=True)
    assert Webhook.objects.get().failing_since is None, "the other receiver has not failed yet"
    assert deliver() == 1
    found = Delivery.objects.get()
    assert (found.status, found.attempts) == (DeliveryStatus.DELIVERED, 1)


@pytest.mark.parametrize("answer", [503, 410])
def test_an_answer_of_a_former_address_says_nothing_of_the_present_one(
    market: Market, alice: User, made: Made, there: Receiver, answer: int
) -> None:
    submit(market, alice)
    messages.derive()
    Delivery.objects.update(attempts=len(BACKOFF_S))
    [sent] = claim(8)
    hooks.change(made.webhook, WebhookRequest("chat", f"{there.url}/other"), is_on=True)
    delivering.record(sent, Outcome(answer, "a failure"))
    webhook = Webhook.objects.get()
    assert (webhook.is_on, webhook.failing_since, webhook.busy_until) == (True, None, None)
    assert deliver() == 1
    assert (Delivery.objects.get().status, Delivery.objects.get().attempts) == (DeliveryStatus.DELIVERED, 1)


def test_a_receiver_that_is_gone_gets_nothing_more(market: Market, alice: User, made: Made, there: Receiver) -> None:
    there.status = 410
    submit(market, alice)
    deliver()
    assert not Webhook.objects.get().is_on


def test_a_message_of_a_worker_that_died_is_sent_again(
    market: Market, alice: User, made: Made, there: Receiver, later: Any
) -> None:
    submit(market, alice)
    messages.derive()
    [held] = claim(8)  # this worker dies
    assert (claim(8), deliver()) == ([], 0)
    later(delivering.HELD.total_seconds() + 1)
    assert deliver() == 1
    assert ids(there) == [f"msg_{held.message.hex}"]


def test_a_worker_sends_one_message_of_a_webhook_at_a_time(market: Market, alice: User, made: Made) -> None:
    other = create(alice, WebhookRequest("other", made.webhook.url)).webhook
    for _ in range(2):
        submit(market, alice)
    messages.derive()
    assert {one.webhook_id for one in claim(8)} == {made.webhook.pk, other.pk}
    assert claim(8) == []


def test_a_message_that_was_sent_before_its_webhook_was_held_is_not_sent_again(
    market: Market, alice: User, made: Made, there: Receiver
) -> None:
    """Two workers read it as waiting; the other one has sent it and let go of the webhook."""
    submit(market, alice)
    assert deliver() == 1
    other = create(alice, WebhookRequest("other", there.url)).webhook
    Webhook.objects.filter(pk=other.pk).update(busy_until=clock.now() + delivering.HELD)
    assert delivering._held(Delivery.objects.get().pk, made.webhook.pk, clock.now()) is None
    assert [one.busy_until is None for one in Webhook.objects.order_by("pk")] == [True, False]
    assert Delivery.objects.get().status == DeliveryStatus.DELIVERED


def test_what_another_worker_or_the_owner_did_before_a_webhook_was_held_counts(
    market: Market, alice: User, made: Made, there: Receiver
) -> None:
    """A worker read the message as due; then another one tried it in vain, or the owner switched the webhook off."""
    submit(market, alice)
    there.status = 500
    assert deliver() == 1
    now, key = clock.now(), Delivery.objects.get().pk
    assert delivering._held(key, made.webhook.pk, now) is None  # its next attempt is later
    held = delivering._held(key, made.webhook.pk, now + timedelta(seconds=delivering.BACKOFF_S[0]))
    assert held is not None
    Webhook.objects.update(busy_until=None, is_on=False)
    assert delivering._held(key, made.webhook.pk, now + timedelta(seconds=delivering.BACKOFF_S[0])) is None
    assert Webhook.objects.get().busy_until is None


def test_a_message_about_a_bid_that_was_deleted_is_sent(
    market: Market, alice: User, made: Made, there: Receiver
) -> None:
    submit(market, alice)
    messages.derive()
    Delivery.objects.update(bid=None)
    assert deliver() == 1
    assert b'"bid.submitted"' in there.received[0][2]


def test_a_slow_receiver_keeps_no_other_waiting(
    market: Market, alice: User, made: Made, there: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slow one answers only once both messages of the other have arrived."""
    slow = create(alice, WebhookRequest("slow", there.url.replace("/hook", "/slow"))).webhook
    arrived: list[str] = []

    def before(handler: Any) -> None:
        while handler.path == "/slow" and len(arrived) < 2:
            sleep(0.005)
        arrived.append(handler.path)

    there.before = before
    monkeypatch.setattr(delivering, "AT_ONCE", 2)
    asked: list[int] = []

    def claimed(most: int) -> list[Delivery]:
        asked.append(most)
        return claim(most)

    monkeypatch.setattr(delivering, "claim", claimed)
    for _ in range(2):
        submit(market, alice)
    assert deliver() == 4
    assert (max(asked), 1 in asked) == (2, True), "two messages at once, the slow one counts"
    assert arrived[:2] == ["/hook", "/hook"]
    assert slow.deliveries.filter(status=DeliveryStatus.DELIVERED).count() == 2


def test_new_messages_are_looked_for_while_a_receiver_is_waited_for(
    market: Market, alice: User, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn lasts for up to half a minute if receivers are slow; what happens meanwhile is sent to others."""
    looks, again, derive = [], Event(), messages.derive

    def look() -> int:
        looks.append(1)
        if len(looks) > 1:
            again.set()
        return derive()

    monkeypatch.setattr(messages, "derive", look)
    monkeypatch.setattr(delivering, "LOOK_S", 0.01)
    monkeypatch.setattr(delivering, "send", lambda *_: Outcome(200 if again.wait(10) else None))
    submit(market, alice)
    assert deliver() == 1
    assert Delivery.objects.get().status == DeliveryStatus.DELIVERED


def test_owners_take_turns_however_many_webhooks_and_messages_one_has(
    market: Market, alice: User, made: Made, there: Receiver
) -> None:
    bob = make_user("bob")
    for number in range(3):
        create(alice, WebhookRequest(f"more-{number}", there.url))
    create(bob, WebhookRequest("only", there.url))
    for user in (alice, alice, bob):
        submit(market, user)
    messages.derive()

    def owners(count: int) -> list[str]:
        return [one.webhook.owner.username for one in claim(count)]

    assert owners(2) == ["alice", "bob"], "the message that is due for the longest time, and then another owner's"
    delivering.record(Delivery.objects.get(webhook__owner=bob), Outcome(200))
    submit(market, bob)
    messages.derive()
    assert owners(1) == ["bob"], "one of Alice's is being sent"
    assert owners(8) == ["alice"] * 3
    assert owners(0) == []


def test_a_mistake_of_the_service_is_a_failed_attempt(
    market: Market, alice: User, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(delivering, "send", fails)
    submit(market, alice)
    assert deliver() == 1
    assert Delivery.objects.get().problem == "the service failed to send it"


def test_a_message_is_sent_again_on_demand_with_the_same_id(
    market: Market, alice: User, made: Made, there: Receiver
) -> None:
    for _ in range(2):
        submit(market, alice)
    deliver()
    newest, oldest = hooks.deliveries(made.webhook)
    again = hooks.redeliver(oldest)
    assert (again.status, again.attempts, newest.pk > oldest.pk) == (DeliveryStatus.WAITING, 0, True)
    with pytest.raises(WrongState, match="waits to be sent"):
        hooks.redeliver(oldest)
    assert deliver() == 1
    assert ids(there) == [f"msg_{one.message.hex}" for one in (oldest, newest, oldest)]
    assert Delivery.objects.get(pk=oldest.pk).attempts == 1


def test_a_message_about_a_bid_that_the_owner_may_not_read_any_more_is_not_sent(
    market: Market, alice: User, made: Made, there: Receiver
) -> None:
    bob = make_user("bob")
    in_team(alice, bob)
    create(alice, WebhookRequest("team", there.url, of_team=True))
    submit(market, bob)
    messages.derive()
    Membership.objects.filter(user=alice).delete()
    assert deliver() == 0
    assert Delivery.objects.get().problem == "its owner may not read this bid any more"
    assert not there.received


def test_a_test_message_is_sent(made: Made, there: Receiver) -> None:
    messages.add_test(made.webhook)
    assert deliver() == 1
    assert b'"type":"webhook.test"' in there.received[0][2]


def test_one_test_message_of_a_webhook_waits_at_a_time(
    market: Market, alice: User, made: Made, there: Receiver
) -> None:
    submit(market, alice)
    messages.derive()
    messages.add_test(create(alice, WebhookRequest("other", there.url)).webhook)
    messages.add_test(made.webhook)
    with pytest.raises(WrongState, match="test message waits"):
        messages.add_test(made.webhook)
    assert Delivery.objects.count() == 3
    deliver()
    messages.add_test(made.webhook)


def test_a_webhook_that_is_deleted_while_it_is_sent_for_leaves_nothing(
    market: Market, alice: User, made: Made, there: Receiver
) -> None:
    submit(market, alice)
    messages.derive()
    [held] = claim(1)
    hooks.delete(made.webhook)
    delivering.record(held, Outcome(200))
    assert not Delivery.objects.exists()


def test_old_messages_are_forgotten_unless_they_wait(market: Market, alice: User, made: Made, later: Any) -> None:
    submit(market, alice)
    deliver()
    messages.add_test(made.webhook)
    assert hooks.forget(30) == 0
    later(31 * 86_400)
    assert hooks.forget(30) == 1
    assert Delivery.objects.get().type == messages.TEST


def test_a_user_has_a_limited_number_of_webhooks(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "MOST_WEBHOOKS", 1)
    create(make_user("bob"), WebhookRequest("one", "https://example.org/"))
    create(alice, WebhookRequest("one", "https://example.org/"))
    with pytest.raises(TooManyWebhooks):
        create(alice, WebhookRequest("two", "https://example.org/"))


def test_a_worker_that_is_to_stop_begins_nothing(market: Market, alice: User, made: Made, there: Receiver) -> None:
    submit(market, alice)
    assert deliver(lambda: True) == 0
    assert not there.received
    assert deliver() == 1


def test_one_thread_of_a_process_sends_at_a_time(market: Market, alice: User, made: Made) -> None:
    """The other one returns at once, and asks no query."""
    submit(market, alice)
    with ThreadPoolExecutor(1) as pool, delivering._turn:
        assert pool.submit(deliver).result(timeout=10) == 0
    assert deliver() == 1
