"""Servers that are lost, drained and returned: who moves, who fails, what is paid back, and what is kept of it."""

from dataclasses import dataclass

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from auctions.counterfactual.comparison import compare
from auctions.counterfactual.record import Record
from auctions.domain.errors import WrongState
from auctions.domain.refunds import Refund
from auctions.engine import decision_queue
from auctions.engine.jobs import cancel_job, fail_job
from auctions.engine.markets import open_market
from auctions.engine.servers import drain_server, lose_server, restore_server
from auctions.engine.slots import pass_slots
from auctions.engine.submission import quote, submit_bid
from auctions.history.audit import audit_market
from auctions.history.replay import replay_market
from auctions.models import Bid, BidState, Commitment, DecisionRecord, Event, EventKind, Market, Outage, Segment
from auctions.readings import certificates
from cluster.guards import ChangeRefused, checked_change
from cluster.models import Capacity, Cluster, Resource, Server
from scheduling.model.errors import InvalidField
from scheduling.model.schedule import CLOUD
from scheduling.model.types import Json
from scheduling.policies.base import Objective
from scheduling.registry import POLICIES, make_policy
from tests.auctions.counterfactual.assertions import (
    assert_every_bid_is_accounted_for,
    assert_replayed_as_recorded,
    assert_stands_on_rows_as_on_events,
    assert_the_same_policy_changes_nothing,
)
from tests.auctions.worlds import SLOT_S, body, make_cluster, make_market, make_user, set_time, submit
from tests.draws import some
from tests.scheduling.policy_settings import SETTINGS

pytestmark = pytest.mark.thorough

EVERY = [(name, one) for name, many in SETTINGS.items() for one in some(many, 1)]
"""Every policy, with one of its settings in each run and all of them in a soak."""


def server(market: Market, name: str) -> Server:
    return Server.objects.get(cluster=market.cluster, name=name)


def broken(market: Market) -> dict[str, tuple[str, ...]]:
    return {f.check: f.rows for f in audit_market(market) if not f.passed}


def costs_of(bid: Bid) -> list[float]:
    """What each slot of its schedule cost."""
    return list(DecisionRecord.objects.get(bid=bid).costs or [])


def held_from(market: Market, name: str, slot: int) -> list[int]:
    """Bids that hold machines of a server in this slot or later."""
    rows = Commitment.objects.filter(bid__market=market, server__name=name, end__gt=slot)
    return sorted({row.bid.sequence for row in rows if row.end > max(row.start, slot)})


@dataclass
class Paid:
    """A DPS market of one small server in which one job runs in slots 1 to 5 and paid for them."""

    market: Market
    bid: Bid


@pytest.fixture
def paid(alice: User) -> Paid:
    """edge-0 and the cloud; the cloud is too far away for the job's deadline."""
    market = make_market(make_cluster(servers=1, units=4))
    utility = {"form": "step", "value": 500.0, "deadline_s": 6 * SLOT_S}
    bid = submit(market, alice, 500.0, epochs=5, utility=utility, upload_delay_s={"cloud": 10 * SLOT_S})
    decision_queue.process_pending(market.pk)
    bid.refresh_from_db()
    assert bid.state == BidState.RUNNING or bid.state == BidState.PLANNED
    assert bid.payment
    assert bid.start_slot is not None
    return Paid(market, bid)


def test_a_promise_on_a_lost_server_fails_and_what_was_not_delivered_is_paid_back(paid: Paid) -> None:
    market, bid = paid.market, paid.bid
    start, end = bid.start_slot or 0, bid.completion_slot or 0
    costs = costs_of(bid)
    assert len(costs) == end - start
    assert sum(costs) == pytest.approx(bid.payment)
    set_time(market, (start + 1.5) * SLOT_S)  # in its second slot
    lose_server(server(market, "edge-0"), reason="the power supply broke", by=None)
    bid.refresh_from_db()
    assert bid.state == BidState.FAILED
    assert bid.ended_slot == start + 2
    assert bid.refund == pytest.approx(sum(costs[2:]))
    assert 0 < bid.refund < (bid.payment or 0)
    assert "Server edge-0 was lost" in bid.end_reason
    assert "the power supply broke" in bid.end_reason
    assert held_from(market, "edge-0", start + 2) == []
    assert broken(market) == {}
    assert replay_market(market).mismatches == ()


