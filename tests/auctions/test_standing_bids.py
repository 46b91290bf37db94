"""Standing bids: rejected bids that are tried again when slots begin."""

from itertools import count
from typing import Any

import pytest
from django.contrib.auth.models import User

from auctions.domain.errors import WrongState
from auctions.engine import decide
from auctions.engine.jobs import withdraw_bid
from auctions.engine.markets import open_market
from auctions.engine.policies import change_policy
from auctions.engine.submission import submit_bid
from auctions.history.audit import audit_market
from auctions.history.audit_rows import receipts_match_rows
from auctions.models import (
    Bid,
    BidState,
    Certificate,
    DecisionRecord,
    Event,
    EventKind,
    FirstDecision,
    Market,
)
from auctions.readings import certificates, market_readings, publications
from cluster.documents import export_cluster, import_cluster
from cluster.guards import checked_change
from cluster.models import Cluster
from scheduling.model.decision import Decision, Reason, parse
from scheduling.model.errors import InvalidField
from tests.auctions.standing import (
    ADMITTED,
    HORIZON,
    assert_sound,
    decided,
    filled,
    freed,
    pass_to,
    receipt,
    standing_market,
    stands,
)
from tests.auctions.worlds import SLOT_S, make_cluster, make_operator, make_user

pytestmark = pytest.mark.thorough


@pytest.fixture
def market(db: None) -> Market:
    return standing_market()


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
    with pytest.raises(InvalidField, match="without posted prices no bid stands") as caught:
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
