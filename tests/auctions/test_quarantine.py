"""A bid on which the policy raises is set aside, once and in order, and the queue goes on."""

from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import IntegrityError, OperationalError

from auctions.counterfactual.comparison import compare
from auctions.counterfactual.record import Record
from auctions.domain.errors import CannotDecide, WrongState
from auctions.engine import decision_queue, outcomes
from auctions.engine.jobs import cancel_job, fail_job, retry_bid, withdraw_bid
from auctions.engine.markets import open_market
from auctions.engine.policies import change_policy
from auctions.engine.slots import pass_slots
from auctions.engine.submission import quote, submit_bid
from auctions.history.audit import audit_market
from auctions.models import Bid, BidState, DecisionRecord, Event, EventKind, Market, PolicyError, Segment
from auctions.readings import certificates
from auctions.readings.market_readings import summary
from auctions.state import book
from scheduling.book.state import Book
from scheduling.model.bid import Bid as CoreBid
from scheduling.model.decision import Decision
from scheduling.model.schedule import Placement, Role, Schedule
from scheduling.policies.dps import Dps
from scheduling.policies.preemptive import Preemptive
from tests.auctions.counterfactual.assertions import assert_replayed_as_recorded, assert_stands_on_rows_as_on_events
from tests.auctions.faulty import UNLUCKY, FaultyDps, FaultyFifo, assert_clean, process_pending, register, send, states
from tests.auctions.worlds import SLOT_S, body, make_cluster, set_time

pytestmark = pytest.mark.thorough


@pytest.fixture
def faulty(db: None, monkeypatch: pytest.MonkeyPatch) -> Market:
    """A market whose auction raises on unlucky bids."""
    register(monkeypatch)
    return open_market(make_cluster(), policy="faulty_dps")


def bid(market: Market, owner: User, value: float = 50.0) -> Bid:
    return send(market, owner, value, auction=True)


def test_a_bid_on_which_the_policy_raises_is_quarantined_and_the_next_is_decided(faulty: Market, alice: User) -> None:
    for value in (50.0, UNLUCKY, 60.0, UNLUCKY, 70.0):
        bid(faulty, alice, value)
    assert process_pending(faulty) == 5
    assert states(faulty) == ["running", "quarantined", "running", "quarantined", "planned"]
    assert not DecisionRecord.objects.filter(bid__state=BidState.QUARANTINED).exists()
    events = Event.objects.filter(kind=EventKind.QUARANTINED).order_by("version")
    assert [event.bid.sequence for event in events if event.bid] == [2, 4]
    assert_clean(faulty)


