"""A market under anything its people may do, in any order: the audit finds nothing."""

from contextlib import suppress
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models import Q
from django.utils import timezone
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from accounts import teams
from accounts.models import Role, Team
from auctions.domain.bid_conversion import policy_in_force
from auctions.domain.credits import millionths
from auctions.domain.errors import CannotDecide, WrongState
from auctions.domain.lock import market_time
from auctions.domain.refunds import Refund
from auctions.engine import budgets, decision_queue, team_credits
from auctions.engine.jobs import cancel_job, complete_job, fail_job, retry_bid, withdraw_bid
from auctions.engine.policies import change_policy
from auctions.engine.servers import drain_server, lose_server, restore_server
from auctions.engine.slots import pass_slots
from auctions.engine.submission import quote, submit_bid
from auctions.history.audit import audit_market
from auctions.models import Bid, BidState, Budget, BudgetKind, DecisionRecord, Market
from auctions.readings import certificates
from auctions.state import book
from cluster.guards import ChangeRefused, checked_change
from cluster.models import Capacity, Server
from scheduling.model.decision import parse
from scheduling.model.errors import InvalidField
from scheduling.model.types import Json
from scheduling.policies.base import Objective
from tests.auctions.counterfactual.assertions import (
    assert_every_bid_is_accounted_for,
    assert_replayed_as_recorded,
    assert_stands_on_rows_as_on_events,
    assert_the_same_policy_changes_nothing,
)
from tests.auctions.faulty import UNLUCKY, register
from tests.auctions.worlds import SLOT_S, add_server, body, make_cluster, make_market, make_user, set_time
from tests.draws import rounds

OTHERS = (
    "dps",
    "fifo",
    "drf",
    "weighted_completion",
    "preemptive",
    "srtf",
    "faulty_fifo",
    "completions",
    "competition",
)
"""Policies of counterfactual replays, two for each market."""
VALUES = st.sampled_from([0.5, 3.0, UNLUCKY, 20.0, 80.0, 300.0])
EPOCHS = st.integers(1, 8)
UTILITIES = st.sampled_from(
    [
        {"form": "constant"},
        {"form": "step", "deadline_s": 600},
        {"form": "linear", "zero_at_s": 900},
        {"form": "inverse", "zero_at_s": 1500},
        {"form": "sigmoid", "steepness_per_s": 0.01, "midpoint_s": 500},
        {"form": "piecewise_linear", "points": [[0, 1], [500, 0.5], [800, 0]]},
    ]
)
POLICIES: st.SearchStrategy[tuple[str, Json]] = st.sampled_from(
    [
        ("dps", {"worker_reserve_factor": 0.1}),
        ("dps", {"price": "paper"}),
        ("dps", {"price": "fluid", "refit_every": 2}),
        ("completions", {}),
        ("completions", {"refit_every": 2, "restart": 1}),
        ("competition", {}),
        ("weighted_completion", {}),
        ("weighted_completion", {"lambda": 8.0}),
        ("weighted_completion", {"mode": "interval", "batches": "chained"}),
        ("fifo", {}),
        ("faulty_dps", {}),
        ("faulty_fifo", {"first_bad": 2, "good": 9}),
        ("faulty_fifo", {"first_bad": 0, "good": 10**6}),
        ("preemptive", {}),
        ("preemptive", {"cloud": "edge"}),
    ]
)


