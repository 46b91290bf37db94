"""Standing bids: rejected bids that are tried again when slots begin."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from auctions.counterfactual.alternatives import alternatives_of
from auctions.counterfactual.comparison import compare
from auctions.counterfactual.record import Record
from auctions.domain.errors import WrongState
from auctions.domain.policy_errors import policy_errors
from auctions.domain.standing_rule import RULE
from auctions.engine import decide, decision_queue, standing
from auctions.engine.decide import decide_again
from auctions.engine.jobs import cancel_job, retry_bid, withdraw_bid
from auctions.engine.markets import open_market
from auctions.engine.policies import change_policy
from auctions.engine.slots import pass_slots
from auctions.engine.submission import submit_bid
from auctions.history.audit import CHECKS, audit_market
from auctions.history.audit_pass import EventPass
from auctions.history.audit_rows import receipts_match_rows
from auctions.history.replay import replay_market
from auctions.models import (
    Bid,
    BidState,
    Certificate,
    DecisionRecord,
    Event,
    EventKind,
    FirstDecision,
    Market,
    PolicyError,
)
from auctions.readings import certificates, market_readings, publications
from auctions.state import book
from cluster.documents import export_cluster, import_cluster
from cluster.guards import checked_change
from cluster.models import Cluster
from scheduling.book.ledger import Ledger
from scheduling.book.running import RunningBook
from scheduling.model.bid import Bid as CoreBid
from scheduling.model.decision import Decision, Reason, parse
from scheduling.model.errors import InvalidField
from scheduling.policies.simulation import Simulation
from scheduling.registry import make_policy
from tests.auctions.counterfactual.assertions import (
    assert_every_bid_is_accounted_for,
    assert_replayed_as_recorded,
    assert_stands_on_rows_as_on_events,
    assert_the_same_policy_changes_nothing,
)
from tests.auctions.faulty import UNLUCKY, register
from tests.auctions.worlds import PRICED, SLOT_S, make_cluster, make_market, make_operator, make_user, set_time, submit
from tests.draws import fresh_seed, some

pytestmark = pytest.mark.thorough

PRICES: dict[str, Any] = {"price": "paper", "eta_worker": [3.0], "eta_ps": [2.0]}
"""An idle unit costs nothing, and a full one 2 or 1."""
HORIZON = 16
ADMITTED = (BidState.PLANNED, BidState.RUNNING)


@pytest.fixture
def market(db: None) -> Market:
    """One edge server of four units, and a cloud of eight."""
    return make_market(make_cluster(servers=1, units=4, horizon=HORIZON), **PRICES)


@pytest.fixture
def bob(db: None) -> User:
    return make_user("bob")


def decided(market: Market, owner: User, value: float, **changes: Any) -> Bid:
    bid = submit(market, owner, value, **changes)
    decision_queue.process_pending(market.pk)
    bid.refresh_from_db()
    return bid


def pass_to(market: Market, slot: int) -> None:
    """Let slots begin, one after the other."""
    for each in range(market.slot + 1, slot + 1):
        set_time(market, each * SLOT_S)
        pass_slots(market.pk)
        certificates.renew(market.pk)
        market.refresh_from_db()


def assert_sound(market: Market) -> None:
    market.refresh_from_db()
    assert replay_market(market).mismatches == ()
    assert {finding.check: finding.rows for finding in audit_market(market) if not finding.passed} == {}


def filled(market: Market, owner: User) -> list[Bid]:
    """Bids that take all machines of the horizon."""
    taken = []
    for epochs in (8, 2, 1):
        while (bid := decided(market, owner, 1e5, epochs=epochs, standing=False)).state in ADMITTED:
            taken.append(bid)
    return taken


def freed(bids: list[Bid]) -> None:
    for bid in bids:
        bid.refresh_from_db()
        if bid.state in ADMITTED:
            cancel_job(bid)


def stands(market: Market, owner: User, value: float = 50.0, **changes: Any) -> Bid:
    """A bid that stands, with a deadline before the slots that come on sale later."""
    utility = {"form": "step", "value": value, "deadline_s": (HORIZON - 4 - market.slot) * SLOT_S}
    bid = decided(market, owner, value, **{"utility": utility, "standing": True, **changes})
    assert bid.state == BidState.STANDING
    return bid


def receipt(bid: Bid) -> Decision:
    return Decision.from_json(parse(DecisionRecord.objects.get(bid=bid).receipt))


def test_a_bid_rejected_for_lack_of_room_stands_and_is_admitted_at_its_next_turn_once_there_is_room(
    market: Market, alice: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decide, "perf_counter", count(0.0, 0.25).__next__)
    taken = filled(market, alice)
    bid = stands(market, bob)
    assert (bid.stands_until, bid.tried_slot) == (HORIZON - 5, 0), "complete in the next slot, it would be too late"
    assert not DecisionRecord.objects.filter(bid=bid).exists()
    first = FirstDecision.objects.get(bid=bid)
    assert Decision.from_json(parse(first.receipt)).reason == Reason.NO_ROOM
    assert receipts_match_rows(market) == []
    for changed in ({"slot": 1}, {"standalone_value": 1e9}, {"receipt": first.receipt.replace('"1', '"2', 1)}):
        FirstDecision.objects.filter(bid=bid).update(**changed)
        assert len(receipts_match_rows(market)) == 1
        FirstDecision.objects.filter(bid=bid).update(**{name: getattr(first, name) for name in changed})
    pass_to(market, 5)
    bid.refresh_from_db()
    assert (bid.state, bid.tries, bid.tried_slot) == (BidState.STANDING, 1, 4)
    freed(taken)
    pass_to(market, 7)
    bid.refresh_from_db()
    assert bid.state == BidState.STANDING, "it is tried when its turn comes"
    pass_to(market, 8)
    bid.refresh_from_db()
    assert bid.state in ADMITTED
    assert (bid.tries, bid.tried_slot) == (2, 8)
    record, event = bid.decision, Event.objects.get(bid=bid, kind=EventKind.ADMITTED)
    assert (record.version, record.slot, record.stood_from) == (event.version, 8, 0)
    assert record.latency_ms == 250.0
    assert (bid.start_slot or 0) >= 8
    assert (bid.value, bid.payment) == (50.0, 0.0), "an idle cluster costs nothing at these prices"
    assert_sound(market)


def test_a_completion_is_worth_what_it_is_from_the_arrival_on(market: Market, alice: User, bob: User) -> None:
    taken = filled(market, alice)
    utility = {"form": "linear", "value": 60.0, "zero_at_s": 12 * SLOT_S}
    bid = stands(market, bob, utility=utility)
    freed(taken)
    pass_to(market, 4)
    bid.refresh_from_db()
    assert bid.completion_slot is not None
    assert bid.value == pytest.approx(60.0 * (1 - bid.completion_slot / 12))


@pytest.mark.parametrize(
    ("changes", "until", "reason"),
    [
        ({}, HORIZON - 5, Reason.WORTHLESS),
        ({"standing_until_s": 6.5 * SLOT_S}, 6, Reason.EXPIRED),
        ({"utility": {"form": "step", "value": 50.0, "deadline_s": 5 * SLOT_S}}, 4, Reason.WORTHLESS),
    ],
)
def test_a_standing_bid_ends_in_the_slot_after_its_last_one_with_a_reason_and_no_event_of_its_own(
    market: Market, alice: User, bob: User, changes: Any, until: int, reason: Reason
) -> None:
    filled(market, alice)
    bid = stands(market, bob, **changes)
    assert bid.stands_until == until
    pass_to(market, until)
    bid.refresh_from_db()
    assert bid.state == BidState.STANDING
    pass_to(market, until + 1)
    bid.refresh_from_db()
    assert (bid.state, receipt(bid).reason, bid.tries) == (BidState.REJECTED, reason, until // 4)
    event = Event.objects.latest("version")
    assert (event.kind, event.payload["standing"]["ended"]) == (EventKind.SLOT, [bid.sequence])
    assert bid.decision.version == event.version
    assert "It stood from slot 0" in receipt(bid).explanation
    assert_sound(market)


def test_an_owner_withdraws_a_standing_bid_and_it_is_not_tried_again(market: Market, alice: User, bob: User) -> None:
    taken = filled(market, alice)
    bid = stands(market, bob)
    withdraw_bid(bid)
    freed(taken)
    pass_to(market, 4)
    bid.refresh_from_db()
    assert (bid.state, bid.tries) == (BidState.WITHDRAWN, 0)
    with pytest.raises(WrongState, match="withdrawn"):
        withdraw_bid(bid)
    assert_sound(market)


def test_the_event_of_the_next_slot_names_a_withdrawn_standing_bid_and_who_may_see_it_reads_it_at_once(
    market: Market, alice: User, bob: User
) -> None:
    filled(market, alice)
    bid, olga = stands(market, bob), make_operator()
    market.refresh_from_db()
    before = publications.summary(market, olga)
    withdraw_bid(bid)
    after = publications.summary(market, olga)
    assert after.version == before.version
    assert [(seen.standing, seen.withdrawn) for seen in (before, after)] == [(1, 0), (0, 1)]
    assert [publications.unrecorded_withdrawals(market, who) for who in (alice, bob, olga)] == [0, 1, 1]
    assert_sound(market)
    pass_to(market, 1)
    assert Event.objects.get(payload__has_key="withdrawn").payload["withdrawn"] == [bid.sequence]
    assert publications.unrecorded_withdrawals(market, olga) == 0
    assert_sound(market)
    event = Event.objects.get(payload__has_key="withdrawn")
    del event.payload["withdrawn"]
    event.save()
    broken = {found.check for found in audit_market(market) if not found.passed}
    assert broken == {"every bid is accounted for", "states are what events made them"}


def test_bids_have_their_turns_by_last_try_and_arrival_and_no_more_than_the_rule_says_at_once(
    market: Market, alice: User, bob: User
) -> None:
    filled(market, alice)
    most = RULE.each
    values = np.random.default_rng(5).permutation(most + 3) + 20.0
    bids = [stands(market, bob, float(value)) for value in values]
    pass_to(market, 8)
    for bid in bids:
        bid.refresh_from_db()
    assert [bid.tries for bid in bids] == [2] * (most - 3) + [1] * 6
    turns = [event.payload["standing"]["tried"] for event in Event.objects.filter(payload__has_key="standing")][::1]
    numbers = [bid.sequence for bid in bids]
    assert turns == [numbers[:most], [*numbers[most:], *numbers[: most - 3]]]
    assert_sound(market)


def test_many_bids_of_one_owner_neither_delay_those_of_another_nor_are_counted_in_their_tries(
    market: Market, alice: User, bob: User
) -> None:
    filled(market, alice)
    flood = [stands(market, bob, 1.0) for _ in range(3 * RULE.each)]
    late = stands(market, alice)
    pass_to(market, 4)
    late.refresh_from_db()
    assert (late.tries, late.tried_slot) == (1, 4)
    for bid in flood:
        bid.refresh_from_db()
    assert sum(bid.tries for bid in flood) == RULE.each
    assert_sound(market)


def test_the_longer_a_bid_stands_the_less_often_it_is_tried(
    market: Market, alice: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Live, replayed and audited by the rule that each turn recorded, whatever the rule is by now."""
    with monkeypatch.context() as changed:
        changed.setattr(standing, "rule_for", lambda _policy: replace(RULE, every=1, per_age=3))
        filled(market, alice)
        stands(market, bob)
        pass_to(market, 12)
    bid = Bid.objects.get(owner=bob)
    found = Event.objects.filter(payload__standing__has_key="tried").order_by("version")
    slots = [event.payload["now"] for event in found if bid.sequence in event.payload["standing"]["tried"]]
    assert slots == [1, 2, 3, 5, 8], "and the next turn, in slot 12, would be too late"
    assert (bid.tries, bid.tried_slot) == (5, 8)
    assert_sound(market)
    event = found.get(payload__now=8)
    event.payload["standing"]["rule"]["per_age"] = 2
    event.save()
    assert list(CHECKS["standing bids had their turns"](EventPass(market)))


