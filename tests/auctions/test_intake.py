"""Bids that arrive together are stored together, by what holds when they are stored."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, OperationalError, connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from accounts import teams
from accounts.errors import NotAllowed
from accounts.models import Role
from auctions.domain.errors import KeyReused, MarketClosed
from auctions.domain.lock import locked_market, record_bids
from auctions.engine import intake
from auctions.engine.intake import Offer, Request, Stale, Submitted, Terms
from auctions.engine.markets import set_open
from auctions.engine.policies import change_policy
from auctions.engine.submission import submit_bid
from auctions.models import Bid, Event, EventKind, Market
from cluster.guards import checked_change
from cluster.models import Cluster, ModelProfile
from scheduling.model.errors import InvalidField
from tests.auctions.worlds import add_server, body, make_market, make_user
from tests.rest import user_token


def request(market: Market, owner: User, *keys: str | None, epochs: int = 1, terms: Terms | None = None) -> Request:
    """A request that was checked and is not stored."""
    terms = terms or intake.read_terms(market.cluster)
    sent = body(epochs=epochs)
    resolved = terms.resolver(bidder=owner)(sent)
    return Request(terms, owner, tuple(Offer(sent, resolved, str(epochs), key) for key in keys))


def store_together(market: Market, *requests: Request) -> list[Any]:
    """Store requests as the first of them does that finds the others waiting; their answers."""
    line = intake._line(market.pk)
    line._waiting += requests[1:]
    line.store(requests[0])
    return [one.answer for one in requests]


def numbers(answer: Any) -> list[tuple[int, bool]]:
    assert isinstance(answer, list), answer
    return [(one.bid.sequence, one.created) for one in answer]


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Markets that were locked to store bids, in order."""
    found: list[int] = []

    def counted(market_id: int) -> Any:
        found.append(market_id)
        return locked_market(market_id)

    monkeypatch.setattr(intake, "locked_market", counted)
    return found


def test_a_submission_takes_at_most_six_queries(market: Market, alice: User) -> None:
    api = APIClient()
    api.credentials(HTTP_AUTHORIZATION=f"Token {user_token(alice)}")
    path = f"/api/v1/clusters/{market.cluster.name}/bids"
    taken = []
    for key in ("first", "second"):
        with CaptureQueriesContext(connection) as queries:
            assert api.post(path, body(), format="json", headers={"Idempotency-Key": key}).status_code == 202
        sent = [query["sql"] for query in queries.captured_queries]
        taken.append([sql for sql in sent if not sql.startswith(("SAVEPOINT", "RELEASE"))])
    assert len(taken[1]) <= 6, "\n".join(taken[1])


def test_requests_that_wait_together_are_stored_in_one_transaction_and_in_order(
    market: Market, alice: User, commits: list[int]
) -> None:
    bob = make_user("bob")
    requests = [request(market, one, *keys) for one, keys in ((alice, [None]), (bob, ["a", "b"]), (alice, ["a"]))]
    last, *others = requests
    commits.clear()
    answers = store_together(market, last, *others)
    assert commits == [market.pk]
    assert [numbers(answer) for answer in answers] == [[(3, True)], [(1, True), (2, True)], [(4, True)]] or [
        numbers(answer) for answer in answers
    ] == [[(4, True)], [(1, True), (2, True)], [(3, True)]]
    assert list(Bid.objects.order_by("sequence").values_list("sequence", flat=True)) == [1, 2, 3, 4]
    events = Event.objects.filter(kind=EventKind.SUBMITTED).order_by("version")
    assert list(events.values_list("bid__sequence", flat=True)) == [1, 2, 3, 4]
    market.refresh_from_db()
    assert (market.submitted, market.version) == (4, events.last().version)  # type: ignore[union-attr]


def test_a_request_that_is_refused_does_not_affect_the_others(market: Market, alice: User) -> None:
    submit_bid(cluster=market.cluster, owner=alice, body=body(), idempotency_key="used")
    old = intake.read_terms(market.cluster)
    stale = request(market, alice, None, terms=old)
    with checked_change(market.cluster):
        add_server(market.cluster, "edge-9", units=1)
    good, twin, reused, other = (
        request(market, alice, key, epochs=epochs) for key, epochs in (("new", 1), ("new", 1), ("used", 3), (None, 1))
    )
    answers = store_together(market, good, stale, twin, reused, other)
    assert isinstance(answers[1], Stale)
    assert isinstance(answers[3], KeyReused)
    found = [numbers(answers[i])[0] for i in (0, 2, 4)]
    assert sorted(found) == [(2, False), (2, True), (3, True)], "the same key twice is one bid"
    assert Bid.objects.count() == 3


