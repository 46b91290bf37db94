"""Sums over bids are published with those of enough owners, and only then."""

from itertools import combinations

import numpy as np
import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from auctions.domain.totals import VALUE_KEPT
from auctions.engine import decision_queue
from auctions.engine.jobs import cancel_job
from auctions.engine.markets import open_market
from auctions.engine.slots import pass_slots
from auctions.models import Bid, BidState, Publication
from auctions.readings import market_readings, publications
from auctions.readings.publications import LEAST_OWNERS
from tests.auctions.worlds import PRICED, SLOT_S, make_cluster, make_operator, set_time, submit
from tests.frontend.sealed_bids.worlds import PEOPLE

pytestmark = pytest.mark.thorough


def test_any_two_readings_of_a_publication_apart_hold_sums_over_three_others_at_least(
    people: dict[str, User], client: Client
) -> None:
    market = open_market(make_cluster(units=40, horizon=12), policy="dps", parameters=dict(PRICED))
    rng = np.random.default_rng(5)
    published: list[tuple[float, float, set[int]]] = [(0.0, 0.0, set())]
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
            published.append((s.welfare, s.revenue, kept))
    assert len(published) > 4
    for (_, _, earlier), (_, _, later) in combinations(published, 2):
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