def test_an_event_states_the_rule_of_turns_only_if_it_is_not_the_one_stated_last(
    market: Market, alice: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(market, alice)
    for _ in range(3):
        stands(market, bob)
    with monkeypatch.context() as other_process:
        other_process.setattr(book, "_books", {})
        other_process.setattr(decision_queue, "rule_for", lambda _policy: replace(RULE, every=2))
        stands(market, bob)
        stands(market, bob)
    book.forget()  # nothing that a process remembers changes an event
    stands(market, bob)
    stands(market, bob)
    with monkeypatch.context() as other_process:
        other_process.setattr(standing, "rule_for", lambda _policy: replace(RULE, every=1))
        pass_to(market, 2)
    stands(market, bob)
    events = Event.objects.filter(kind=EventKind.STANDING).order_by("version")
    stated = [(event.payload.get("rule") or {}).get("every") for event in events]
    assert stated == [RULE.every, None, None, 2, None, RULE.every, None, RULE.every]
    assert Event.objects.get(payload__now=2).payload["standing"]["rule"]["every"] == 1
    assert_sound(market)


def test_a_turn_of_many_standing_bids_takes_two_queries_more_than_a_slot_without_a_turn(
    market: Market, alice: User, bob: User
) -> None:
    filled(market, alice)
    for _ in range(30):
        stands(market, bob)
    pass_to(market, 2)
    counts = []
    for slot in (3, 4):
        set_time(market, slot * SLOT_S)
        with CaptureQueriesContext(connection) as asked:
            pass_slots(market.pk)
        counts.append(len(asked))
    assert Bid.objects.filter(tries=1).count() == RULE.each
    assert counts[1] <= counts[0] + 2, "the bids whose turn it is, and their tries"


def test_prices_learn_from_a_standing_bid_once(alice: User, bob: User) -> None:
    market = make_market(make_cluster(servers=1, units=4, horizon=HORIZON))
    taken = filled(market, alice)
    stands(market, bob)
    freed(taken)
    pass_to(market, 4)
    assert Bid.objects.get(owner=bob).state in ADMITTED
    kept = book.private_copy(market, now=4)
    book.forget()
    rebuilt = book.rebuild(market, now=4)
    assert rebuilt.running.decided == kept.running.decided == Bid.objects.count()
    assert list(rebuilt.running.history) == list(kept.running.history)
    assert list(rebuilt.running.offers) == list(kept.running.offers)
    assert_sound(market)


def test_a_book_of_another_process_catches_up_with_standing_bids(market: Market, alice: User, bob: User) -> None:
    taken = filled(market, alice)
    market.refresh_from_db()
    earlier = book.rebuild(market, now=0)
    stands(market, bob)
    market.refresh_from_db()
    assert book._catch_up(earlier, market)
    freed(taken)
    pass_to(market, 3)
    stale = book.rebuild(market, now=4)
    pass_to(market, 4)
    assert Bid.objects.get(owner=bob).state in ADMITTED
    assert book._catch_up(stale, market)
    fresh = book.rebuild(market, now=4)
    assert np.array_equal(stale.ledger.held, fresh.ledger.held)
    assert list(stale.running.history) == list(fresh.running.history)
    assert stale.running.decided == fresh.running.decided


def test_turns_go_on_after_a_process_has_died(market: Market, alice: User, bob: User) -> None:
    taken = filled(market, alice)
    bids = [stands(market, bob, value) for value in (50.0, 40.0)]
    pass_to(market, 5)
    book.forget()  # all that a process knows
    freed(taken)
    pass_to(market, 8)
    for bid in bids:
        bid.refresh_from_db()
        assert (bid.tries, bid.decision.slot) == (2, 8)
    assert_sound(market)


def test_a_worker_that_dies_in_a_turn_leaves_nothing_of_it_and_the_turn_is_repeated_once(
    market: Market, alice: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = filled(market, alice)
    bids = [stands(market, bob, value) for value in (50.0, 40.0)]
    freed(taken)
    pass_to(market, 3)
    version = Market.objects.get().version

    def killed(*_args: object, **_more: object) -> None:
        raise SystemExit

    set_time(market, 4 * SLOT_S)
    with monkeypatch.context() as patched:
        patched.setattr(publications, "publish", killed)  # the last step of the transaction
        with pytest.raises(SystemExit):
            pass_slots(market.pk)
    assert Market.objects.get().version == version
    assert set(Bid.objects.filter(owner=bob).values_list("state", "tries")) == {(BidState.STANDING, 0)}
    pass_to(market, 4)
    for bid in bids:
        bid.refresh_from_db()
        assert (bid.state in ADMITTED, bid.tries) == (True, 1)
    assert_sound(market)


def test_after_a_stop_standing_bids_have_one_turn_for_all_slots_that_passed(
    market: Market, alice: User, bob: User
) -> None:
    taken = filled(market, alice)
    bid = stands(market, bob)
    freed(taken)
    set_time(market, 7 * SLOT_S)
    pass_slots(market.pk)
    bid.refresh_from_db()
    assert (bid.tries, bid.decision.slot) == (1, 7)
    assert_sound(market)


def test_a_bid_on_which_the_policy_fails_is_quarantined_and_stands_again_when_it_is_put_back(
    market: Market, alice: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = filled(market, alice)
    bad, good = (stands(market, bob, value) for value in (50.0, 40.0))
    freed(taken)
    pass_to(market, 3)
    ask = decide_again

    def fails(where: Any, one: Any, first: Any, *, owner: int, left: int | None) -> Any:
        if one.number == bad.sequence:
            with policy_errors():
                raise ZeroDivisionError("no")
        return ask(where, one, first, owner=owner, left=left)

    monkeypatch.setattr(standing, "decide_again", fails)
    pass_to(market, 4)
    monkeypatch.undo()
    bad.refresh_from_db()
    good.refresh_from_db()
    assert (bad.state, bad.tries) == (BidState.QUARANTINED, 1)
    assert good.state in ADMITTED
    assert PolicyError.objects.get().bid == bad
    assert_sound(market)
    bad.stands_until = None  # as in a row that was read before it stood
    retry_bid(bad)
    bad.refresh_from_db()
    assert bad.state == BidState.STANDING
    pass_to(market, 8)
    bad.refresh_from_db()
    assert bad.state in ADMITTED
    assert_sound(market)


def test_bids_stand_no_longer_when_a_policy_without_prices_decides(market: Market, alice: User, bob: User) -> None:
    filled(market, alice)
    bid = stands(market, bob)
    change_policy(market, name="weighted_completion", parameters={}, by=None)
    pass_to(market, 1)
    bid.refresh_from_db()
    assert (bid.state, receipt(bid).reason) == (BidState.REJECTED, Reason.REFUSED)
    assert_sound(market)


def test_a_standing_bid_is_tried_on_servers_that_came_later(market: Market, alice: User, bob: User) -> None:
    filled(market, alice)
    bid = stands(market, bob)
    document = export_cluster(market.cluster)
    document["servers"].insert(0, {**document["servers"][0], "name": "edge-9"})
    import_cluster(document)
    pass_to(market, 4)
    bid.refresh_from_db()
    assert bid.state in ADMITTED
    assert set(bid.commitments.values_list("server__name", flat=True)) == {"edge-9"}
    assert_sound(market)


def test_only_bids_that_say_so_stand_unless_the_cluster_says_so_for_them(
    market: Market, alice: User, bob: User
) -> None:
    filled(market, alice)
    assert decided(market, bob, 50.0).state == BidState.REJECTED
    with checked_change(Cluster.objects.get()):
        Cluster.objects.update(standing_by_default=True)
    market = Market.objects.select_related("cluster").get()
    assert decided(market, bob, 50.0).state == BidState.STANDING
    assert decided(market, bob, 50.0, standing=False).state == BidState.REJECTED


def test_a_bid_that_no_cluster_could_run_does_not_stand(market: Market, alice: User, bob: User) -> None:
    filled(market, alice)
    assert decided(market, bob, 50.0, epochs=1000, standing=True).state == BidState.REJECTED


def test_a_bid_that_is_to_be_tried_no_longer_than_until_its_first_turn_is_refused_with_the_least_time(
    market: Market, alice: User, bob: User
) -> None:
    filled(market, alice)
    with pytest.raises(InvalidField, match=r"expected .*400.*, got 390") as caught:
        decided(market, bob, 50.0, standing=True, standing_until_s=3.9 * SLOT_S)
    assert caught.value.field == "standing_until_s"
    assert decided(market, bob, 50.0, standing=True, standing_until_s=4 * SLOT_S).state == BidState.STANDING


def test_where_bids_compete_one_may_be_tried_in_the_slot_after_its_arrival_and_no_sooner(
    market: Market, alice: User, bob: User
) -> None:
    taken = filled(market, alice)
    change_policy(market, name="competition", parameters={}, by=None)
    with pytest.raises(InvalidField, match=r"expected .*100.*, got 90") as caught:
        decided(market, bob, 50.0, standing=True, standing_until_s=0.9 * SLOT_S)
    assert caught.value.field == "standing_until_s"
    bid = decided(market, bob, 50.0, standing=True, standing_until_s=SLOT_S)
    assert (bid.state, bid.stands_until) == (BidState.STANDING, 1)
    freed(taken)
    pass_to(market, 1)
    bid.refresh_from_db()
    assert bid.state in ADMITTED


@pytest.mark.parametrize("policy", ["weighted_completion", "fifo", "preemptive"])
def test_where_no_prices_are_posted_a_bid_that_wants_to_stand_is_refused(db: None, bob: User, policy: str) -> None:
    market = open_market(make_cluster(), policy=policy)
    with checked_change(Cluster.objects.get()):
        Cluster.objects.update(standing_by_default=True)
    body = {"model": "ResNet-50", "epochs": 1, "weight": 3}
    with pytest.raises(InvalidField, match="posts no prices") as caught:
        standing_body(market, bob, {**body, "standing": True})
    assert caught.value.field == "standing"
    with pytest.raises(InvalidField) as caught:
        standing_body(market, bob, {**body, "standing_until_s": 5})
    assert caught.value.field == "standing_until_s"
    assert "standing" not in standing_body(market, bob, body).resolved_request
    assert standing_body(market, bob, {**body, "standing": False}).resolved_request["standing"] is False


def standing_body(market: Market, owner: User, body: Any) -> Bid:
    market = Market.objects.select_related("cluster").get(pk=market.pk)
    return submit_bid(cluster=market.cluster, owner=owner, body=body).bid


def test_a_certificate_covers_a_standing_bid_when_it_has_ended_from_its_first_decision_on(
    market: Market, alice: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(market, alice)
    bid = stands(market, bob)
    pass_to(market, 1)
    before = Certificate.objects.get()
    assert before.decided == Bid.objects.count() - 1
    pass_to(market, HORIZON - 4)
    row = Certificate.objects.get()
    assert (row.decided, row.loose) == (Bid.objects.count(), 0)
    # Its deadline has passed when it ends: what it is worth was worth something when it came.
    assert bid.first_decision.standalone_value == 50.0
    assert row.zero_price == pytest.approx(before.zero_price + 50.0)
    monkeypatch.setattr(certificates, "LONGEST_WINDOW", 1)
    Certificate.objects.all().delete()
    again = certificates.renew(market.pk)
    assert again is not None
    assert again.loose == 1, "its window is longer than a horizon"
    assert again.posted_price >= row.posted_price


@pytest.mark.parametrize(
    ("change", "check"),
    [
        (lambda bid: {"tries": bid.tries + 1}, "standing bids had their turns"),
        (lambda bid: {"tried_slot": 3}, "standing bids had their turns"),
        (lambda bid: {"stands_until": 9}, "standing bids had their turns"),
    ],
)
def test_the_audit_finds_rows_of_standing_bids_that_were_changed(
    market: Market, alice: User, bob: User, change: Any, check: str
) -> None:
    filled(market, alice)
    bid = stands(market, bob)
    pass_to(market, 4)
    bid.refresh_from_db()
    assert list(CHECKS[check](EventPass(market))) == []
    Bid.objects.filter(pk=bid.pk).update(**change(bid))
    assert list(CHECKS[check](EventPass(market)))


@pytest.mark.parametrize(
    ("payload", "words"),
    [({"tried": []}, "tries bids"), ({"ended": [1]}, "tries bids")],
)
def test_the_audit_finds_a_turn_that_was_recorded_otherwise(
    market: Market, alice: User, bob: User, payload: Any, words: str
) -> None:
    filled(market, alice)
    stands(market, bob)
    pass_to(market, 4)
    event = Event.objects.get(payload__has_key="standing")
    event.payload["standing"] |= payload
    event.save()
    assert any(words in row for row in CHECKS["replay gives every receipt byte for byte"](EventPass(market)))


def test_under_another_policy_a_bid_stands_and_is_tried_at_its_prices(market: Market, alice: User, bob: User) -> None:
    taken = filled(market, alice)
    bid, gone = stands(market, bob), stands(market, bob, 40.0)
    pass_to(market, 2)
    withdraw_bid(gone)
    freed(taken)
    pass_to(market, 9)
    bid.refresh_from_db()
    assert bid.state in (*ADMITTED, BidState.COMPLETED)
    found = compare(Record.of(market), make_policy("dps", {**PRICES, "eta_worker": [4.0]}), since=bid.sequence)
    row, withdrawn = found.rows
    assert (row.other.admitted, row.other.start, row.other.state) == (True, row.recorded.start, row.recorded.state)
    assert withdrawn.other.state == BidState.WITHDRAWN
    free = compare(Record.of(market), make_policy("weighted_completion", {}), since=bid.sequence)
    assert [row.other.admitted for row in free.rows] == [True, True], "where nobody pays every job is admitted at once"


def test_other_statements_of_a_standing_bid_are_tried_at_its_first_decision_and_then_at_its_admission(
    market: Market, alice: User, bob: User
) -> None:
    taken = filled(market, alice)
    bid = stands(market, bob)
    first = alternatives_of(bid, caller=bob.pk)
    assert (first.slot, {point.admitted for point in first.by_value}) == (0, {False})
    freed(taken)
    pass_to(market, 4)
    bid.refresh_from_db()
    then = alternatives_of(bid, caller=bob.pk)
    assert then.slot == 4
    assert any(point.admitted for point in then.by_value)


def test_a_summary_counts_standing_bids_for_operators_and_publishes_them_as_rejected(
    market: Market, alice: User, bob: User
) -> None:
    filled(market, alice)
    stands(market, bob)
    owners = [alice, bob, *(make_user(f"owner-{i}") for i in range(2))]
    pass_to(market, 2)
    for owner in owners:  # slots that have come on sale are free
        assert decided(market, owner, 1e5).state in ADMITTED
    pass_to(market, 3)
    exact = market_readings.summary(market)
    assert exact.standing == 1
    seen = publications.summary(market, bob)
    assert seen.published == 3
    assert (seen.standing, seen.rejected, seen.submitted) == (None, exact.rejected + 1, exact.submitted)
    assert_sound(market)


def test_the_published_wait_of_standing_bids_is_a_median_over_several_owners(
    market: Market, alice: User, bob: User
) -> None:
    taken = filled(market, alice)
    owners = [bob, *(make_user(f"owner-{i}") for i in range(3))]
    for owner in owners[:3]:
        stands(market, owner, utility={"form": "linear", "value": 50.0, "zero_at_s": 12 * SLOT_S})
    operator = make_operator()
    assert publications.standing_past(market, operator).wait is None
    freed(taken)
    pass_to(market, 5)
    assert publications.standing_past(market, operator).wait == 4.0
    assert publications.standing_past(market, bob).wait is None, "of three owners nothing is published"


# --- A day, drawn at random --------------------------------------------------------------------------------------


def drawn_bids(rng: np.random.Generator, *, slots: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Slots and bodies of a crowded day: some bids wait for room, become worthless, or stand for a short time."""
    for slot in range(slots):
        for _ in range(int(rng.integers(2, 6))):
            value = float(rng.uniform(1, 120))
            zero = float(rng.integers(3, 30)) * SLOT_S
            forms = [
                {"form": "constant", "value": value},
                {"form": "linear", "value": value, "zero_at_s": zero},
                {"form": "step", "value": value, "deadline_s": zero},
            ]
            stands: dict[str, Any] = {"standing": bool(rng.random() < 0.8)}
            if stands["standing"] and rng.random() < 0.3:
                stands["standing_until_s"] = float(rng.integers(4, 16)) * SLOT_S
            yield slot, {"epochs": int(rng.integers(1, 9)), "utility": forms[int(rng.integers(3))], **stands}


def play(market: Market, owners: list[User], rng: np.random.Generator, *, slots: int) -> None:
    for slot, body in drawn_bids(rng, slots=slots):
        pass_to(market, slot)
        decided(market, owners[int(rng.integers(len(owners)))], 0.0, **body)
    pass_to(market, slots + 10)


@pytest.mark.soak
@pytest.mark.parametrize("prices", some([PRICES, {}, {"price": "fluid"}], 1), ids=str)
def test_nobody_pays_more_than_the_posted_price_at_admission_and_every_payoff_is_at_least_0(
    alice: User, bob: User, prices: dict[str, Any]
) -> None:
    market = make_market(make_cluster(servers=1, units=4, horizon=HORIZON), **prices)
    play(market, [alice, bob], np.random.default_rng(fresh_seed()), slots=14)
    later = Bid.objects.filter(decision__stood_from__isnull=False, payment__isnull=False)
    for bid in later:
        decision = receipt(bid)
        assert 0 <= decision.payment <= decision.value, "a payoff is at least 0"
        assert decision.schedule is not None
        assert decision.schedule.start >= decision.slot > (bid.decision.stood_from or 0)
    assert_sound(market)  # which computes the posted price of each admission again
    assert_replayed_as_recorded(market)
    assert_stands_on_rows_as_on_events(market)
    assert_the_same_policy_changes_nothing(market)
    assert_every_bid_is_accounted_for(market, "dps", "oasis", "fifo")


@pytest.mark.parametrize("prices", [PRICES, {}], ids=["paper", "quantile"])
def test_a_live_day_equals_its_simulation(db: None, prices: dict[str, Any]) -> None:
    market = make_market(make_cluster(servers=1, units=4, horizon=HORIZON), **prices)
    seed, end = fresh_seed(), 14 + 2 * HORIZON + 1
    for slot, body in drawn_bids(np.random.default_rng(seed), slots=14):
        pass_to(market, slot)
        owner = make_user(f"user-{Bid.objects.count()}")  # in a simulation, each bid has an owner of its own
        decided(market, owner, 0.0, **{**body, "standing": True, "standing_until_s": 1e6})
    pass_to(market, end)
    bids = list(Bid.objects.order_by("sequence"))
    snapshot = book.private_copy(market, now=end).snapshot
    policy = make_policy("dps", {**PRICED, **prices})
    run = Simulation(policy, RunningBook(Ledger(snapshot.inventory, start=0, slots=HORIZON)), rule=RULE)
    for bid in bids:
        run.advance(bid.arrival_slot)
        run.arrive(CoreBid.from_json(bid.core_bid))
    run.advance(end)
    assert any(bid.tries for bid in bids)
    for bid, expected in zip(bids, run.decisions, strict=True):
        found = receipt(bid)
        assert found.admitted == expected.admitted, bid
        if found.admitted:
            assert found == expected


def test_a_bid_that_was_quarantined_and_put_back_before_it_stood_is_no_finding(
    market: Market, alice: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(monkeypatch)
    filled(market, bob)
    change_policy(market, name="faulty_dps", parameters=PRICES, by=None)
    bid = decided(market, alice, UNLUCKY, standing=True)
    assert bid.state == BidState.QUARANTINED
    change_policy(market, name="dps", parameters=PRICES, by=None)
    retry_bid(bid)
    decision_queue.process_pending(market.pk)
    bid.refresh_from_db()
    assert bid.state == BidState.STANDING
    assert_sound(market)