def test_a_promise_that_had_not_begun_is_paid_back_whole(paid: Paid) -> None:
    lose_server(server(paid.market, "edge-0"), reason="", by=None)
    paid.bid.refresh_from_db()
    if (paid.bid.start_slot or 0) >= (paid.bid.ended_slot or 0):
        assert paid.bid.refund == paid.bid.payment
    assert paid.bid.state == BidState.FAILED
    assert broken(paid.market) == {}


def test_a_promise_is_kept_on_other_machines_where_they_are_free_at_no_other_price(market: Market, alice: User) -> None:
    submit(market, alice, 500.0, epochs=5)
    decision_queue.process_pending(market.pk)
    bid = Bid.objects.get()
    lost = Commitment.objects.filter(bid=bid).first()
    assert lost is not None
    set_time(market, 1.5 * SLOT_S)
    lose_server(lost.server, reason="", by=None)
    before, bid = bid, Bid.objects.get()
    assert bid.state == BidState.RUNNING
    assert (bid.payment, bid.value, bid.refund) == (before.payment, before.value, 0.0)
    assert bid.completion_slot is not None
    assert bid.completion_slot <= (before.completion_slot or 0)
    assert bid.kept_from == 2
    assert held_from(market, lost.server.name, 2) == []
    assert broken(market) == {}
    assert replay_market(market).mismatches == ()


def test_a_lost_server_returns_with_what_it_has(market: Market, alice: User) -> None:
    for name in ("edge-0", "edge-1", "cloud"):
        lose_server(server(market, name), reason="", by=None)
    submit(market, alice)
    decision_queue.process_pending(market.pk)
    assert Bid.objects.get().state == BidState.REJECTED
    restore_server(server(market, "edge-1"), reason="", by=None)
    submit(market, alice)
    decision_queue.process_pending(market.pk)
    assert Bid.objects.latest("sequence").state in (BidState.PLANNED, BidState.RUNNING)
    assert {row.server.name for row in Commitment.objects.select_related("server")} == {"edge-1"}
    assert broken(market) == {}


def test_a_drained_server_finishes_what_it_holds_and_takes_nothing_new(paid: Paid, alice: User) -> None:
    market = paid.market
    drain_server(server(market, "edge-0"), reason="a fan is loud", by=None)
    submit(market, alice, epochs=1, upload_delay_s={"cloud": 10 * SLOT_S})
    decision_queue.process_pending(market.pk)
    other = Bid.objects.latest("sequence")
    assert held_from(market, "edge-0", 0) == [1], f"{other} is not there"
    for slot in range(1, 9):
        set_time(market, slot * SLOT_S + 1)
        pass_slots(market.pk)
    paid.bid.refresh_from_db()
    assert paid.bid.state == BidState.COMPLETED
    assert broken(market) == {}


def test_what_a_cancelled_job_gives_back_on_a_drained_server_is_not_sold_again(paid: Paid, alice: User) -> None:
    market = paid.market
    drain_server(server(market, "edge-0"), reason="", by=None)
    cancel_job(paid.bid)
    offered = quote(market=market, body=body(900.0, upload_delay_s={"cloud": 10 * SLOT_S}))
    placements = () if offered.decision.schedule is None else offered.decision.schedule.placements
    assert all(p.server != 0 for p in placements)


def test_at_its_deadline_a_drained_server_is_lost_to_those_who_hold_it(paid: Paid) -> None:
    market, bid = paid.market, paid.bid
    drain_server(server(market, "edge-0"), deadline=3, reason="move to another rack", by=None)
    assert Bid.objects.get(pk=bid.pk).state in (BidState.PLANNED, BidState.RUNNING)
    set_time(market, 2 * SLOT_S + 1)
    pass_slots(market.pk)
    bid.refresh_from_db()
    assert (bid.state, bid.ended_slot) == (BidState.FAILED, 3)
    assert "was taken out of service from slot 3 on (move to another rack)" in bid.end_reason
    assert held_from(market, "edge-0", 3) == []
    assert broken(market) == {}
    assert replay_market(market).mismatches == ()


