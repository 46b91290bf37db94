"""Sums over bids are published with those of enough owners, and only then."""

import re
from itertools import combinations

import numpy as np
import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.models import Membership, Role, Team
from auctions.domain.totals import VALUE_KEPT
from auctions.engine import decision_queue
from auctions.engine.jobs import cancel_job
from auctions.engine.markets import open_market
from auctions.engine.policies import change_policy
from auctions.engine.slots import pass_slots
from auctions.models import Bid, BidState, Publication
from auctions.readings import market_readings, publications
from auctions.readings.publications import LEAST_OWNERS
from tests.auctions.competing import make_market as make_competition
from tests.auctions.worlds import PRICED, SLOT_S, make_cluster, make_operator, set_time, submit
from tests.frontend.sealed_bids.addresses import Spy
from tests.frontend.sealed_bids.worlds import NUMBERS, PEOPLE, SUMS

pytestmark = pytest.mark.thorough


def test_any_two_readings_of_a_publication_apart_hold_sums_over_three_others_at_least(
    people: dict[str, User], client: Client
) -> None:
    market = open_market(make_cluster(units=40, horizon=12), policy="dps", parameters=dict(PRICED))
    rng = np.random.default_rng(5)
    published: list[tuple[float, set[int]]] = [(0.0, set())]
    for slot in range(1, 40):
        for _ in range(int(rng.integers(0, 3))):
            submit(market, people[str(rng.choice(PEOPLE))], float(rng.uniform(20, 400)))
        decision_queue.process_pending(market.pk)
        going = Bid.objects.filter(state__in=[BidState.PLANNED, BidState.RUNNING])
        if rng.random() < 0.3 and going.exists():
            cancel_job(going.latest("pk"))
        set_time(market, slot * SLOT_S)
        pass_slots(market.pk)
        s = publications.summary(market, people["alice"])
        kept = set(Bid.objects.filter(state__in=VALUE_KEPT).values_list("pk", flat=True))
        if s.welfare != published[-1][0]:
            published.append((s.welfare, kept))
    assert len(published) > 4
    for (_, earlier), (_, later) in combinations(published, 2):
        fresh = Bid.objects.filter(pk__in=later - earlier)
        for name in PEOPLE:
            others = fresh.exclude(owner=people[name]).values("owner").distinct().count()
            assert others >= LEAST_OWNERS - 1


def test_nothing_is_published_while_a_slot_is_under_way_or_owners_are_few(people: dict[str, User]) -> None:
    market = open_market(make_cluster(units=40, horizon=12), policy="dps", parameters=dict(PRICED))
    for name in PEOPLE[: LEAST_OWNERS - 1]:
        submit(market, people[name], 100.0)
        submit(market, people[name], 110.0)
    decision_queue.process_pending(market.pk)
    set_time(market, SLOT_S)
    pass_slots(market.pk)
    assert not Publication.objects.exists()
    submit(market, people[PEOPLE[LEAST_OWNERS - 1]], 100.0)
    decision_queue.process_pending(market.pk)
    assert not Publication.objects.exists(), "the slot is not over"
    seen = publications.summary(market, people["alice"])
    assert (seen.submitted, seen.welfare, seen.revenue, seen.published) == (0, 0.0, 0.0, 0)
    set_time(market, 2 * SLOT_S)
    pass_slots(market.pk)
    row = Publication.objects.get()
    with CaptureQueriesContext(connection) as asked:
        seen = publications.summary(market, people["alice"])
    assert not [query["sql"] for query in asked if "SUM(" in query["sql"] or "AVG(" in query["sql"]], "what is sealed"
    assert seen.published == row.slot == 2
    assert (seen.submitted, seen.admitted) == (7, 7)
    exact = market_readings.summary(market)
    assert seen.welfare == pytest.approx(exact.welfare) == 730.0
    assert seen.revenue == pytest.approx(exact.revenue)
    assert (seen.bound, seen.weighted_jct_slots) == (None, None)


def test_a_cancelled_job_does_not_count_among_the_owners_of_a_publication(people: dict[str, User]) -> None:
    market = open_market(make_cluster(units=40, horizon=12), policy="dps", parameters=dict(PRICED))
    for name in PEOPLE[:LEAST_OWNERS]:
        submit(market, people[name], 100.0)
    decision_queue.process_pending(market.pk)
    for name in PEOPLE[1:LEAST_OWNERS]:
        cancel_job(Bid.objects.get(owner=people[name]))
    set_time(market, SLOT_S)
    pass_slots(market.pk)
    assert not Publication.objects.exists(), "welfare would be the value of one bid"


