"""What one bidder would have got by stating something else, at that moment."""

from collections.abc import Callable
from contextlib import ExitStack
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from auctions.counterfactual import alternatives as module
from auctions.counterfactual import waypoints
from auctions.counterfactual.alternatives import TooLong, alternatives_of, deadline
from auctions.counterfactual.record import Record
from auctions.counterfactual.replayed import Receipts, ReplayedMarket
from auctions.domain.errors import WrongState
from auctions.engine import decision_queue
from auctions.engine.jobs import cancel_job
from auctions.engine.markets import open_market
from auctions.engine.policies import change_policy
from auctions.engine.slots import pass_slots
from auctions.engine.submission import submit_bid
from auctions.models import Bid, DecisionRecord, Event, EventKind, Market
from auctions.readings import computation_limits
from cluster.guards import checked_change
from scheduling.model.decision import Decision, parse
from tests.auctions.worlds import add_server, make_cluster, set_time, submit

pytestmark = pytest.mark.thorough

STEP = {"form": "step", "value": 40.0, "deadline_s": 500}


def test_the_truth_brings_what_the_receipt_says_whatever_happened_since(market: Market, alice: User) -> None:
    bids = [submit(market, alice, epochs=2, utility=STEP) for _ in range(6)]
    decision_queue.process_pending(market.pk)
    for bid in bids[:3]:
        cancel_job(Bid.objects.get(pk=bid.pk))
    set_time(market, 250.0)
    pass_slots(market.pk)
    change_policy(market, name="dps", parameters={"price": "paper"}, by=None)
    for bid in Bid.objects.filter(market=market):
        found = alternatives_of(bid, caller=1)
        receipt = Decision.from_json(parse(bid.decision.receipt))
        (seen,) = (point for point in found.by_value if point.factor == 1.0)
        assert (seen.admitted, seen.payment, seen.payoff) == (receipt.admitted, receipt.payment, receipt.payoff)
        assert found.policy.to_json() != {"price": "paper"}
        assert (found.slot, found.amplitude, found.time) == (0, 40.0, 5.0)
        assert found.truthful
        assert len(found.by_time) == 30


def test_a_later_deadline_is_met_later_and_an_impossible_one_by_nobody(market: Market, alice: User) -> None:
    bid = submit(market, alice, epochs=4, utility=STEP)
    decision_queue.process_pending(market.pk)
    found = alternatives_of(Bid.objects.get(pk=bid.pk), caller=1)
    tight, own = found.by_time[0], found.by_time[9]
    assert (tight.stated, tight.admitted, tight.payoff) == (0.5, False, 0.0)
    assert own.admitted
    assert all(point.completion is None or point.completion <= point.stated for point in found.by_time)


def test_a_plan_that_is_no_promise_is_asked_of_the_book_as_events_left_it(alice: User) -> None:
    market = open_market(make_cluster(servers=1), policy="weighted_completion")
    body = {"model": "ResNet-50", "epochs": 4, "upload_delay_s": {"cloud": 5000}}
    for weight in (1.0, 2.0, 3.0):
        submit_bid(cluster=market.cluster, owner=alice, body={**body, "weight": weight})
        decision_queue.process_pending(market.pk)
    second = Bid.objects.get(market=market, sequence=2)
    found = alternatives_of(second, caller=1)
    seen = {point.factor: point.completion for point in found.by_value}
    assert seen[1.0] == 4  # before the third came, it went first
    assert seen[0.2] == 8
    assert not found.truthful
    assert found.by_time == ()


def test_a_bid_that_waits_has_no_moment_yet(market: Market, alice: User) -> None:
    with pytest.raises(WrongState, match="only a decided bid"):
        alternatives_of(submit(market, alice), caller=1)


def test_a_way_that_is_too_long_is_refused(alice: User) -> None:
    market = open_market(make_cluster(servers=1), policy="fifo")
    submit_bid(cluster=market.cluster, owner=alice, body={"model": "ResNet-50", "epochs": 4, "weight": 1})
    decision_queue.process_pending(market.pk)
    with pytest.raises(TooLong, match="more than -1 s"):
        alternatives_of(Bid.objects.get(market=market), caller=1, checkpoint=deadline(-1))