def test_a_drain_from_a_later_slot_sells_what_is_free_until_then(alice: User) -> None:
    market = make_market(make_cluster(servers=1, units=4, horizon=20))
    drain_server(server(market, "edge-0"), from_slot=4, reason="", by=None)
    for epochs in (1, 8):
        submit(market, alice, 500.0, epochs=epochs, upload_delay_s={"cloud": 15 * SLOT_S})
    decision_queue.process_pending(market.pk)
    ends = Commitment.objects.filter(server__name="edge-0").values_list("end", flat=True)
    assert ends
    assert max(ends) <= 4
    assert broken(market) == {}


def test_saying_it_again_changes_nothing_and_what_cannot_be_is_refused(paid: Paid) -> None:
    market, edge = paid.market, server(paid.market, "edge-0")
    drain_server(edge, deadline=9, reason="", by=None)
    events = Event.objects.filter(market=market).count()
    drain_server(edge, deadline=9, reason="again", by=None)
    restore_server(server(market, "cloud"), reason="", by=None)
    assert Event.objects.filter(market=market).count() == events
    with pytest.raises(InvalidField, match="from_slot: expected a slot from 0"):
        drain_server(edge, from_slot=-1, reason="", by=None)
    with pytest.raises(InvalidField, match="deadline_slot: expected a slot from 5"):
        drain_server(edge, from_slot=5, deadline=4, reason="", by=None)
    lose_server(edge, reason="", by=None)
    events = Event.objects.filter(market=market).count()
    lose_server(edge, reason="", by=None)
    assert Event.objects.filter(market=market).count() == events
    with pytest.raises(WrongState, match="out of service already"):
        drain_server(edge, reason="", by=None)
    assert [row.ended_slot for row in Outage.objects.filter(server=edge)] == [None, 0]


def test_saying_it_again_in_a_slot_writes_no_work_that_belongs_to_no_event(alice: User) -> None:
    market = open_market(make_cluster(servers=1, units=4), policy="preemptive", parameters={"cloud": "edge"})
    set_time(market, SLOT_S)  # the very beginning of slot 1, which is still on sale
    pass_slots(market.pk)
    sent = {key: value for key, value in body().items() if key != "utility"}
    submit_bid(cluster=market.cluster, owner=alice, body=sent | {"weight": 3})
    decision_queue.process_pending(market.pk)
    set_time(market, 1.5 * SLOT_S)
    restore_server(server(market, "edge-0"), reason="", by=None)
    assert not Segment.objects.exists()
    assert broken(market) == {}
    lose_server(server(market, "edge-0"), reason="a fan broke", by=None)
    assert Segment.objects.exists(), "work up to now is of this event"
    assert broken(market) == {}


def test_capacity_that_is_held_cannot_go_and_the_message_says_what_can_be_done(paid: Paid) -> None:
    with (
        pytest.raises(ChangeRefused, match="Take the server out of service instead"),
        checked_change(paid.market.cluster),
    ):
        Capacity.objects.filter(server__name="edge-0").update(amount=0)


def test_a_server_that_is_out_of_service_stays_so_while_the_cluster_changes(market: Market) -> None:
    lose_server(server(market, "edge-0"), reason="", by=None)
    with checked_change(market.cluster):
        Capacity.objects.filter(server__name="edge-0").update(amount=9)
    last = Event.objects.filter(kind=EventKind.INVENTORY).latest("version").payload
    assert (last["capacity"][0], last["out"][0]) == ([0, 0], [9, 9])
    restore_server(server(market, "edge-0"), reason="", by=None)
    last = Event.objects.filter(kind=EventKind.INVENTORY).latest("version").payload
    assert last["capacity"][0] == [9, 9]
    assert "out" not in last


