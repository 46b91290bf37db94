"""A market whose policy queues: workers take chunks in order of rank, and rows say all of it."""

import pytest
from django.contrib.auth.models import User

from auctions.engine import decision_queue
from auctions.engine.jobs import cancel_job
from auctions.engine.markets import open_market
from auctions.engine.policies import change_policy
from auctions.engine.slots import pass_slots
from auctions.engine.submission import quote, submit_bid
from auctions.history.audit import audit_market
from auctions.history.replay import replay_market
from auctions.models import (
    Bid,
    BidState,
    Market,
    PlanChange,
    Preemption,
    PsAssignment,
    QueuedChunks,
    Segment,
    SlotPrice,
)
from auctions.readings.market_readings import bars, machines, summary, utilisation
from auctions.readings.queues import displacements, stretches
from auctions.state import book
from auctions.state.book import rebuild
from cluster.guards import checked_change
from cluster.models import Capacity, Server, ServerKind
from scheduling.model.errors import InvalidField
from scheduling.preemptive.workers import TICKS
from tests.auctions.worlds import make_cluster, set_time

pytestmark = pytest.mark.thorough


@pytest.fixture
def queued(db: None) -> Market:
    """A market of one edge server with four workers, and a cloud that is not used."""
    return open_market(make_cluster(servers=1, horizon=40), policy="preemptive", parameters={"cloud": "edge"})


def send(market: Market, owner: User, *, epochs: int = 4, **more: object) -> Bid:
    submitted = submit_bid(cluster=market.cluster, owner=owner, body={"model": "ResNet-50", "epochs": epochs, **more})
    decision_queue.process_pending(market.pk)
    submitted.bid.refresh_from_db()
    return submitted.bid


def window(bid: Bid) -> tuple[str, int | None, int | None]:
    bid.refresh_from_db()
    return str(bid.state), bid.start_slot, bid.completion_slot


def end_of(bid: Bid) -> int:
    bid.refresh_from_db()
    assert bid.completion_slot is not None
    return bid.completion_slot


def assert_clean(market: Market) -> None:
    market.refresh_from_db()
    assert {f.check: f.rows for f in audit_market(market) if not f.passed} == {}


def go_to(market: Market, slot: float) -> None:
    set_time(market, slot * market.cluster.slot_seconds)
    pass_slots(market.pk)


def test_a_weight_need_not_be_said_and_nobody_pays(queued: Market, alice: User) -> None:
    bid = send(queued, alice)
    assert (bid.value, bid.payment) == (1.0, 0.0)
    assert send(queued, alice, weight=5).value == 5.0
    assert "Nobody pays here" in bid.decision.receipt
    with pytest.raises(InvalidField, match="utility"):
        send(queued, alice, utility={"form": "constant", "value": 3})
    assert_clean(queued)


def test_short_jobs_pass_long_ones_and_everybody_sees_why(queued: Market, alice: User) -> None:
    set_time(queued, 10.0)
    long = send(queued, alice, epochs=30)
    before = end_of(long)
    go_to(queued, 3.5)
    short = send(queued, alice, epochs=1)
    assert end_of(short) < end_of(long)
    assert end_of(long) > before
    assert PlanChange.objects.filter(bid=long).count() == 2
    go_to(queued, 60)
    lost = displacements(long, alice)
    assert lost
    assert {row.by for row in lost} == {short.sequence}
    assert window(long)[0] == window(short)[0] == BidState.COMPLETED
    assert_clean(queued)