def test_a_closed_market_refuses_new_bids_and_answers_repeated_ones(market: Market, alice: User) -> None:
    submit_bid(cluster=market.cluster, owner=alice, body=body(), idempotency_key="k")
    digest = Bid.objects.get().body_digest
    set_open(market, False)
    again, new = request(market, alice, "k"), request(market, alice, None)
    again.offers = tuple(Offer(one.body, one.resolved, digest, one.key) for one in again.offers)
    answers = store_together(market, again, new)
    assert numbers(answers[0]) == [(1, False)]
    assert isinstance(answers[1], MarketClosed)


def test_if_the_commit_fails_nothing_is_stored_and_every_request_says_so(
    market: Market, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(held: Market) -> None:
        raise OperationalError("the disk is full")

    one, other = request(market, alice, None), request(market, alice, None)
    with monkeypatch.context() as patch:
        patch.setattr(intake, "save_counters", fail)
        answers = store_together(market, one, other)
    assert all(isinstance(answer, OperationalError) for answer in answers)
    assert not Bid.objects.exists()
    assert submit_bid(cluster=market.cluster, owner=alice, body=body()).bid.sequence == 1


def test_if_the_database_refuses_a_row_of_one_request_the_others_are_stored(
    market: Market, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = [request(market, alice, None, epochs=epochs) for epochs in (1, 2, 3)]

    def refuse(held: Market, kind: EventKind, moment: Any, bids: list[Bid]) -> list[Event]:
        if any(bid.body["epochs"] == 2 for bid in bids):
            raise IntegrityError("refused")
        return record_bids(held, kind, moment, bids)

    monkeypatch.setattr(intake, "record_bids", refuse)
    answers = store_together(market, *requests)
    assert isinstance(answers[1], IntegrityError)
    assert sorted(numbers(answers[0]) + numbers(answers[2])) == [(1, True), (2, True)]


def _new_model(market: Market) -> None:
    profile = ModelProfile.objects.get(cluster=market.cluster, name="ResNet-50")
    steps = list(profile.step_times.all())
    profile.pk, profile.name = None, "VGG"
    profile.save()
    for step in steps:
        step.pk, step.profile = None, profile
        step.save()


def _other_gradient(market: Market) -> None:
    ModelProfile.objects.filter(cluster=market.cluster).update(gradient_mb=77)


def _standing(market: Market) -> None:
    Cluster.objects.filter(pk=market.cluster_id).update(standing_by_default=True)


@pytest.mark.parametrize(
    ("change", "sent", "expected"),
    [
        (_new_model, {"model": "VGG"}, {"gradient_mb": 10}),
        (_other_gradient, {}, {"gradient_mb": 77}),
        (_standing, {}, {"standing": True}),
    ],
)
def test_a_change_of_the_cluster_holds_for_the_next_bid(
    market: Market, alice: User, change: Callable[[Market], None], sent: dict[str, Any], expected: dict[str, Any]
) -> None:
    submit_bid(cluster=market.cluster, owner=alice, body=body())
    with checked_change(market.cluster):
        change(market)
    made = submit_bid(cluster=market.cluster.name, owner=alice, body=body(**sent))
    assert {key: made.bid.resolved_request[key] for key in expected} == expected


def test_a_change_of_the_policy_holds_for_the_next_bid(market: Market, alice: User) -> None:
    submit_bid(cluster=market.cluster, owner=alice, body=body())
    change_policy(market, name="weighted_completion", parameters={}, by=None)
    weighted = {"model": "ResNet-50", "epochs": 1, "weight": 5.0}
    assert submit_bid(cluster=market.cluster, owner=alice, body=weighted).created
    with pytest.raises(InvalidField, match="utility"):
        submit_bid(cluster=market.cluster, owner=alice, body=body())


def test_a_cluster_is_found_by_its_present_name(market: Market, alice: User) -> None:
    submit_bid(cluster="lab", owner=alice, body=body())
    with checked_change(market.cluster):
        Cluster.objects.filter(pk=market.cluster_id).update(name="attic")
    with pytest.raises(Cluster.DoesNotExist):
        submit_bid(cluster="lab", owner=alice, body=body())
    made: Submitted = submit_bid(cluster="attic", owner=alice, body=body())
    assert made.bid.market_id == market.pk


@pytest.mark.django_db(transaction=True)
def test_a_bid_of_a_team_that_is_deleted_meanwhile_is_refused_in_words_and_others_are_stored() -> None:
    market, dora, alice = make_market(), make_user("dora"), make_user("alice")
    team = teams.create_team("gone", "Gone")
    teams.add_member(team, dora, Role.BIDDER)
    of_team = request(market, dora, None)
    of_team.team = team.pk
    team.delete()
    refused, stored = store_together(market, of_team, request(market, alice, None))
    assert isinstance(refused, NotAllowed)
    assert "deleted meanwhile" in str(refused)
    assert numbers(stored) == [(1, True)]
