"""The history that prices depend on, read by the index of events, is the one of all receipts."""

from typing import Any, Final

import numpy as np
import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from accounts.models import Team
from auctions.domain.errors import WrongState
from auctions.domain.inventory_snapshot import snapshot_in_force
from auctions.engine import decision_queue
from auctions.engine.jobs import withdraw_bid
from auctions.engine.policies import change_policy
from auctions.engine.slots import pass_slots
from auctions.history.recorded import Rows
from auctions.history.replay import Replaying, replay_market
from auctions.models import Bid, BidState, DecisionRecord, FirstDecision, Market
from auctions.state import book as books
from auctions.state import history
from cluster.guards import checked_change
from scheduling.book.ledger import empty_like
from scheduling.book.running import RunningBook
from scheduling.model.decision import Decision, parse
from scheduling.pricing.pooling import LEAST_BLOCK, NO_LIMIT, pools_of
from tests.accounts.members import in_team
from tests.auctions.faulty import UNLUCKY, register
from tests.auctions.worlds import SLOT_S, add_server, make_user, set_time, submit
from tests.draws import fresh_seed, rounds

pytestmark = pytest.mark.thorough


def slow(market: Market, before: int | None, most: int) -> tuple[list[tuple[int, float, int]], int]:
    """Slots, standalone values and owners of the last receipts, and the number of all, from the tables of receipts."""
    records: tuple[DecisionRecord | FirstDecision, ...] = (
        *DecisionRecord.objects.filter(stood_from=None),
        *FirstDecision.objects.all(),
    )
    mine = [one for one in records if one.bid.market_id == market.pk and (before is None or one.version < before)]
    rows = [(one.version, one.receipt, one.bid.owner_id) for one in mine]
    offers = []
    for _, text, owner in sorted(rows)[-most:]:
        receipt = parse(text)
        offers.append((receipt["slot"], Decision.from_json(receipt).counted[1], owner))
    return offers, len(rows)


