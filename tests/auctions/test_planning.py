"""A market whose policy plans: who waits, who is moved, what is kept of it, and that it can be made again."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from auctions.domain.errors import WrongState
from auctions.engine import decision_queue, planning
from auctions.engine.jobs import cancel_job, withdraw_bid
from auctions.engine.markets import open_market
from auctions.engine.policies import change_policy
from auctions.engine.slots import pass_slots
from auctions.engine.submission import quote, submit_bid
from auctions.history.audit import audit_market
from auctions.history.replay import replay_market
from auctions.models import Bid, BidState, Certificate, Commitment, Event, EventKind, Market, Payment, PlanChange
from auctions.readings import certificates
from auctions.readings.market_readings import flow, machines, summary
from auctions.state import book
from cluster.guards import ChangeRefused, checked_change
from cluster.models import Capacity, Server
from scheduling.model.bid import Bid as CoreBid
from scheduling.model.errors import InvalidField
from scheduling.policies.baselines.fifo import Fifo
from tests.auctions.counterfactual.assertions import assert_replayed_as_recorded, assert_the_same_policy_changes_nothing
from tests.auctions.worlds import SLOT_S, make_cluster, set_time

pytestmark = pytest.mark.thorough

SOLE = {"upload_delay_s": {"cloud": 5000}}
"""The cloud is out of reach: one server of four GPUs, on which an epoch takes a slot."""


@pytest.fixture
def planned(db: None) -> Market:
    """A market of one server that plans."""
    return open_market(make_cluster(servers=1, horizon=12), policy="weighted_completion")


def send(market: Market, owner: User, weight: float, epochs: int = 4) -> Bid:
    body = {"model": "ResNet-50", "epochs": epochs, "weight": weight, **SOLE}
    bid = submit_bid(cluster=market.cluster, owner=owner, body=body).bid
    decision_queue.process_pending(market.pk)
    bid.refresh_from_db()
    return bid


def window(bid: Bid) -> tuple[str, int | None, int | None]:
    bid.refresh_from_db()
    return str(bid.state), bid.start_slot, bid.completion_slot


def assert_clean(market: Market) -> None:
    assert {f.check: f.rows for f in audit_market(market) if not f.passed} == {}
    assert replay_market(market).mismatches == ()


def test_a_heavier_job_goes_first_and_every_change_of_a_plan_is_kept(planned: Market, alice: User) -> None:
    set_time(planned, 10.0)
    first, light, heavy = (send(planned, alice, weight) for weight in (1.0, 1.0, 50.0))
    assert window(heavy)[1:] == (1, 5)
    assert {window(first)[1:], window(light)[1:]} == {(5, 9), (9, 13)}
    assert first.plan_changes.values_list("start", flat=True)[0] == 1
    assert heavy.plan_changes.count() == 1
    moved = Event.objects.filter(kind=EventKind.ADMITTED).latest("version").payload["moves"]
    assert len(moved) == 2
    assert_clean(planned)


def test_nobody_pays_and_no_bound_on_welfare_is_shown(planned: Market, alice: User) -> None:
    send(planned, alice, 3.0)
    assert Payment.objects.get().amount == 0
    certificates.renew(planned.pk)
    assert not Certificate.objects.exists()
    assert summary(planned).bound is None


def test_a_job_that_has_started_keeps_its_place(planned: Market, alice: User) -> None:
    first = send(planned, alice, 1.0)
    set_time(planned, 150.0)
    pass_slots(planned.pk)
    heavy = send(planned, alice, 50.0)
    assert window(first) == (BidState.RUNNING, 0, 4)
    assert window(heavy) == (BidState.PLANNED, 4, 8)
    assert_clean(planned)


def test_a_cancelled_job_lets_others_forward(planned: Market, alice: User) -> None:
    set_time(planned, 10.0)
    heavy, light = send(planned, alice, 50.0), send(planned, alice, 1.0)
    cancel_job(heavy)
    assert window(light) == (BidState.PLANNED, 1, 5)
    assert Event.objects.get(kind=EventKind.CANCELLED).payload["moves"]
    assert_clean(planned)


def test_what_has_no_place_within_the_horizon_waits_in_line_and_can_be_cancelled(planned: Market, alice: User) -> None:
    jobs = [send(planned, alice, 1.0, epochs=6) for _ in range(3)]
    assert window(jobs[2]) == (BidState.PLANNED, None, None)
    assert summary(planned).in_line == 1
    offered = quote(market=planned, body={"model": "ResNet-50", "epochs": 6, "weight": 1, **SOLE})
    assert (offered.decision.admitted, offered.decision.schedule) == (True, None)
    with pytest.raises(WrongState):
        withdraw_bid(jobs[2])
    set_time(planned, 610.0)
    pass_slots(planned.pk)
    assert window(jobs[2])[1:] == (12, 18)
    set_time(planned, 1900.0)
    pass_slots(planned.pk)
    assert [window(job)[0] for job in jobs] == [BidState.COMPLETED] * 3
    assert flow(planned).flow.tolist() == [6, 12, 18]
    assert summary(planned).weighted_jct_slots == pytest.approx(12)
    assert machines(jobs[0]).workers.tolist() == [4] * 6
    assert_clean(planned)


def test_a_server_may_shrink_below_what_is_only_planned(planned: Market, alice: User) -> None:
    running, waiting = send(planned, alice, 1.0), send(planned, alice, 1.0)
    set_time(planned, 50.0)
    pass_slots(planned.pk)
    rows = Capacity.objects.filter(server__name="edge-0", resource__name="gpu")
    with pytest.raises(ChangeRefused), checked_change(planned.cluster):
        rows.update(amount=3)
    set_time(planned, 450.0)
    pass_slots(planned.pk)
    late = send(planned, alice, 1.0)
    with pytest.raises(ChangeRefused), checked_change(planned.cluster):
        rows.update(amount=2)
    assert window(running)[0] == BidState.COMPLETED
    assert window(waiting)[0] == BidState.RUNNING
    set_time(planned, 850.0)
    pass_slots(planned.pk)
    last = send(planned, alice, 1.0, epochs=1)
    assert window(last)[1] == 12
    cancel_job(late)
    assert window(last)[1] == 9
    with checked_change(planned.cluster):
        rows.update(amount=2)
    assert window(last) == (BidState.PLANNED, 9, 11)
    assert_clean(planned)


def test_no_policy_takes_over_that_would_leave_jobs_in_line_for_ever(planned: Market, alice: User) -> None:
    for _ in range(3):
        send(planned, alice, 1.0, epochs=6)
    with pytest.raises(InvalidField, match="1 jobs wait in line"):
        change_policy(planned, name="dps", parameters={}, by=None)
    change_policy(planned, name="fifo", parameters={}, by=None)
    for slot in range(1, 20):
        set_time(planned, 100.0 * slot)
        pass_slots(planned.pk)
    assert list(Bid.objects.values_list("state", flat=True)) == ["completed"] * 3
    assert_clean(planned)


def test_a_job_in_line_that_a_policy_could_never_run_keeps_it_from_taking_over(planned: Market, alice: User) -> None:
    running, waiting = send(planned, alice, 2.0, epochs=6), send(planned, alice, 1.0, epochs=12)
    assert waiting.start_slot is None
    core = CoreBid.from_json(waiting.core_bid)
    planned.refresh_from_db()
    floor = Fifo().pass_state(book.private_copy(planned, now=0).view())
    small = next(seed for seed in range(100) if not Fifo(seed=seed).can_run(core, floor))
    with pytest.raises(InvalidField, match=rf"fifo could never run jobs that wait in line: {waiting.sequence}$"):
        change_policy(planned, name="fifo", parameters={"seed": small}, by=None)
    cancel_job(running)
    assert window(waiting)[1] is not None
    change_policy(planned, name="fifo", parameters={"seed": small}, by=None)
    assert_clean(planned)


def test_a_promise_is_kept_under_every_later_policy(planned: Market, alice: User) -> None:
    change_policy(planned, name="dps", parameters={}, by=None)
    body = {
        "model": "ResNet-50",
        "epochs": 4,
        "utility": {"form": "constant", "value": 100},
        **SOLE,
        "start_after_s": 150,
    }
    promised = submit_bid(cluster=planned.cluster, owner=alice, body=body).bid
    decision_queue.process_pending(planned.pk)
    before = window(promised)
    change_policy(planned, name="weighted_completion", parameters={}, by=None)
    send(planned, alice, 1e6)
    assert window(promised) == before
    assert not promised.plan_changes.exists()
    assert_clean(planned)


def test_a_plan_of_many_jobs_is_written_in_as_many_statements_as_one_of_two(planned: Market, alice: User) -> None:
    def statements(weight: float) -> int:
        with CaptureQueriesContext(connection) as queries:
            send(planned, alice, weight)
        assert_clean(planned)
        return len(queries)

    send(planned, alice, 1.0)
    send(planned, alice, 2.0)
    few = statements(3.0)
    for weight in (4.0, 5.0, 6.0, 7.0):
        send(planned, alice, weight)
    assert statements(8.0) == few


def test_another_process_catches_up_with_moves(planned: Market, alice: User) -> None:
    set_time(planned, 10.0)
    send(planned, alice, 1.0)
    planned.refresh_from_db()
    here = book.private_copy(planned, now=1)
    send(planned, alice, 50.0)
    set_time(planned, 120.0)
    pass_slots(planned.pk)
    planned.refresh_from_db()
    book.forget()
    book.store(planned, here)
    caught = book.checkout(planned, now=2)
    book.forget()
    fresh = book.rebuild(planned, now=2)
    assert caught.running.jobs == fresh.running.jobs
    assert (caught.ledger.used == fresh.ledger.used).all()
    assert caught is here


TAMPERINGS: dict[str, Callable[[], object]] = {
    "a step of a plan": lambda: PlanChange.objects.filter(completion=5).delete(),
    "a start": lambda: Bid.objects.filter(state="planned").update(start_slot=2),
    "machines": lambda: Commitment.objects.all().delete(),
    "moves": lambda: Event.objects.filter(payload__has_key="moves").update(payload={}),
}


@pytest.mark.parametrize("what", TAMPERINGS)
def test_tampering_with_plans_is_found(what: str, planned: Market, alice: User) -> None:
    set_time(planned, 10.0)
    for weight in (1.0, 50.0):
        send(planned, alice, weight)
    TAMPERINGS[what]()
    assert not all(finding.passed for finding in audit_market(planned))


def test_a_payload_without_moves_says_nothing_of_them() -> None:
    assert planning.to_payload(()) == {}


@pytest.mark.parametrize("policy", ["fifo", "srtf", "tiresias_l", "drf", "dorm"])
def test_a_job_whose_upload_ended_in_a_slot_that_was_skipped_starts(policy: str, db: None, alice: User) -> None:
    cluster = make_cluster(servers=1, units=1, horizon=20)
    Capacity.objects.filter(server__name="edge-0").update(amount=0)
    market = open_market(cluster, policy=policy)
    body = {"model": "ResNet-50", "epochs": 2, "weight": 1.0}
    bid = submit_bid(cluster=cluster, owner=alice, body=body).bid
    decision_queue.process_pending(market.pk)
    assert window(bid) == ("planned", None, None), "its upload to the cloud takes three slots"
    for slot in (10.5, 30.5):
        set_time(market, slot * SLOT_S)
        pass_slots(market.pk)
    assert window(bid)[0] == "completed"
    assert_clean(market)
    assert_replayed_as_recorded(market)
    assert_the_same_policy_changes_nothing(market)


@pytest.mark.parametrize("policy", ["fifo", "srtf", "tiresias", "rrh", "drf", "dorm"])
def test_a_job_in_line_starts_where_a_promise_of_an_earlier_policy_ends(policy: str, db: None, alice: User) -> None:
    """Under that policy a job holds its machines for one slot more than it runs."""
    cluster = make_cluster(servers=1, units=1, horizon=20)
    # While a job in line is uploaded to a cloud, it is looked at in each slot.
    Server.objects.filter(name="cloud").delete()
    market = open_market(cluster, policy="dps", parameters={"slot_convention": "inclusive"})
    one = {"model": "ResNet-50", "epochs": 1, "chunks": 1}
    utility = {"form": "constant", "value": 100}
    promised = submit_bid(cluster=cluster, owner=alice, body=one | {"epochs": 4, "utility": utility}).bid
    decision_queue.process_pending(market.pk)
    change_policy(market, name=policy, parameters={}, by=None)
    waits = submit_bid(cluster=cluster, owner=alice, body=one | {"weight": 1}).bid
    decision_queue.process_pending(market.pk)
    held = max(Commitment.objects.filter(bid=promised).values_list("end", flat=True))
    assert held == (window(promised)[2] or 0) + 1
    for slot in range(held + 3):
        set_time(market, (slot + 0.5) * SLOT_S)
        if slot % 2 == 0:
            book.forget()  # as another process would
        pass_slots(market.pk)
    assert window(waits)[1] == held, "it starts in the first slot in which the machines are free"
    assert_clean(market)
    assert_replayed_as_recorded(market)
    assert_the_same_policy_changes_nothing(market)
