"""One user, and one team, has a largest number of bids that wait for their decisions, or stand, in a market."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from accounts import teams
from accounts.models import Role, Team
from auctions.domain.errors import TooManyWaiting
from auctions.engine import decision_queue, intake
from auctions.engine.jobs import withdraw_bid
from auctions.engine.submission import submit_bid, submit_bids
from auctions.models import Bid, BidState, Market
from tests.auctions.test_intake import request, store_together
from tests.auctions.worlds import body, make_cluster, make_market, make_user, sell_out
from tests.rest import user_token


@pytest.fixture(autouse=True)
def _three_at_most(settings: Any) -> None:
    settings.WAITING_BIDS = 3


def member(team: str, name: str) -> User:
    user = make_user(name)
    found = Team.objects.filter(name=team).first() or teams.create_team(team, team.title())
    teams.add_member(found, user, Role.BIDDER)
    return User.objects.get(pk=user.pk)


def send(market: Market, owner: User, count: int = 1, key: str | None = None) -> None:
    submit_bids(cluster=market.cluster, owner=owner, bodies=[body()] * count, idempotency_key=key)


def test_bids_beyond_the_limit_are_refused_and_nothing_of_them_is_stored(market: Market, alice: User) -> None:
    send(market, alice, 2)
    for count in (2, 3, 500):
        with pytest.raises(TooManyWaiting, match="2 bids of yours wait for their decisions in this market; at most 3"):
            send(market, alice, count)
    send(market, alice)
    with pytest.raises(TooManyWaiting, match="3 bids of yours"):
        send(market, alice)
    market.refresh_from_db()
    assert market.submitted == Bid.objects.count() == 3


def test_bids_of_others_and_in_other_markets_are_not_counted(market: Market, alice: User) -> None:
    bob, other = make_user("bob"), make_market(make_cluster("other"))
    for where, owner in ((market, alice), (market, bob), (other, alice)):
        send(where, owner, 3)
        with pytest.raises(TooManyWaiting):
            send(where, owner)


def test_bids_of_one_team_are_counted_together(settings: Any, market: Market) -> None:
    settings.WAITING_BIDS_OF_TEAM = 4
    bella, cleo = member("vision", "bella"), member("vision", "cleo")
    send(market, bella, 3)
    with pytest.raises(TooManyWaiting, match="3 bids of your team wait for their decisions in this market; at most 4"):
        send(market, cleo, 2)
    send(market, cleo)
    with pytest.raises(TooManyWaiting, match="4 bids of your team"):
        send(market, cleo)
    send(market, member("speech", "dora"), 3)
    send(market, make_user("alone"), 3)
    decision_queue.process_pending(market.pk)
    send(market, cleo, 3)


def test_requests_of_one_team_that_are_stored_together_count_each_other(settings: Any, market: Market) -> None:
    settings.WAITING_BIDS_OF_TEAM = 4
    terms = intake.read_terms(market.cluster)
    people = [member("vision", name) for name in ("bella", "cleo", "dora")]
    requests = [request(market, who, None, None, terms=terms) for who in people]
    for one in requests:
        one.team = Team.objects.get().pk
    answers = store_together(market, *requests)
    assert sum(isinstance(answer, TooManyWaiting) for answer in answers) == 1
    assert Bid.objects.count() == 4


def test_who_waits_no_longer_is_not_counted(market: Market, alice: User) -> None:
    for _ in range(3):
        send(market, alice, 3)
        assert decision_queue.process_pending(market.pk) == 3
    send(market, alice, 3)
    withdraw_bid(Bid.objects.filter(state=BidState.SUBMITTED)[1])
    send(market, alice)


def stand(market: Market, owner: User, count: int) -> None:
    """Bids for more than there is at the moment, which stand."""
    submit_bids(cluster=market.cluster, owner=owner, bodies=[body(1e-3, epochs=8, standing=True)] * count)
    decision_queue.process_pending(market.pk)


def test_bids_that_stand_count_against_a_limit_of_their_own(settings: Any, market: Market, alice: User) -> None:
    settings.OPEN_BIDS = 4
    sell_out(market)
    bob = make_user("bob")
    stand(market, alice, 3)
    assert Bid.objects.filter(owner=alice, state=BidState.STANDING).count() == 3
    with pytest.raises(TooManyWaiting, match="3 bids of yours wait or stand in this market; at most 4 may"):
        send(market, alice, 2)
    send(market, alice)
    with pytest.raises(TooManyWaiting, match="4 bids of yours wait or stand"):
        send(market, alice)
    stand(market, bob, 3)
    withdraw_bid(Bid.objects.filter(owner=alice, state=BidState.STANDING)[0])
    send(market, alice)


def test_bids_of_one_team_that_stand_are_counted_together(settings: Any, market: Market) -> None:
    settings.OPEN_BIDS_OF_TEAM = 4
    sell_out(market)
    bella, cleo = member("vision", "bella"), member("vision", "cleo")
    stand(market, bella, 3)
    with pytest.raises(TooManyWaiting, match="3 bids of your team wait or stand in this market; at most 4 may"):
        send(market, cleo, 2)
    send(market, cleo)
    stand(market, member("speech", "dora"), 3)


def test_open_bids_of_others_are_not_taken_for_own_ones(settings: Any, market: Market, alice: User) -> None:
    settings.WAITING_BIDS, settings.OPEN_BIDS = 1000, 3
    terms = intake.read_terms(market.cluster)
    send(market, make_user("bob"), 3)
    requests = [request(market, who, None, None, terms=terms) for who in (alice, make_user("cleo"), alice)]
    answers = store_together(market, *requests)
    assert sum(isinstance(answer, TooManyWaiting) for answer in answers) == 1
    assert Bid.objects.filter(owner=alice).count() == 2
    send(market, alice)
    with pytest.raises(TooManyWaiting, match="3 bids of yours"):
        send(market, alice)


def test_a_repeated_request_is_answered_though_no_further_bid_may_wait(market: Market, alice: User) -> None:
    send(market, alice, 3, key="sent twice")
    send(market, alice, 3, key="sent twice")
    assert Bid.objects.count() == 3


def test_requests_that_are_stored_together_count_each_other(market: Market, alice: User) -> None:
    bob = make_user("bob")
    terms = intake.read_terms(market.cluster)
    sent = [(alice, 2), (bob, 2), (alice, 2), (alice, 1), (bob, 1), (bob, 1)]
    answers = store_together(market, *(request(market, who, *[None] * n, terms=terms) for who, n in sent))
    stored = {who.username: sum(bid.owner_id == who.pk for bid in Bid.objects.all()) for who in (alice, bob)}
    assert stored == {"alice": 3, "bob": 3}
    refused = [isinstance(answer, TooManyWaiting) for answer in answers]
    assert sum(n for (_, n), no in zip(sent, refused, strict=True) if not no) == 6
    assert sum(refused) == 2


def test_a_bid_needs_no_query_for_the_limit_while_few_wait(settings: Any, market: Market, alice: User) -> None:
    settings.WAITING_BIDS = 1000
    with CaptureQueriesContext(connection) as queries:
        submit_bid(cluster=market.cluster, owner=alice, body=body())
    assert not [query["sql"] for query in queries.captured_queries if "COUNT(" in query["sql"]]


def test_rest_says_when_to_come_again(market: Market, alice: User) -> None:
    api = APIClient()
    api.credentials(HTTP_AUTHORIZATION=f"Token {user_token(alice)}")
    path = f"/api/v1/clusters/{market.cluster.name}/bids"
    answers = [api.post(path, body(), format="json") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [202, 202, 202, 429]
    assert answers[-1].headers["Retry-After"] == "5"
    assert answers[-1].json()["detail"].startswith("3 bids of yours wait for their decisions in this market")