@pytest.mark.parametrize("how", list(Refund))
def test_an_operator_fails_a_job_with_the_refund_that_is_chosen(paid: Paid, how: Refund) -> None:
    market, bid = paid.market, paid.bid
    start = bid.start_slot or 0
    set_time(market, (start + 0.5) * SLOT_S)
    fail_job(bid, "its data set was wrong", refund=how)
    bid.refresh_from_db()
    costs = costs_of(bid)
    expected = {Refund.FULL: bid.payment, Refund.NONE: 0.0, Refund.UNDELIVERED: sum(costs[1:])}[how]
    assert bid.refund == pytest.approx(expected)
    assert (bid.state, bid.end_reason) == (BidState.FAILED, "its data set was wrong")
    assert broken(market) == {}


def test_the_audit_finds_a_refund_that_nobody_was_due(paid: Paid) -> None:
    fail_job(paid.bid, "", refund=Refund.NONE)
    Bid.objects.filter(pk=paid.bid.pk).update(refund=paid.bid.payment)
    assert broken(paid.market).keys() == {"failed jobs are paid back what was not delivered"}


def test_the_audit_finds_who_holds_a_lost_server(paid: Paid) -> None:
    lose_server(server(paid.market, "edge-0"), reason="", by=None)
    Outage.objects.update(out_slot=0)
    Commitment.objects.filter(bid=paid.bid).update(end=8)
    assert "nobody holds a server out of service" in broken(paid.market)


@pytest.mark.soak
@pytest.mark.parametrize(("policy", "parameters"), some(EVERY, 4))
def test_under_every_policy_nobody_is_left_on_a_lost_server(db: None, policy: str, parameters: Json) -> None:
    """Servers are lost, drained and returned while jobs run; all of the audit, the replay and counterfactual agree."""
    kind = make_policy(policy, parameters)
    cluster = make_cluster(servers=3, units=3, horizon=16)
    if policy == "oasis":
        apart(cluster)
    market, alice = open_market(cluster, policy=policy, parameters=parameters), make_user()
    stated: Json = {"utility": {"form": "constant", "value": 300.0}}
    if kind.objective is not Objective.WELFARE:
        stated = {"weight": 3.0}

    def bids(number: int, epochs: int) -> None:
        for _ in range(number):
            sent = {key: value for key, value in body(300.0, epochs=epochs).items() if key != "utility"} | stated
            submit_bid(cluster=market.cluster, owner=alice, body=sent)
        decision_queue.process_pending(market.pk)

    def at(slot: int) -> None:
        set_time(market, slot * SLOT_S + 1)
        pass_slots(market.pk)
        if kind.objective is Objective.WELFARE:
            certificates.renew(market.pk)

    bids(4, 4)
    at(1)
    lose_server(server(market, "edge-0"), reason="", by=None)
    bids(2, 2)
    at(2)
    drain_server(server(market, "edge-1"), from_slot=4, deadline=6, reason="", by=None)
    bids(3, 6)
    for slot in (3, 4, 5, 6, 7):
        at(slot)
    assert held_from(market, "edge-1", 6) == []
    assert (
        not Segment.objects.filter(queued__server__name="edge-0", start__gt=2 * 10**9)
        .exclude(queued__worker=CLOUD)
        .exists()
    )
    restore_server(server(market, "edge-0"), reason="", by=None)
    drain_server(server(market, "edge-2"), reason="", by=None)
    bids(2, 3)
    at(9)
    lose_server(server(market, "cloud"), reason="", by=None)
    at(12)
    assert broken(market) == {}
    assert replay_market(market).mismatches == ()
    assert_replayed_as_recorded(market)
    assert_stands_on_rows_as_on_events(market)
    assert_the_same_policy_changes_nothing(market)
    assert_every_bid_is_accounted_for(market, "dps", "srtf")


def apart(cluster: Cluster) -> None:
    """OASiS keeps workers and parameter servers on servers of their own."""
    gpu, ps = Resource.objects.filter(cluster=cluster).order_by("position")
    Capacity.objects.filter(server__name__in=("edge-0", "edge-1"), resource=ps).update(amount=0)
    Capacity.objects.filter(server__name__in=("edge-2", "cloud"), resource=gpu).update(amount=0)


def test_every_policy_is_tried_here() -> None:
    assert {name for name, _ in EVERY} == set(POLICIES)