@pytest.mark.parametrize("number", range(rounds(3)))
def test_the_last_receipts_are_those_of_the_slow_reading(
    number: int, market: Market, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, most = np.random.default_rng([fresh_seed(), number]), 5
    monkeypatch.setattr(history, "HISTORY", most)
    register(monkeypatch)
    change_policy(market, name="faulty_dps", parameters={}, by=None)
    for slot in range(6):
        for _ in range(int(rng.integers(1, 5))):
            value = UNLUCKY if rng.random() < 0.15 else float(rng.choice([0.01, 5.0, 200.0]))
            submit(market, alice, value, standing=bool(rng.random() < 0.5))
        if rng.random() < 0.7:
            decision_queue.process_pending(market.pk)
        for bid in Bid.objects.filter(market=market, state__in=(BidState.SUBMITTED, BidState.STANDING)):
            if rng.random() < 0.2:
                try:
                    withdraw_bid(bid)
                except WrongState:
                    continue
        compare(market, most, int(rng.integers(1, 40)))
        set_time(market, (slot + 1) * SLOT_S)
        pass_slots(market.pk)
    compare(market, most, 10**6)
    assert DecisionRecord.objects.filter(bid__market=market).exists()


def compare(market: Market, most: int, version: int) -> None:
    """Compare both readings of all events, and of those before a version."""
    row = Market.objects.get(pk=market.pk)
    for before in (None, version):
        found = history.recorded_history(row, snapshot_in_force(row), in_force=row.inventory_version, before=before)
        assert (list(found.offers)[-most:], found.decided) == slow(row, before, most)


def test_the_tables_of_receipts_are_not_searched(market: Market, alice: User) -> None:
    for value in (0.01, 5.0, 200.0):
        submit(market, alice, value)
    decision_queue.process_pending(market.pk)
    row = Market.objects.get(pk=market.pk)
    snapshot = snapshot_in_force(row)
    with CaptureQueriesContext(
        connection,
    ) as asked:
        history.recorded_history(row, snapshot, in_force=row.inventory_version)
    first = [query["sql"].partition(" FROM ")[2] for query in asked.captured_queries]
    assert [sql.split()[0].strip('"') for sql in first] == ["auctions_event", "auctions_event", "auctions_bid"]


def test_a_book_catches_up_with_many_decisions_as_if_it_was_read_again(market: Market, alice: User) -> None:
    bob = make_user("bob")
    in_team(alice)
    market.refresh_from_db()
    stale = books.rebuild(market, now=market.now)
    for slot in range(4):
        for i in range(12):
            submit(market, (alice, bob)[i % 2], (0.01, 5.0, 200.0)[i % 3], standing=i % 5 == 0)
        decision_queue.process_pending(market.pk)
        set_time(market, (slot + 1) * SLOT_S)
        pass_slots(market.pk)
    market.refresh_from_db()
    with CaptureQueriesContext(connection) as asked:
        assert books._catch_up(stale, market)
    assert len(asked) == 1
    fresh = books.rebuild(market, now=market.now)
    stale.advance(market.now)
    assert np.array_equal(stale.ledger.held, fresh.ledger.held)
    assert stale.running.jobs == fresh.running.jobs
    assert list(stale.running.history) == list(fresh.running.history)
    assert list(stale.running.offers) == list(fresh.running.offers)
    assert (stale.running.decided, stale.version) == (fresh.running.decided, fresh.version) == (48, market.version)
    assert {owner for *_, owner in fresh.running.offers} == {-Team.objects.get().pk, bob.pk}


def owners_of(market: Market) -> list[int]:
    """Owners in pools of prices, in the order of decisions: the same in memory, by the record and in a replay."""
    row = Market.objects.get(pk=market.pk)
    replay = Replaying(priced=False, source=(source := Rows(row)))
    for event in (event for page in source.pages() for event in page):
        replay.steps(event)
    books_of_all = books.checkout(row, now=row.now), books.rebuild(row, now=row.now), replay.at(row.now)
    live, fresh, replayed = (book.running for book in books_of_all)
    assert list(live.history) == list(fresh.history) == list(replayed.history)
    assert list(live.offers) == list(fresh.offers) == list(replayed.offers)
    return [owner for *_, owner in live.offers]


def test_a_team_is_one_owner_in_pools_of_prices(market: Market, alice: User) -> None:
    """Members of a team see each other's bids: three of them and one other bid are no pool of four owners."""
    team, others = in_team(alice, bob := make_user("bob"), carol := make_user("carol")), make_user("dora")
    for user in (alice, bob, carol, others):
        submit(market, user)
    decision_queue.process_pending(market.pk)
    assert sorted(owners_of(market)) == [-team.pk, -team.pk, -team.pk, others.pk]
    view = books.checkout(Market.objects.get(), now=0).view()
    assert pools_of(view.history > 0, view.owners, block=LEAST_BLOCK) == []


def test_users_stay_the_owners_of_bids_that_were_decided_before_teams_were(market: Market, alice: User) -> None:
    """What prices learned from then on record does not change with the version of the service."""
    team, bob = in_team(alice), make_user("bob")
    submit(market, alice)
    decision_queue.process_pending(market.pk)
    Market.objects.update(teams_pooled_from=F("version"))
    books.forget()
    for user in (alice, bob):
        submit(market, user)
    decision_queue.process_pending(market.pk)
    assert owners_of(market) == [alice.pk, -team.pk, bob.pk]


def test_what_prices_count_of_an_extreme_offer_is_on_its_receipt(market: Market, alice: User) -> None:
    """The same in memory, by the record, in a replay and in a state at a cut."""
    users = [alice, *(make_user(name) for name in ("bob", "carol", "dora", "emil"))]
    for number in range(40):
        submit(market, users[number % 5], 1e9 if number % 7 == 6 else 5.0, standing=number % 2 == 0)
        if number % 8 == 7:
            decision_queue.process_pending(market.pk)
            set_time(market, number * SLOT_S)
            pass_slots(market.pk)
    rows: tuple[DecisionRecord | FirstDecision, ...] = (
        *DecisionRecord.objects.filter(stood_from=None),
        *FirstDecision.objects.all(),
    )
    receipts = [parse(one.receipt) for one in sorted(rows, key=lambda one: one.version)]
    assert len(receipts) == 40
    assert min(min(one.get("offer_factors", [1.0])) for one in receipts) < 1e-3
    made = [Decision.from_json(one) for one in receipts]
    owners_of(market)
    row = Market.objects.get(pk=market.pk)
    live, fresh = books.checkout(row, now=row.now).running, books.rebuild(row, now=row.now).running
    copied = RunningBook.from_json(live.to_json(), empty_like(live.ledger))
    for book in (live, fresh, copied):
        assert list(book.history) == [one.counted[0] for one in made]
        assert [value for _, value, _ in book.offers] == [one.counted[1] for one in made]
    assert replay_market(row).mismatches == ()


LIMITS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("dps", {}),
    ("dps", {"offer_limit": NO_LIMIT}),
    ("dps", {"price": "fluid"}),
    ("dps", {"refit_every": 1, "offer_limit": 2.0}),
    ("completions", {}),
)


@pytest.mark.parametrize("number", range(rounds(1)))
def test_limited_offers_are_replayed_under_any_order_of_policies_and_servers(
    number: int, market: Market, alice: User
) -> None:
    rng = np.random.default_rng([fresh_seed(), number])
    users = [alice, *(make_user(name) for name in ("bob", "carol", "dora", "emil"))]
    for bid in range(100):
        value = float(rng.choice([1e-6, 1.0, 5.0, 50.0, 1e9]))
        submit(market, users[int(rng.integers(5))], value, standing=bool(rng.random() < 0.5))
        if bid % 5 == 4:
            decision_queue.process_pending(market.pk)
            set_time(market, bid * SLOT_S / 2)
            pass_slots(market.pk)
        if bid % 23 == 22:
            name, parameters = LIMITS[int(rng.integers(len(LIMITS)))]
            change_policy(Market.objects.get(pk=market.pk), name=name, parameters=parameters, by=None)
        if bid == 50:
            with checked_change(market.cluster):
                add_server(market.cluster, "extra", units=3)
    firsts = (*DecisionRecord.objects.filter(stood_from=None), *FirstDecision.objects.all())
    assert any("offer_factors" in parse(one.receipt) for one in firsts)
    owners_of(market)
    assert replay_market(Market.objects.get(pk=market.pk)).mismatches == ()