@pytest.mark.parametrize("policy", ["weighted_completion", "preemptive"])
def test_the_way_to_a_late_bid_is_no_longer_than_to_the_nearest_waypoint(
    policy: str, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    waypoints.forget()
    monkeypatch.setattr(waypoints, "EVENTS", 4)
    market = open_market(make_cluster(servers=2), policy=policy)
    for number in range(12):
        submit_bid(
            cluster=market.cluster, owner=alice, body={"model": "ResNet-50", "epochs": 1 + number % 3, "weight": 1}
        )
        if number == 6:
            with checked_change(market.cluster):
                add_server(market.cluster, "late", units=4)
        decision_queue.process_pending(market.pk)
        set_time(market, 100.0 * number)
        pass_slots(market.pk)
    assert Event.objects.filter(kind=EventKind.INVENTORY).exists()
    record = Record.of(market)
    versions = list(DecisionRecord.objects.order_by("version").values_list("version", flat=True))
    calls: list[int] = []
    record.book_before(versions[-1], checkpoint=lambda: calls.append(1))
    assert len(calls) == versions[-1] - 1
    for version in reversed(versions):
        calls.clear()
        replayed = record.book_before(version, checkpoint=lambda: calls.append(1))
        assert len(calls) < 4
        fresh = record.before(version)
        now = Event.objects.get(market=market, version=version).slot
        assert replayed.at(now).running.jobs == fresh.at(now).running.jobs
        assert (replayed.at(now).used() == fresh.at(now).used()).all()


def test_bids_under_way_are_read_only_if_servers_changed_meanwhile(
    alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    waypoints.forget()
    monkeypatch.setattr(waypoints, "EVENTS", 4)
    market = open_market(make_cluster(servers=1), policy="weighted_completion")
    for _ in range(8):
        submit_bid(cluster=market.cluster, owner=alice, body={"model": "ResNet-50", "epochs": 9, "weight": 1})
        decision_queue.process_pending(market.pk)
    last = DecisionRecord.objects.latest("version").version
    Record.of(market).book_before(last)
    found = Record.of(market).book_before(last)
    assert len(found.book.running.jobs) == 7
    assert len(found.bids) <= 3
    with checked_change(market.cluster):
        add_server(market.cluster, "late", units=4)
    submit_bid(cluster=market.cluster, owner=alice, body={"model": "ResNet-50", "epochs": 9, "weight": 1})
    decision_queue.process_pending(market.pk)
    assert len(Record.of(market).book_before(DecisionRecord.objects.latest("version").version).bids) == 9


def test_where_nothing_moves_only_jobs_that_were_under_way_are_read(market: Market, alice: User) -> None:
    for _ in range(6):
        submit(market, alice, epochs=2, utility=STEP)
    decision_queue.process_pending(market.pk)
    third = DecisionRecord.objects.get(bid__market=market, bid__sequence=3).version
    record = Record.of(market)
    with CaptureQueriesContext(connection) as asked:
        found = record.book_before(third)
    statements = [query["sql"] for query in asked]
    assert not [one for one in statements if '"costs"' in one or ("submitted" in one and "NOT" not in one)]
    whole = record.before(third)
    assert {bid.sequence for bid in found.bids.values()} == {1, 2}
    assert len(whole.bids) == 6
    assert found.book.running.jobs == whole.book.running.jobs
    assert (found.book.used() == whole.book.used()).all()


def test_no_more_waypoints_are_kept_than_memory_is_meant_for(monkeypatch: pytest.MonkeyPatch) -> None:
    waypoints.forget()
    monkeypatch.setattr(waypoints._states, "size", 2)
    first, second = uuid4(), uuid4()
    for market, since in ((first, 64), (first, 128), (second, 64)):
        waypoints.store(market, since, ReplayedMarket({}, Receipts()))
    found = waypoints.nearest(first, 200)
    assert found is not None
    assert found[0] == 128
    assert waypoints.nearest(first, 127) is None
    waypoints.store(second, 128, ReplayedMarket({}, Receipts()))  # what was used last stays
    assert waypoints.nearest(second, 64) is None
    assert waypoints.nearest(first, 128) is not None


def test_the_charts_of_a_page_and_its_table_are_computed_once(
    market: Market, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    bids = [submit(market, alice, epochs=2, utility=STEP) for _ in range(2)]
    decision_queue.process_pending(market.pk)
    computed: list[int] = []
    compute = Record.book_before

    def counted(record: Record, version: int, *, checkpoint: Callable[[], None]) -> ReplayedMarket:
        computed.append(version)
        return compute(record, version, checkpoint=checkpoint)

    monkeypatch.setattr(Record, "book_before", counted)
    client = Client()
    client.force_login(alice)
    for number, bid in enumerate(bids, start=1):
        for asked in ("stating/value.json", "stating/time.json", "alternatives.csv"):
            answer = client.get(f"/markets/{market.cluster.name}/bids/{bid.sequence}/{asked}")
            assert (answer.status_code, len(computed)) == (200, number)


def test_no_more_tables_are_kept_than_memory_is_meant_for(
    market: Market, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module._results, "size", 2)
    module._results.clear()
    bids = [submit(market, alice, epochs=1) for _ in range(3)]
    decision_queue.process_pending(market.pk)
    first = alternatives_of(bids[0], caller=1)
    alternatives_of(bids[1], caller=1)
    assert alternatives_of(bids[0], caller=2) is first
    alternatives_of(bids[2], caller=1)
    assert len(module._results) == 2
    assert alternatives_of(bids[0], caller=1) is first  # what was used last stays


def test_few_are_computed_at_once_and_the_next_one_is_asked_to_come_again(
    market: Market, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    bid = submit(market, alice, epochs=2, utility=STEP)
    decision_queue.process_pending(market.pk)
    monkeypatch.setattr(computation_limits, "LONGEST_WAIT_S", 0.05)
    with ExitStack() as seats:
        for caller in range(-computation_limits.COMPUTATIONS.at_once, 0):
            seats.enter_context(computation_limits.COMPUTATIONS.turn(caller))
        with pytest.raises(computation_limits.Busy, match="ask again"):
            alternatives_of(bid, caller=1)
        client = Client()
        client.force_login(alice)
        page = f"/markets/{market.cluster.name}/bids/{bid.sequence}"
        table = client.get(f"{page}/alternatives.csv")
        assert (table.status_code, table["Retry-After"]) == (503, "3")
        assert "ask again" in client.get(f"{page}/stating/value.json").json()["note"]
        answer = client.get(f"/api/v1/clusters/{market.cluster.name}/bids/{bid.sequence}/alternatives")
        assert answer.status_code == 503
        assert int(answer["Retry-After"]) > 0
    assert alternatives_of(bid, caller=1).by_value