def test_what_a_policy_does_to_the_book_before_it_raises_is_forgotten(
    faulty: Market, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide = FaultyDps.decide

    def spoil(self: FaultyDps, asked: CoreBid, view: Book) -> Decision:
        if asked.utility.value == UNLUCKY:
            everything = Placement(view.ledger.start, view.ledger.end, Role.WORKER, 0, 0, 4)
            view.ledger.commit(Schedule(everything.start, everything.end, (everything,)))
        return decide(self, asked, view)

    monkeypatch.setattr(FaultyDps, "decide", spoil)
    for value in (UNLUCKY, 50.0):
        bid(faulty, alice, value)
    process_pending(faulty)
    assert states(faulty) == ["quarantined", "running"]
    assert_clean(faulty)


def test_operators_find_the_error_and_its_traceback(
    faulty: Market, alice: User, caplog: pytest.LogCaptureFixture
) -> None:
    unlucky = bid(faulty, alice, UNLUCKY)
    process_pending(faulty)
    kept = PolicyError.objects.get()
    assert (kept.bid, kept.policy.name, kept.error) == (unlucky, "faulty_dps", "OutsideHorizon: bid 1 is unlucky")
    assert "_stumble" in kept.traceback
    assert "OutsideHorizon: bid 1 is unlucky" in caplog.text


def test_the_summary_counts_quarantined_bids(faulty: Market, alice: User) -> None:
    for value in (50.0, UNLUCKY, UNLUCKY):
        bid(faulty, alice, value)
    process_pending(faulty)
    bid(faulty, alice)
    seen = summary(faulty)
    assert (seen.submitted, seen.admitted, seen.undecided, seen.quarantined) == (4, 1, 1, 2)
    assert seen.submitted == seen.admitted + seen.rejected + seen.undecided + seen.withdrawn + seen.quarantined


def test_a_quarantined_bid_put_back_is_decided_before_later_ones(
    faulty: Market, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, late = bid(faulty, alice, UNLUCKY), bid(faulty, alice)
    process_pending(faulty)
    change_policy(faulty, name="dps", parameters={}, by=None)
    waiting = bid(faulty, alice)
    woken: list[int] = []
    monkeypatch.setattr(decision_queue, "wake", woken.append)
    retry_bid(first)
    assert woken == [faulty.pk]
    assert states(faulty) == ["submitted", "running", "submitted"]
    process_pending(faulty)
    decided = Event.objects.filter(kind__in=(EventKind.ADMITTED, EventKind.REJECTED)).order_by("version")
    assert list(decided.values_list("bid", flat=True)) == [late.pk, first.pk, waiting.pk]
    assert_clean(faulty)
    assert_replayed_as_recorded(faulty)
    assert_stands_on_rows_as_on_events(faulty, looks=9)


def test_a_bid_that_fails_again_is_quarantined_again(faulty: Market, alice: User) -> None:
    unlucky = bid(faulty, alice, UNLUCKY)
    for _ in range(3):
        process_pending(faulty)
        retry_bid(unlucky)
    process_pending(faulty)
    assert PolicyError.objects.filter(bid=unlucky).count() == 4
    assert_clean(faulty)


def test_the_owner_withdraws_a_quarantined_bid(faulty: Market, alice: User) -> None:
    unlucky = bid(faulty, alice, UNLUCKY)
    process_pending(faulty)
    withdraw_bid(unlucky)
    assert states(faulty) == ["withdrawn"]
    with pytest.raises(WrongState):
        retry_bid(unlucky)
    assert_clean(faulty)


@pytest.mark.parametrize("state", ["waiting", "running"])
def test_only_a_quarantined_bid_is_put_back(state: str, faulty: Market, alice: User) -> None:
    sent = bid(faulty, alice)
    if state == "running":
        process_pending(faulty)
    with pytest.raises(WrongState, match=f"is {state}; only a bid that is quarantined"):
        retry_bid(sent)


@pytest.mark.parametrize("deed", [retry_bid, withdraw_bid])
def test_a_quarantined_bid_is_no_job_that_can_be_cancelled(deed: Any, faulty: Market, alice: User) -> None:
    unlucky = bid(faulty, alice, UNLUCKY)
    process_pending(faulty)
    with pytest.raises(WrongState, match=r"can become cancelled\. It can be withdrawn\.$"):
        cancel_job(unlucky)
    with pytest.raises(WrongState, match=r"can become failed\.$"):
        fail_job(unlucky, "no reason")
    deed(unlucky)


@pytest.mark.parametrize(
    "error", [OperationalError("locked"), IntegrityError("twice"), OSError("disk full"), MemoryError(), SystemExit()]
)
def test_errors_of_the_database_and_the_machine_are_passed_on_and_the_bid_decided_later(
    error: BaseException, faulty: Market, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    bid(faulty, alice)

    def broken(*_args: object) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(FaultyDps, "decide", broken)
        with pytest.raises(type(error)):
            process_pending(faulty)
    assert (states(faulty), PolicyError.objects.count()) == (["submitted"], 0)
    assert process_pending(faulty) == 1
    assert states(faulty) == ["running"]
    assert_clean(faulty)


def test_a_bid_withdrawn_between_the_failure_and_the_quarantine_is_not_quarantined_and_nor_is_the_next(
    faulty: Market, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlucky, late = bid(faulty, alice, UNLUCKY), bid(faulty, alice)
    quarantine = decision_queue._quarantine

    def too_late(failed: Bid, *arguments: Any, **keywords: Any) -> None:
        withdraw_bid(failed)
        quarantine(failed, *arguments, **keywords)

    monkeypatch.setattr(decision_queue, "_quarantine", too_late)
    process_pending(faulty)
    process_pending(faulty)
    assert states(faulty) == ["withdrawn", "running"]
    assert not Event.objects.filter(kind=EventKind.QUARANTINED).exists()
    late.refresh_from_db()
    assert unlucky.sequence < late.sequence


def test_a_worker_killed_between_the_failure_and_the_quarantine_leaves_the_bid_for_the_next(
    faulty: Market, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value in (UNLUCKY, 50.0):
        bid(faulty, alice, value)

    def killed(*_args: object, **_more: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patched:
        patched.setattr(outcomes, "store_error", killed)
        with pytest.raises(SystemExit):
            process_pending(faulty)
    assert states(faulty) == ["submitted", "submitted"]
    assert process_pending(faulty) == 2
    assert process_pending(faulty) == 0
    assert states(faulty) == ["quarantined", "running"]
    assert Event.objects.filter(kind=EventKind.QUARANTINED).count() == PolicyError.objects.count() == 1
    assert_clean(faulty)


def test_work_that_queues_did_until_a_failure_is_kept_with_the_next_event_only(
    alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    market = open_market(make_cluster(servers=1, units=4), policy="preemptive", parameters={"cloud": "edge"})
    set_time(market, SLOT_S)  # the very beginning of slot 1, which is still on sale
    pass_slots(market.pk)
    sent = {key: value for key, value in body().items() if key != "utility"} | {"weight": 3}
    for seconds in (SLOT_S, 1.5 * SLOT_S):
        set_time(market, seconds)
        submit_bid(cluster=market.cluster, owner=alice, body=sent)
        with monkeypatch.context() as patched:
            if seconds > SLOT_S:
                patched.setattr(Preemptive, "decide", _raises)
            process_pending(market)
    assert states(market) == ["running", "quarantined"]
    assert not Segment.objects.exists()
    assert_clean(market)
    market.refresh_from_db()
    retry_bid(Bid.objects.get(sequence=2))
    process_pending(market)
    assert Segment.objects.exists(), "of the admission"
    assert_clean(market)


def _raises(*_args: object) -> None:
    raise ValueError("unlucky")


WRONG: dict[str, dict[str, Any]] = {
    "pays more than its value": {"payment": 1e9},
    "is value no number": {"value": float("nan")},
    "has a cost that is no number": {"costs": (float("nan"),)},
    "speaks of another bid": {"bid_id": "77"},
    "completes before it starts": {"completion": 0},
}


@pytest.mark.parametrize("what", WRONG)
def test_a_decision_that_cannot_be_stored_quarantines_its_bid(
    what: str, faulty: Market, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = dict(WRONG[what])

    def wrong(policy: Dps, sent: CoreBid, seen: Book) -> Decision:
        decision = Dps.decide(policy, sent, seen)
        if decision.schedule is not None and "completion" in changes:
            return replace(decision, schedule=replace(decision.schedule, **changes))
        return replace(decision, **changes)

    bid(faulty, alice)
    with monkeypatch.context() as patched:
        patched.setattr(FaultyDps, "decide", wrong)
        process_pending(faulty)
    assert states(faulty) == ["quarantined"]
    bid(faulty, alice)
    process_pending(faulty)
    assert states(faulty) == ["quarantined", "running"]
    assert_clean(faulty)


def test_a_quote_of_such_a_bid_says_that_it_cannot_be_decided_and_no_more(faulty: Market) -> None:
    body = {"model": "ResNet-50", "epochs": 1, "utility": {"form": "constant", "value": UNLUCKY}}
    with pytest.raises(CannotDecide) as raised:
        quote(market=faulty, body=body)
    assert "unlucky" not in str(raised.value)


def test_the_certificate_leaves_quarantined_bids_out(faulty: Market, alice: User) -> None:
    unlucky = bid(faulty, alice, UNLUCKY)
    bid(faulty, alice)
    process_pending(faulty)
    found = certificates.renew(faulty.pk)
    assert found is not None
    assert (found.decided, found.welfare) == (1, 50.0)
    assert found.zero_price == pytest.approx(50.0)
    change_policy(faulty, name="dps", parameters={}, by=None)
    set_time(faulty, 2000.0)
    retry_bid(unlucky)
    process_pending(faulty)
    found = certificates.renew(faulty.pk)
    assert found is not None
    assert found.decided == 2
    assert found.value >= found.welfare == 63.0
    assert_clean(faulty)


def test_a_market_replayed_under_a_policy_that_raises_counts_what_it_could_not_decide(
    db: None, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(monkeypatch)
    market = open_market(make_cluster(), policy="fifo")
    for value in (1.0, UNLUCKY, 2.0, UNLUCKY):
        send(market, alice, value)
    process_pending(market)
    found = compare(Record.of(market), FaultyFifo())
    assert (found.recorded.quarantined, found.other.quarantined) == (0, 2)
    assert (found.recorded.admitted, found.other.admitted) == (4, 2)
    assert [row.sequence for row in found.rows if row.other.state == BidState.QUARANTINED] == [2, 4]
    assert all(row.changed for row in (found.rows[1], found.rows[3]))
    assert "unlucky" not in found.rows[1].other.explanation


def test_a_record_with_quarantined_bids_is_replayed_as_it_was(faulty: Market, alice: User) -> None:
    unlucky = [bid(faulty, alice, value) for value in (50.0, UNLUCKY, UNLUCKY, 60.0)]
    process_pending(faulty)
    withdraw_bid(unlucky[1])
    assert_replayed_as_recorded(faulty)
    found = compare(Record.of(faulty), FaultyDps())
    assert found.recorded == found.other
    assert (found.recorded.quarantined, found.recorded.withdrawn) == (1, 1)


def test_another_process_catches_up_with_quarantined_bids(faulty: Market, alice: User) -> None:
    bid(faulty, alice)
    process_pending(faulty)
    faulty.refresh_from_db()
    here = book.rebuild(faulty, now=0)
    for value in (UNLUCKY, 60.0):
        bid(faulty, alice, value)
    process_pending(faulty)
    faulty.refresh_from_db()
    book.forget()
    book.store(faulty, here)
    caught = book.checkout(faulty, now=0)
    assert caught is here
    assert (caught.ledger.used == book.rebuild(faulty, now=0).ledger.used).all()


def test_a_policy_that_fails_in_a_replay_on_what_it_decided_is_a_finding(
    faulty: Market, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    bid(faulty, alice)
    process_pending(faulty)

    def broken(*_args: object) -> None:
        raise RuntimeError("broken since")

    monkeypatch.setattr(FaultyDps, "decide", broken)
    rows = {f.check: f.rows for f in audit_market(faulty) if not f.passed}
    assert rows["replay gives every receipt byte for byte"] == (
        "the replay breaks off: PolicyFailed: RuntimeError: broken since",
    )
    with pytest.raises(CommandError, match="RuntimeError: broken since"):
        call_command("replay_market", faulty.cluster.name)


TAMPERINGS: dict[str, Any] = {
    "a state": lambda: Bid.objects.filter(state="quarantined").update(state="withdrawn"),
    "a state put back": lambda: Bid.objects.filter(state="quarantined").update(state="submitted"),
    "an error gone": lambda: PolicyError.objects.all().delete(),
    "an error of another bid": lambda: PolicyError.objects.update(bid=Bid.objects.get(sequence=1)),
    "an event of another bid": lambda: Event.objects.filter(kind="quarantined").update(bid=Bid.objects.get(sequence=1)),
}


@pytest.mark.parametrize("what", TAMPERINGS)
def test_tampering_with_quarantined_bids_is_found(what: str, faulty: Market, alice: User) -> None:
    for value in (50.0, UNLUCKY, 60.0):
        bid(faulty, alice, value)
    process_pending(faulty)
    assert_clean(faulty)
    TAMPERINGS[what]()
    assert not all(finding.passed for finding in audit_market(faulty))


def test_a_bid_decided_out_of_turn_is_found(faulty: Market, alice: User) -> None:
    bids = [bid(faulty, alice) for _ in range(3)]
    Bid.objects.filter(pk=bids[0].pk).update(state="withdrawn")
    process_pending(faulty)
    Bid.objects.filter(pk=bids[0].pk).update(state="submitted")
    rows = {f.check: f.rows for f in audit_market(faulty) if not f.passed}
    assert rows == {
        "owners take turns in the decision queue": (
            "bid 2 was taken from the queue before bid 1",
            "bid 3 was taken from the queue before bid 1",
        )
    }