def test_segments_are_what_chunks_take_and_pages_read_them(queued: Market, alice: User) -> None:
    set_time(queued, 10.0)
    bid = send(queued, alice, epochs=7)
    go_to(queued, 2.5)
    assert Segment.objects.exists()
    ahead = [s for s in stretches(queued, start=0, end=400) if s.end > 3]
    assert ahead
    shown = bars(queued, start=0, end=400, viewer=alice)
    assert {bar.sequence for bar in shown} == {bid.sequence}
    assert {str(bar.role) for bar in shown} == {"worker", "ps"}
    assert machines(bid).workers.max() >= 1
    assert machines(bid).num_ps.max() == 1
    assert utilisation(queued, start=0, end=10).used.sum() > 0
    assert summary(queued).utilisation > 0
    assert summary(queued).price > 0
    go_to(queued, 300)
    total = sum(s.end - s.start for s in Segment.objects.all())
    assert total == sum(row.count * row.each for row in QueuedChunks.objects.all())
    assert -(-max(s.end for s in Segment.objects.all()) // TICKS) == window(bid)[2]
    assert_clean(queued)


def test_a_book_read_back_from_rows_is_the_one_in_memory(queued: Market, alice: User) -> None:
    set_time(queued, 10.0)
    for epochs in (9, 3, 12, 1):
        send(queued, alice, epochs=epochs)
    for slot in (1.5, 2.5, 4.5):
        go_to(queued, slot)
        queued.refresh_from_db()
        kept = book.private_copy(queued, now=queued.now).running.queues
        again = rebuild(queued, now=queued.now).running.queues
        assert kept is not None
        assert again is not None
        assert again.planned() == kept.planned()
        assert again.windows() == kept.windows()
        book.forget()
        send(queued, alice, epochs=2)
    go_to(queued, 400)
    assert_clean(queued)


def test_a_cancelled_job_gives_its_place_to_others(queued: Market, alice: User) -> None:
    set_time(queued, 10.0)
    short, long = send(queued, alice, epochs=10), send(queued, alice, epochs=30)
    before = end_of(long)
    go_to(queued, 2.5)
    cancel_job(short)
    assert end_of(long) < before
    assert QueuedChunks.objects.filter(bid=short, until=None).count() == 0
    go_to(queued, 400)
    assert window(long)[0] == BidState.COMPLETED
    assert_clean(queued)


@pytest.mark.parametrize("rule", ["edge", "jobmax"])
def test_chunks_on_a_server_taken_out_are_sent_elsewhere_or_wait(queued: Market, alice: User, rule: str) -> None:
    change_policy(queued, name="preemptive", parameters={"cloud": rule}, by=None)
    set_time(queued, 10.0)
    bids = [send(queued, alice, epochs=epochs) for epochs in (8, 3, 5)]
    go_to(queued, 2.5)
    server = Server.objects.filter(cluster=queued.cluster).order_by("position").first()
    assert server is not None
    with checked_change(queued.cluster):
        Capacity.objects.filter(server=server).update(amount=0)
    assert QueuedChunks.objects.exclude(until=None).exists()
    in_line = sum(window(bid)[2] is None for bid in bids)
    # The cloud has eight workers, and each job four chunks.
    assert in_line == (3 if rule == "edge" else 1)
    book.forget()
    go_to(queued, 5.5)
    with checked_change(queued.cluster):
        Capacity.objects.filter(server=server).update(amount=4)
    go_to(queued, 600)
    assert {window(bid)[0] for bid in bids} == {BidState.COMPLETED}
    assert_clean(queued)


def test_a_job_does_not_keep_a_parameter_server_that_is_taken_out(db: None, alice: User) -> None:
    """Workers are on edge-0, parameter servers on edge-1 and edge-2, and there is no cloud."""
    cluster = make_cluster(servers=3, horizon=40)
    Server.objects.filter(name="cloud").delete()
    Capacity.objects.filter(server__name="edge-0", resource__name="ps").update(amount=0)
    Capacity.objects.filter(server__name__in=["edge-1", "edge-2"], resource__name="gpu").update(amount=0)
    market = open_market(cluster, policy="preemptive", parameters={})
    set_time(market, 10.0)
    bid = send(market, alice, epochs=20)
    go_to(market, 2.5)
    with checked_change(cluster):
        Capacity.objects.filter(server__name="edge-1").update(amount=0)
    go_to(market, 60)
    assert window(bid)[0] == BidState.COMPLETED
    served = PsAssignment.objects.order_by("start").values_list("server__name", "end")
    # What is done in a slot that has begun no longer changes.
    assert [name for name, _ in served] == ["edge-1", "edge-2"]
    assert served[0][1] == 3 * TICKS
    assert_clean(market)
    # From slot 3 on edge-1 has none, whatever it had before.
    PsAssignment.objects.filter(server__name="edge-1").update(end=4 * TICKS)
    market.refresh_from_db()
    assert [f.check for f in audit_market(market) if not f.passed] == ["no parameter server is shared"]


@pytest.mark.parametrize("only_with_ps", [True, False])
def test_jobs_without_a_parameter_server_go_back_in_line(db: None, alice: User, only_with_ps: bool) -> None:
    """Two jobs run side by side on four workers, until one of the two parameter servers is taken out."""
    cluster = make_cluster(servers=1, horizon=40)
    Server.objects.filter(name="cloud").delete()
    of_ps = Capacity.objects.filter(server__name="edge-0", resource__name="ps")
    of_ps.update(amount=2)
    market = open_market(cluster, policy="preemptive", parameters={"only_with_ps": only_with_ps})
    set_time(market, 10.0)
    short, long = send(market, alice, epochs=6, chunks=2), send(market, alice, epochs=20, chunks=2)
    go_to(market, 2.5)
    with checked_change(cluster):
        of_ps.update(amount=1)
    assert window(long)[1:] == ((1, None) if only_with_ps else (1, end_of(long)))
    assert window(short)[2] is not None
    book.forget()
    for slot in (20, 60):
        go_to(market, slot)
    assert {window(bid)[0] for bid in (short, long)} == {BidState.COMPLETED}
    market.refresh_from_db()
    wrong = [f.check for f in audit_market(market) if not f.passed]
    assert wrong == ([] if only_with_ps else ["no parameter server is shared"])


def test_chunks_on_a_server_that_becomes_a_cloud_are_sent_elsewhere(db: None, alice: User) -> None:
    market = open_market(make_cluster(servers=2, horizon=40), policy="preemptive", parameters={"cloud": "edge"})
    set_time(market, 10.0)
    bid = send(market, alice, epochs=8)
    go_to(market, 2.5)
    with checked_change(market.cluster):
        Server.objects.filter(name="edge-0").update(kind=ServerKind.CLOUD)
    assert set(QueuedChunks.objects.filter(until=None).values_list("server__name", flat=True)) == {"edge-1"}
    book.forget()
    go_to(market, 5.5)
    with checked_change(market.cluster):
        Server.objects.filter(name="edge-0").update(kind=ServerKind.EDGE)
    book.forget()
    go_to(market, 400)
    assert window(bid)[0] == BidState.COMPLETED
    assert_clean(market)


def test_another_policy_waits_until_queues_are_empty(queued: Market, alice: User) -> None:
    set_time(queued, 10.0)
    send(queued, alice)
    with pytest.raises(InvalidField, match="queues"):
        change_policy(queued, name="fifo", parameters={}, by=None)
    go_to(queued, 400)
    change_policy(queued, name="fifo", parameters={}, by=None)
    send(queued, alice, weight=1)
    with pytest.raises(InvalidField, match="hold"):
        change_policy(queued, name="preemptive", parameters={}, by=None)
    assert_clean(queued)


def test_a_quote_says_what_a_bid_would_get_and_changes_nothing(queued: Market, alice: User) -> None:
    set_time(queued, 10.0)
    send(queued, alice, epochs=9)
    offered = quote(market=queued, body={"model": "ResNet-50", "epochs": 2})
    assert offered.decision.admitted
    assert not Preemption.objects.exists()
    assert offered.decision.schedule is not None
    assert end_of(send(queued, alice, epochs=2)) == offered.decision.schedule.completion
    assert_clean(queued)


def test_ageing_outlives_a_restart_and_a_change_of_policy(db: None, alice: User) -> None:
    cluster = make_cluster(servers=1, horizon=40)
    market = open_market(cluster, policy="preemptive", parameters={"cloud": "edge", "ageing": 2.0})
    go_to(market, 3)
    first, second = send(market, alice, epochs=8), send(market, alice)
    assert {row.handicap for row in QueuedChunks.objects.filter(bid__in=[first, second])} == {6 * TICKS}
    book.forget()
    go_to(market, 4)
    change_policy(market, name="preemptive", parameters={"cloud": "edge"}, by=None)
    third = send(market, alice)
    assert QueuedChunks.objects.filter(bid=third).values_list("handicap", flat=True)[0] == 0
    go_to(market, 40)
    assert_clean(market)


def test_another_process_catches_up_with_queues(queued: Market, alice: User) -> None:
    set_time(queued, 10.0)
    send(queued, alice, epochs=20)
    queued.refresh_from_db()
    here = book.private_copy(queued, now=1)
    book.forget()
    send(queued, alice, epochs=3)
    go_to(queued, 2.5)
    send(queued, alice, epochs=1)
    queued.refresh_from_db()
    book.forget()
    book.store(queued, here)
    caught = book.checkout(queued, now=3)
    fresh = rebuild(queued, now=3)
    assert caught.running.ran == []
    assert caught.running.jobs == fresh.running.jobs
    assert caught.running.queues is not None
    assert fresh.running.queues is not None
    assert caught.running.queues.planned() == fresh.running.queues.planned()
    book.store(queued, caught)
    send(queued, alice, epochs=2)
    go_to(queued, 400)
    assert_clean(queued)


def test_a_slot_is_kept_with_the_workers_busy_in_it(queued: Market, alice: User) -> None:
    set_time(queued, 10.0)
    send(queued, alice, epochs=3)
    send(queued, alice, epochs=1)
    for slot in (1.5, 2.5, 6.5, 300):
        go_to(queued, slot)
    kept = {row.slot: row.used[0] for row in SlotPrice.objects.filter(market=queued)}
    ran = list(Segment.objects.values_list("queued__worker", "start", "end"))
    for slot, (gpus, pss) in kept.items():
        at_work = {worker for worker, start, end in ran if start < (slot + 1) * TICKS and end > slot * TICKS}
        assert (gpus, pss) == (len(at_work), 0)
    assert 0 < max(gpus for gpus, _ in kept.values()) <= 4
    before = utilisation(queued, start=1, end=2).used[0, 0].tolist()
    assert before == [4, 1]
    assert_clean(queued)
    SlotPrice.objects.filter(slot=1).update(used=[[0, 0], [0, 0]])
    assert {f.check for f in audit_market(queued) if not f.passed} == {"slots are kept as they began"}


def test_the_cloud_is_as_busy_as_it_has_chunks(queued: Market, alice: User) -> None:
    change_policy(queued, name="preemptive", parameters={"cloud": "cloud"}, by=None)
    set_time(queued, 10.0)
    send(queued, alice, epochs=3)
    send(queued, alice, epochs=3)
    used = utilisation(queued, start=0, end=20).used
    assert used[:, 1, 0].max() == 8
    assert used[:, 0].sum() == 0
    go_to(queued, 30)
    assert_clean(queued)


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("left", [0, 1])
def test_chunks_may_come_to_a_worker_that_has_chunks_of_their_job(
    db: None, alice: User, left: int, restart: bool
) -> None:
    servers = 2 if left == 0 else 1
    market = open_market(
        make_cluster(servers=servers, horizon=40, units=2 if left == 0 else 4),
        policy="preemptive",
        parameters={"cloud": "edge"},
    )
    go_to(market, 0.01)
    long, short = send(market, alice, epochs=8), send(market, alice, epochs=2)
    with checked_change(market.cluster):
        Capacity.objects.filter(server__name="edge-0").update(amount=left)
    places = QueuedChunks.objects.filter(bid=long, until=None).values_list("server", "worker")
    assert len(places) > len(set(places))
    for slot in (0.5, 4.5, 6.5, 11.5, 18.5, 400):
        if restart:
            book.forget()
        go_to(market, slot)
        assert_clean(market)
    assert replay_market(market).mismatches == ()
    assert window(long)[0] == window(short)[0] == "completed"


def test_delays_that_change_leave_uploads_under_way_alone(db: None, alice: User) -> None:
    market = open_market(make_cluster(servers=1, horizon=40), policy="preemptive", parameters={"cloud": "edge"})
    go_to(market, 0.01)
    with checked_change(market.cluster):
        Server.objects.filter(name="edge-0").update(upload_delay_s=300)
    bid = send(market, alice, epochs=2)
    before = window(bid)
    with checked_change(market.cluster):
        Server.objects.filter(name="edge-0").update(upload_delay_s=0)
    book.forget()
    other = send(market, alice, epochs=2)
    assert window(bid)[:2] == before[:2]
    assert window(other)[1] != before[1]
    for slot in (3.5, 400):
        book.forget()
        go_to(market, slot)
        assert_clean(market)
    assert (window(bid)[0], window(other)[0]) == ("completed", "completed")