class MarketMachine(RuleBasedStateMachine):
    """Bidders, an operator, a clock and a worker."""

    market: Market
    people: list[User]
    team: Team

    @initialize()
    def open(self) -> None:
        """Open the market of two small servers and a cloud."""
        number = Market.objects.count()  # one database for all examples: each has a cluster of its own
        self.market = make_market(make_cluster(f"lab-{number}", units=2, horizon=8), refit_every=3)
        self.people = [make_user(f"alice-{number}-{n}") for n in range(5)]
        self.team = teams.create_team(f"team-{number}", "Team")
        for person in self.people[:2]:
            teams.add_member(self.team, person, Role.BIDDER)
        self.seconds = 0.0

    @rule(value=VALUES, epochs=EPOCHS, utility=UTILITIES, stands=st.sampled_from([None, 450.0, 1e6]))
    def submit(self, value: float, epochs: int, utility: dict[str, Any], stands: float | None) -> None:
        """A bid comes in, and stands where prices are posted if it may be tried again."""
        sent = self.offer(value, epochs, utility)
        if stands is not None and "utility" in sent:
            sent |= {"standing": True, "standing_until_s": stands}
        submit_bid(cluster=self.market.cluster, owner=self.bidder, body=sent)

    @property
    def bidder(self) -> User:
        """The next bidder: prices learn from bids of four owners."""
        return self.people[Bid.objects.filter(market=self.market).count() % len(self.people)]

    def offer(self, value: float, epochs: int, utility: dict[str, Any]) -> dict[str, Any]:
        """Return a body that states its value as the policy in force requires; a ring if the policy runs rings."""
        policy = policy_in_force(self.market.cluster)
        sent = body(value, epochs=epochs, utility={**utility, "value": value})
        if policy.objective is Objective.WELFARE:
            return sent
        del sent["utility"]
        ring = epochs % 2 and "ring" in policy.architectures
        return sent | {"weight": value, "architecture": "ring" if ring else "ps"}

    @rule(at_most=st.integers(1, 6))
    def decide(self, at_most: int) -> None:
        """A worker has time for a few bids."""
        decision_queue.process_pending(self.market.pk, at_most=at_most)

    @rule(value=VALUES, epochs=EPOCHS)
    def quote_then_submit(self, value: float, epochs: int) -> None:
        """A quote on an empty queue is what is then decided, once slots that have begun are processed.

        Before, a drained server may still be in service, and standing bids have not had their turn. Where bids compete,
        a quote has words of its own, and leaves out bids that stand.
        """
        decision_queue.process_pending(self.market.pk)
        pass_slots(self.market.pk)
        sent = self.offer(value, epochs, {"form": "constant"})
        with suppress(CannotDecide):
            offered = quote(market=self.market, body=sent, bidder=self.bidder)
        bid = submit_bid(cluster=self.market.cluster, owner=self.bidder, body=sent).bid
        decision_queue.process_pending(self.market.pk)
        record = DecisionRecord.objects.filter(bid=bid).first()
        if record is None:
            assert value == UNLUCKY
            return
        receipt, expected = parse(record.receipt), offered.decision.to_json() | {"bid_id": str(bid.sequence)}
        if not offered.policy.competes:
            assert receipt == expected
        elif not Bid.objects.filter(
            Q(state=BidState.STANDING) | Q(unrecorded_withdrawal=True), market=self.market
        ).exists():
            assert receipt | {"explanation": ""} == expected | {"explanation": ""}

    @rule(data=st.data(), deed=st.sampled_from(["withdraw", "cancel", "fail", "retry", "complete"]))
    def end(self, data: st.DataObject, deed: str) -> None:
        """Someone wants a bid gone, or decided again; in a state where that is not possible, it is refused."""
        bids = list(Bid.objects.filter(market=self.market).order_by("sequence"))
        if not bids:
            return
        bid = data.draw(st.sampled_from(bids))
        before = bid.state  # what is read under the lock is undone with the transaction, the bid in memory is not
        try:
            if deed == "withdraw":
                withdraw_bid(bid)
            elif deed == "cancel":
                cancel_job(bid)
            elif deed == "complete":
                complete_job(bid)
            elif deed == "retry":
                retry_bid(bid)
            else:
                fail_job(bid, "a disk broke", refund=data.draw(st.sampled_from(Refund)))
        except WrongState:
            assert Bid.objects.get(pk=bid.pk).state == before

    @rule(credits=st.sampled_from([0.0, 0.02, 0.1, 3.0, 1e6]))
    def limit(self, credits: float) -> None:
        """An operator gives the team of two bidders a budget, grants credits, or takes all back that are left."""
        if not Budget.objects.filter(team=self.team).exists():
            budgets.set_budget(self.team, period=BudgetKind.YEAR, amount=millionths(credits))
            return
        left = team_credits.left_at(self.team.pk, timezone.now()) or 0
        if credits or left:
            budgets.grant(self.team, millionths(credits) or -left, by=self.people[4])

    @rule(data=st.data())
    def finish_early(self, data: st.DataObject) -> None:
        """The training of a running job ends before its last slot: it is complete once, and nobody is charged again."""
        running = list(Bid.objects.filter(market=self.market, state="running").order_by("sequence"))
        if not running:
            return
        bid = data.draw(st.sampled_from(running))
        paid, promised = bid.payment, bid.value
        with suppress(WrongState):  # slots may have begun since, and it may have been completed by them
            complete_job(bid)
        found = Bid.objects.get(pk=bid.pk)
        assert (found.payment, found.value, found.refund) == (paid, promised, 0.0)
        if found.ended_slot is not None:
            with pytest.raises(WrongState):
                complete_job(found)

    @rule(seconds=st.sampled_from([10.0, 50.0, 100.0, 150.0, 400.0, 2000.0]))
    def let_time_pass(self, seconds: float) -> None:
        """The clock moves on, now and then to the very beginning of a slot."""
        self.seconds += seconds
        set_time(self.market, self.seconds)

    @rule()
    def set_the_clock_back(self) -> None:
        """An operator sets the virtual clock back by a slot and a half."""
        self.seconds = max(0.0, self.seconds - 1.5 * SLOT_S)
        set_time(self.market, self.seconds)

    @rule()
    def sweep(self) -> None:
        """Slots pass and the certificate is renewed."""
        pass_slots(self.market.pk)
        certificates.renew(self.market.pk)

    @rule(choice=POLICIES)
    def change_policy(self, choice: tuple[str, Json]) -> None:
        """An operator changes the policy.

        That is refused where it would leave jobs in line for ever, or mix jobs in queues with jobs that book slots.
        """
        name, parameters = choice
        going = Bid.objects.filter(market=self.market, state__in=("planned", "running"))
        with suppress(InvalidField):
            change_policy(self.market, name=name, parameters=parameters, by=None)
            return
        assert going.exists()

    @rule(data=st.data(), deed=st.sampled_from(["lost", "drain", "return", "return"]), slots=st.integers(0, 4))
    def take_a_server_out_of_service(self, data: st.DataObject, deed: str, slots: int) -> None:
        """An operator says that a server is lost, or drained with or without a deadline, or returns it."""
        server = data.draw(st.sampled_from(list(Server.objects.filter(cluster=self.market.cluster))))
        if deed == "lost":
            lose_server(server, reason="a fan broke", by=None)
        elif deed == "return":
            restore_server(server, reason="", by=None)
        else:
            pass_slots(self.market.pk)
            self.market.refresh_from_db()
            first = market_time(self.market).now + data.draw(st.integers(0, 2))
            with suppress(WrongState):
                drain_server(server, from_slot=first, deadline=first + slots if slots else None, reason="", by=None)

    @rule(amount=st.integers(0, 4), data=st.data())
    def change_capacity(self, amount: int, data: st.DataObject) -> None:
        """An operator changes a server, which is refused below what is promised."""
        row = data.draw(st.sampled_from(list(Capacity.objects.filter(server__cluster=self.market.cluster))))
        try:
            with checked_change(self.market.cluster):
                Capacity.objects.filter(pk=row.pk).update(amount=amount)
        except ChangeRefused:
            assert amount < row.amount

    @precondition(lambda self: self.market.cluster.servers.count() < 6)
    @rule(units=st.integers(1, 3), front=st.booleans())
    def add_server(self, units: int, front: bool) -> None:
        """An operator adds a server, before all others or after: positions change their meaning."""
        cluster = self.market.cluster
        with checked_change(cluster):
            server = add_server(cluster, f"extra-{cluster.servers.count()}", units=units, delay_s=120.0)
            if front:
                first = min(cluster.servers.values_list("position", flat=True))
                Server.objects.filter(pk=server.pk).update(position=first)
                Server.objects.filter(cluster=cluster).exclude(pk=server.pk).update(position=first + 1)

    @rule()
    def forget(self) -> None:
        """The worker is killed, and another starts with nothing in memory."""
        book.forget()

    def teardown(self) -> None:
        """At the end nothing that must always be true is broken."""
        if hasattr(self, "market"):
            broken = {f.check: f.rows for f in audit_market(self.market) if not f.passed}
            assert broken == {}
            assert_replayed_as_recorded(self.market)
            assert_stands_on_rows_as_on_events(self.market)
            assert_the_same_policy_changes_nothing(self.market)
            assert_every_bid_is_accounted_for(self.market, *OTHERS[self.market.pk % 3 :: 3])


