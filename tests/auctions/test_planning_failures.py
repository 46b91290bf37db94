"""A policy that fails to plan: what was asked is done all the same, jobs keep their plans, and operators know."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError

from auctions.counterfactual.comparison import compare
from auctions.counterfactual.preview import preview
from auctions.counterfactual.record import Record
from auctions.engine.jobs import cancel_job, fail_job, withdraw_bid
from auctions.engine.markets import open_market, set_open
from auctions.engine.policies import change_policy
from auctions.engine.servers import drain_server, lose_server
from auctions.engine.slots import pass_slots
from auctions.history.audit import audit_market
from auctions.models import Bid, Event, EventKind, Market, PolicyError, SlotPrice
from auctions.state import book
from cluster.guards import checked_change
from cluster.models import Capacity, Server
from scheduling.book.state import Book, Cause
from scheduling.model.decision import Move
from scheduling.model.schedule import Placement, Role, Schedule
from scheduling.policies.preemptive import Preemptive
from tests.auctions.counterfactual.assertions import assert_replayed_as_recorded
from tests.auctions.faulty import FaultyDps, FaultyFifo, assert_clean, process_pending, register, send, states
from tests.auctions.worlds import make_cluster, set_time

pytestmark = pytest.mark.thorough

SOLE: dict[str, Any] = {"upload_delay_s": {"cloud": 5000}}
"""The cloud is out of reach: one server of four GPUs, on which an epoch takes a slot."""


@pytest.fixture
def faulty(db: None, monkeypatch: pytest.MonkeyPatch) -> Market:
    """A market of one server whose policy fails to plan from slot 2 to slot 5."""
    register(monkeypatch)
    parameters = {"first_bad": 2, "good": 6, "seed": 1}
    return open_market(make_cluster(servers=1), policy="faulty_fifo", parameters=parameters)


def job(market: Market, owner: User, epochs: int = 4) -> Bid:
    sent = send(market, owner, 1.0, epochs=epochs, **SOLE)
    process_pending(market)
    return sent


def window(bid: Bid) -> tuple[str, int | None, int | None]:
    bid.refresh_from_db()
    return str(bid.state), bid.start_slot, bid.completion_slot


def go_to(market: Market, slot: int) -> None:
    """Let slots pass until this one is the next."""
    set_time(market, 100.0 * slot - 50)
    pass_slots(market.pk)


def failures(market: Market) -> list[str]:
    """Kinds of events whose plan failed."""
    return [event.kind for event in market.events.order_by("version") if event.payload.get("plan_failed")]


def test_slots_pass_and_jobs_keep_their_plans_while_planning_fails(faulty: Market, alice: User) -> None:
    first, second = job(faulty, alice, epochs=2), job(faulty, alice, epochs=2)
    assert window(second) == ("planned", None, None)
    before = window(first)
    for slot in range(1, 6):
        go_to(faulty, slot)
    assert window(first) == ("completed", *before[1:])
    assert window(second) == ("planned", None, None)
    assert set(failures(faulty)) == {EventKind.SLOT}
    faulty.refresh_from_db()
    assert faulty.planning_failed
    assert_clean(faulty)


def test_jobs_in_line_start_as_soon_as_planning_succeeds_again(faulty: Market, alice: User) -> None:
    job(faulty, alice, epochs=2)
    second = job(faulty, alice, epochs=2)
    for slot in range(1, 7):
        go_to(faulty, slot)
    assert window(second)[1] == 6, "the first job ended in a slot in which planning failed"
    faulty.refresh_from_db()
    assert not faulty.planning_failed
    assert_clean(faulty)
    assert_replayed_as_recorded(faulty)


DEEDS: dict[str, Callable[[Market, Bid], object]] = {
    "a job is cancelled": lambda market, running: cancel_job(running),
    "a job fails": lambda market, running: fail_job(running, "a disk broke"),
    "the policy changes": lambda market, running: change_policy(market, name="fifo", parameters={}, by=None),
    "the market closes": lambda market, running: set_open(market, is_open=False),
    "slots pass": lambda market, running: go_to(market, 5),
}


@pytest.mark.parametrize("what", DEEDS)
def test_what_people_do_is_done_while_planning_fails(what: str, faulty: Market, alice: User) -> None:
    running = job(faulty, alice, epochs=8)
    waiting = job(faulty, alice)
    go_to(faulty, 2)
    undecided = send(faulty, alice, 1.0)
    DEEDS[what](faulty, running)
    withdraw_bid(undecided)
    assert window(undecided)[0] == "withdrawn"
    if what in ("a job is cancelled", "a job fails"):
        assert window(running)[0] in ("cancelled", "failed")
        assert window(waiting) == ("planned", None, None)
    assert_clean(faulty)
    assert_replayed_as_recorded(faulty)


def test_a_policy_that_fails_is_replaced_and_the_next_one_plans_what_it_left(faulty: Market, alice: User) -> None:
    running, waiting = job(faulty, alice, epochs=8), job(faulty, alice)
    go_to(faulty, 2)
    cancel_job(running)
    assert window(waiting) == ("planned", None, None)
    change_policy(faulty, name="fifo", parameters={}, by=None)
    assert window(waiting)[1] == 2
    faulty.refresh_from_db()
    assert not faulty.planning_failed
    assert_clean(faulty)


def test_a_policy_that_fails_at_once_takes_over_and_jobs_keep_their_plans(
    db: None, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(monkeypatch)
    market = open_market(make_cluster(servers=1), policy="weighted_completion")
    jobs = [job(market, alice, epochs=3) for _ in range(3)]
    before = [window(bid) for bid in jobs]
    assert None not in [start for _, start, _ in before]
    change_policy(market, name="faulty_fifo", parameters={"first_bad": 0, "good": 100}, by=None)
    assert [window(bid) for bid in jobs] == before
    error = PolicyError.objects.get()
    assert (error.policy.number, error.bid, error.error) == (2, None, "OutsideHorizon: no plan in slot 0")
    for slot in range(1, 12):
        go_to(market, slot)
    assert states(market) == ["completed"] * 3
    assert_clean(market)


def test_servers_change_while_planning_fails_and_jobs_keep_the_plans_that_still_fit(
    db: None, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(monkeypatch)
    market = open_market(make_cluster(servers=1), policy="weighted_completion")
    jobs = [job(market, alice) for _ in range(3)]
    go_to(market, 1)
    before = [window(bid) for bid in jobs]
    assert before == [("running", 0, 4), ("planned", 4, 8), ("planned", 8, 12)]
    change_policy(market, name="faulty_fifo", parameters={"first_bad": 0, "good": 8}, by=None)
    rows = Capacity.objects.filter(server__name="edge-0", resource__name="gpu")
    with checked_change(market.cluster):
        rows.update(amount=5)
    assert [window(bid) for bid in jobs] == before
    go_to(market, 5)
    with checked_change(market.cluster):
        Server.objects.filter(name="edge-0").update(upload_delay_s=900)
    assert window(jobs[1]) == ("running", 4, 8)
    assert window(jobs[2]) == ("planned", None, None), "its data would be there in slot 9"
    for slot in range(6, 18):
        go_to(market, slot)
    assert states(market) == ["completed"] * 3
    assert_clean(market)
    assert_replayed_as_recorded(market)


def test_a_job_whose_planned_machines_are_gone_is_in_line_while_planning_fails(
    db: None, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(monkeypatch)
    market = open_market(make_cluster(servers=1), policy="weighted_completion")
    first, second = job(market, alice), job(market, alice)
    change_policy(market, name="faulty_fifo", parameters={"first_bad": 0, "good": 9}, by=None)
    go_to(market, 4)
    with checked_change(market.cluster):
        Capacity.objects.filter(server__name="edge-0", resource__name="gpu").update(amount=2)
    assert (window(first), window(second)) == (("running", 0, 4), ("planned", None, None))
    assert_clean(market)
    assert_replayed_as_recorded(market)


def test_servers_are_lost_while_planning_fails(faulty: Market, alice: User) -> None:
    running, waiting = job(faulty, alice, epochs=8), job(faulty, alice)
    go_to(faulty, 2)
    server = Server.objects.get(name="edge-0")
    lose_server(server, reason="power", by=None)
    assert window(running)[2] is None
    assert window(waiting) == ("planned", None, None)
    assert EventKind.INVENTORY in failures(faulty)
    assert_clean(faulty)
    assert_replayed_as_recorded(faulty)


def test_a_server_is_drained_while_planning_fails(faulty: Market, alice: User) -> None:
    running = job(faulty, alice, epochs=8)
    go_to(faulty, 2)
    before = window(running)
    drain_server(Server.objects.get(name="edge-0"), reason="repair", by=None)
    assert window(running) == before
    assert_clean(faulty)


@pytest.fixture
def queued(db: None, monkeypatch: pytest.MonkeyPatch) -> Market:
    """A market that queues, whose policy fails on every plan."""

    def broken(_policy: Preemptive, _book: Book, _cause: Cause) -> tuple[Move, ...]:
        raise KeyError("lost")

    monkeypatch.setattr(Preemptive, "plan", broken)
    return open_market(make_cluster(servers=2, units=2), policy="preemptive")


def test_forecasts_of_queued_jobs_are_right_though_planning_fails(queued: Market, alice: User) -> None:
    jobs = [send(queued, alice, 1.0, epochs=3) for _ in range(5)]
    process_pending(queued)
    before = [window(bid) for bid in jobs]
    cancel_job(jobs[0])
    assert [window(bid) for bid in jobs[1:]] != before[1:], "others are complete sooner"
    for slot in range(1, 40):
        go_to(queued, slot)
    assert states(queued) == ["cancelled", *["completed"] * 4]
    assert "plan_failed" in Event.objects.filter(kind=EventKind.CANCELLED).values_list("payload", flat=True)[0]
    assert_clean(queued)


def test_the_last_of_equal_errors_of_plans_has_no_traceback_of_its_own(
    queued: Market, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(queued, alice, 1.0, epochs=3)
    process_pending(queued)
    for slot in range(1, 5):
        go_to(queued, slot)
    assert [bool(row.traceback) for row in PolicyError.objects.order_by("version")] == [True, False, False]


def test_an_error_of_the_database_is_no_failure_of_the_plan(
    faulty: Market, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = job(faulty, alice)

    def busy(*_args: object) -> None:
        raise OperationalError("database is locked")

    monkeypatch.setattr(FaultyFifo, "plan", busy)
    with pytest.raises(OperationalError):
        cancel_job(running)
    assert window(running)[0] == "running"
    assert not PolicyError.objects.exists()


WRONG: dict[str, Callable[[Book], Any]] = {
    "a job that is not there": lambda seen: (Move("99", None),),
    "one job twice": lambda seen: (Move(seen.jobs[0].bid.id, None),) * 2,
    "more machines than there are": lambda seen: (
        Move(
            seen.jobs[0].bid.id,
            Schedule(seen.now, seen.now + 1, (Placement(seen.now, seen.now + 1, Role.WORKER, 0, 0, 99),)),
        ),
    ),
    "no moves": lambda seen: 7,
}


@pytest.mark.parametrize("what", WRONG)
def test_a_plan_that_cannot_be_carried_out_has_failed(
    what: str, faulty: Market, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, other = job(faulty, alice), job(faulty, alice)
    before = window(running)
    with monkeypatch.context() as patched:
        patched.setattr(FaultyFifo, "plan", lambda policy, seen, cause: WRONG[what](seen))
        cancel_job(other)
    assert window(running) == before
    assert failures(faulty) == [EventKind.CANCELLED]
    assert_clean(faulty)


def test_slots_whose_prices_the_policy_fails_to_say_are_unknown(
    db: None, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(monkeypatch)
    market = open_market(make_cluster(), policy="faulty_dps")
    running = send(market, alice, 50.0, auction=True, epochs=8)
    process_pending(market)
    go_to(market, 2)

    def broken(*_args: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(FaultyDps, "prices", broken)
        go_to(market, 3)
        cancel_job(running)
        change_policy(market, name="dps", parameters={}, by=None)
    go_to(market, 4)
    assert list(SlotPrice.objects.order_by("slot").values_list("slot", flat=True)) == [1, 3]
    assert PolicyError.objects.get().error == "ZeroDivisionError: "
    assert_clean(market)


def test_a_promise_on_which_the_policy_fails_when_its_server_is_lost_is_broken_and_paid_back(
    db: None, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(monkeypatch)
    market = open_market(make_cluster(), policy="faulty_dps")
    promised = send(market, alice, 50.0, auction=True, start_after_s=150)
    process_pending(market)
    server = promised.commitments.first().server  # type: ignore[union-attr]

    def broken(*_args: object) -> None:
        raise RuntimeError("no promise")

    with monkeypatch.context() as patched:
        patched.setattr(FaultyDps, "keep_promise", broken)
        lose_server(server, reason="power", by=None)
    assert window(promised)[0] == "failed"
    assert promised.refund == promised.payment
    assert PolicyError.objects.get().error == "RuntimeError: no promise"
    assert_clean(market)
    assert_replayed_as_recorded(market)


def test_a_replay_counts_the_plans_on_which_the_other_policy_fails(
    db: None, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(monkeypatch)
    market = open_market(make_cluster(servers=1), policy="fifo")
    for _ in range(3):
        job(market, alice, epochs=2)
    for slot in range(1, 9):
        go_to(market, slot)
    other = FaultyFifo(first_bad=2, good=6)
    found = compare(Record.of(market), other)
    assert found.failed_plans == 4
    assert found.other.submitted == 3
    assert "failed on 4 plans" in preview(market, other).words


def test_another_process_catches_up_with_slots_whose_plan_failed(faulty: Market, alice: User) -> None:
    job(faulty, alice, epochs=2)
    job(faulty, alice, epochs=2)
    go_to(faulty, 1)
    faulty.refresh_from_db()
    here = book.rebuild(faulty, now=1)
    go_to(faulty, 3)
    faulty.refresh_from_db()
    book.forget()
    book.store(faulty, here)
    caught = book.checkout(faulty, now=3)
    assert caught is here
    assert caught.running.jobs == book.rebuild(faulty, now=3).running.jobs


TAMPERINGS: dict[str, Callable[[], object]] = {
    "an error gone": lambda: PolicyError.objects.all().delete(),
    "an event that says nothing of it": lambda: Event.objects.filter(payload__plan_failed=True).update(payload={}),
    "a market that says nothing of it": lambda: Market.objects.update(planning_failed=False),
}


@pytest.mark.parametrize("what", TAMPERINGS)
def test_tampering_with_failed_plans_is_found(what: str, faulty: Market, alice: User) -> None:
    job(faulty, alice)
    job(faulty, alice)
    go_to(faulty, 3)
    assert_clean(faulty)
    TAMPERINGS[what]()
    faulty.refresh_from_db()
    assert not all(finding.passed for finding in audit_market(faulty))