def test_what_was_published_does_not_change_when_jobs_are_cancelled(people: dict[str, User]) -> None:
    market = open_market(make_cluster(units=40, horizon=12), policy="dps", parameters=dict(PRICED))
    for name in PEOPLE:
        submit(market, people[name], 100.0, epochs=5)
    decision_queue.process_pending(market.pk)
    set_time(market, SLOT_S)
    pass_slots(market.pk)
    before = publications.summary(market, people["alice"])
    series = publications.welfare(market, people["alice"])
    cancel_job(Bid.objects.get(owner=people["bob"]))
    set_time(market, 3 * SLOT_S)
    pass_slots(market.pk)
    after = publications.summary(market, people["alice"])
    assert (after.welfare, after.cancelled, after.published) == (before.welfare, 0, before.published) == (500.0, 0, 1)
    assert publications.welfare(market, people["alice"]).welfare.tolist() == series.welfare.tolist() == [500.0]
    assert market_readings.summary(market).welfare == 400.0


def test_who_owns_all_bids_reads_them_as_they_stand_until_another_bids(people: dict[str, User]) -> None:
    market = open_market(make_cluster(units=40, horizon=12), policy="dps", parameters=dict(PRICED))
    alice = people["alice"]
    submit(market, alice, 100.0)
    decision_queue.process_pending(market.pk)
    mine = publications.summary(market, alice)
    assert (mine.published, mine.welfare) == (None, 100.0)
    assert publications.welfare(market, alice).sequence is not None
    assert publications.summary(market, people["bob"]).welfare == 0.0
    submit(market, people["bob"], 100.0)
    decision_queue.process_pending(market.pk)
    seen = publications.summary(market, alice)
    assert (seen.published, seen.welfare) == (0, 0.0)
    assert publications.summary(market, make_operator()).welfare == 200.0


def test_where_bids_compete_bidders_read_no_sum_of_payments(people: dict[str, User], client: Client) -> None:
    """Dave starts before Erin and pays what she loses, nearly all of her value: the only payment, hence their sum.

    No minute or second of a time is as great.
    """
    market = make_competition()

    def pass_to(slot: int) -> None:
        set_time(market, slot * SLOT_S)
        pass_slots(market.pk)

    def bid(who: str, value: float, slots: int) -> None:
        utility = {"form": "step", "value": value, "deadline_s": slots * SLOT_S}
        submit(market, people[who], value, utility=utility, standing=True)
        decision_queue.process_pending(market.pk)

    bid("bob", 100.0, 1)
    bid("erin", 83.0, 2)
    bid("dave", 500.0, 2)
    pass_to(1)
    for slot, who in enumerate(("carol", "alice"), start=2):
        pass_to(slot)
        bid(who, 50.0, 1)
    pass_to(4)
    assert Bid.objects.get(owner=people["dave"]).payment == Publication.objects.get().figures["revenue"] == 82.0
    read = Spy(client, market, NUMBERS).look("published", only=SUMS)
    summary = publications.summary(market, people["alice"])
    assert (summary.welfare, summary.revenue, summary.payoff, summary.published) == (700.0, None, None, 4)
    assert publications.welfare(market, people["alice"]).revenue is None
    sums = {path: answer[2].decode() for path, answer in read.items() if SUMS.search(path)}
    assert any("700" in text for text in sums.values())
    assert not [path for path, text in sums.items() if re.search(r"\b(82|618)(\.0+)?\b", text)]
    assert publications.summary(market, make_operator()).revenue == 82.0
    change_policy(market, name="completions", parameters=dict(PRICED), by=None)
    assert publications.summary(market, people["alice"]).revenue is None, "what was paid before is in the sum"


def test_sums_are_read_where_an_earlier_policy_is_one_that_this_version_does_not_have(people: dict[str, User]) -> None:
    market = open_market(make_cluster(), policy="dps", parameters=dict(PRICED))
    change_policy(market, name="completions", parameters=dict(PRICED), by=None)
    market.policies.filter(number=1).update(name="no-such")
    submit(market, people["bob"])
    assert publications.summary(market, people["alice"]).revenue == 0.0


def test_members_of_a_team_with_all_bids_read_them_as_they_stand_until_another_bids(people: dict[str, User]) -> None:
    market = open_market(make_cluster(units=40, horizon=12), policy="dps", parameters=dict(PRICED))
    team = Team.objects.create(name="vision", title="Vision")
    for name in ("alice", "bob"):
        Membership.objects.create(user=people[name], team=team, role=Role.BIDDER)
        submit(market, people[name], 100.0)
    decision_queue.process_pending(market.pk)
    alice = User.objects.get(username="alice")
    mine = publications.summary(market, alice)
    assert (mine.published, mine.submitted, mine.welfare) == (None, 2, 200.0)
    assert publications.summary(market, people["carol"]).welfare == 0.0
    submit(market, people["carol"], 100.0)
    decision_queue.process_pending(market.pk)
    seen = publications.summary(market, alice)
    assert (seen.published, seen.submitted, seen.welfare) == (0, 0, 0.0)