@pytest.mark.thorough
@pytest.mark.django_db
def test_nothing_that_people_do_breaks_what_must_always_be_true(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch)
    run_state_machine_as_test(
        MarketMachine,
        settings=settings(
            max_examples=rounds(8),
            stateful_step_count=40,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.django_db
def test_a_standing_bid_that_ends_under_another_policy_is_none_of_its_bids(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch)
    machine = MarketMachine()
    machine.open()
    machine.quote_then_submit(epochs=2, value=UNLUCKY)
    machine.submit(epochs=6, stands=1e6, utility={"form": "linear", "zero_at_s": 900}, value=20.0)
    machine.quote_then_submit(epochs=1, value=UNLUCKY)
    machine.change_policy(choice=("faulty_fifo", {"first_bad": 0, "good": 10**6}))
    machine.let_time_pass(seconds=400.0)
    machine.quote_then_submit(epochs=4, value=300.0)
    assert Bid.objects.filter(market=machine.market, sequence=2, state="rejected").exists(), "it stood and ended"
    machine.teardown()


@pytest.mark.django_db
def test_a_standing_bid_that_was_withdrawn_in_the_last_slot_of_the_record_stands_in_its_replay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    register(monkeypatch)
    machine = MarketMachine()
    machine.open()
    machine.submit(epochs=6, stands=1e6, utility={"form": "constant"}, value=1e-3)
    machine.decide(at_most=1)
    withdraw_bid(Bid.objects.get(market=machine.market, state="standing"))
    assert Bid.objects.filter(market=machine.market, unrecorded_withdrawal=True).exists()
    machine.teardown()
    machine.let_time_pass(seconds=400.0)
    machine.sweep()
    assert not Bid.objects.filter(market=machine.market, unrecorded_withdrawal=True).exists()
    machine.teardown()