def test_the_same_server_is_lost_under_another_policy(paid: Paid) -> None:
    """FIFO would have paused the job; the cloud takes it from there."""
    market = paid.market
    set_time(market, 2.5 * SLOT_S)
    lose_server(server(market, "edge-0"), reason="", by=None)
    found = compare(Record.of(market), make_policy("fifo", {}))
    recorded, other = found.rows[0].sides
    assert recorded.state == BidState.FAILED
    assert recorded.refund == Bid.objects.get().refund
    assert recorded.payoff == -(recorded.payment - recorded.refund)
    assert found.recorded.revenue == pytest.approx(recorded.payment - recorded.refund)
    assert other.state in (BidState.PLANNED, BidState.RUNNING)


def test_operators_do_it_in_the_admin(paid: Paid, client: Client) -> None:
    market = paid.market
    client.force_login(User.objects.create_superuser("root"))
    say, edge = reverse("admin:auctions_outage_report"), server(market, "edge-0")
    assert "Take a server out of service" in client.get(reverse("admin:auctions_outage_changelist")).content.decode()
    refused = client.post(say, {"server": edge.pk, "kind": "drain", "from_slot": "-4", "reason": ""}).content.decode()
    assert "expected a slot from" in refused
    twice = {"server": edge.pk, "kind": "drain", "from_slot": "-4", "deadline_slot": "10000000", "reason": ""}
    assert set(client.post(say, twice).context["form"].errors) == {"from_slot", "deadline_slot"}
    later = {**twice, "kind": "lost", "from_slot": "5"}
    assert set(client.post(say, later).context["form"].errors) == {"from_slot", "deadline_slot"}
    assert not Outage.objects.exists(), "a server is lost at once, and so not in a later slot"
    page = client.post(say, {"server": edge.pk, "kind": "lost", "reason": "it burns"}, follow=True).content.decode()
    assert "is out of service, or takes no new work." in page
    events = client.get(reverse("admin:auctions_event_changelist")).content.decode()
    assert "Server edge-0: lost" in events
    assert "Server edge-0 was lost from slot" in events, "why the job failed"
    row = Outage.objects.get(ended_version=None)
    assert (row.kind, row.reason, row.reported_by) == ("lost", "it burns", User.objects.get(username="root"))
    action = {"action": "return_to_service", "_selected_action": [row.pk]}
    client.post(reverse("admin:auctions_outage_changelist"), action)
    assert not Outage.objects.filter(ended_version=None).exists()
    submit(market, User.objects.get(username="alice"))
    decision_queue.process_pending(market.pk)
    chosen = {"action": "fail", "_selected_action": [Bid.objects.latest("sequence").pk], "refund": "full"}
    client.post(reverse("admin:auctions_bid_changelist"), chosen)
    assert Bid.objects.latest("sequence").state != BidState.FAILED, "a reason is needed"
    client.post(reverse("admin:auctions_bid_changelist"), {**chosen, "reason": "its data was damaged"})
    bid = Bid.objects.latest("sequence")
    assert (bid.state, bid.refund, bid.end_reason) == (BidState.FAILED, bid.payment, "its data was damaged")


def test_the_admin_says_of_each_server_whose_it_is(paid: Paid, client: Client) -> None:
    other = make_market(make_cluster("annex"))
    client.force_login(User.objects.create_superuser("root"))
    say = reverse("admin:auctions_outage_report")
    page = client.get(say).content.decode()
    for market in (paid.market, other):
        edge = server(market, "edge-0")
        assert f'<option value="{edge.pk}">{market.cluster.name}: edge-0</option>' in page
    client.post(say, {"server": server(other, "edge-0").pk, "kind": "lost", "reason": ""})
    assert (
        '<td class="field-cluster">annex</td>'
        in client.get(reverse("admin:auctions_outage_changelist")).content.decode()
    )


def test_bidders_and_staff_outside_the_group_cannot(paid: Paid, client: Client) -> None:
    client.force_login(make_user("stan", is_staff=True))
    answer = client.post(reverse("admin:auctions_outage_report"), {"server": 1, "kind": "lost", "reason": ""})
    assert answer.status_code in (302, 403)
    assert not Outage.objects.exists()
