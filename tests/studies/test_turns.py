"""Owners take turns at the workers of plans, experiments and counterfactuals."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from accounts import teams
from accounts.models import Role, Team
from auctions.models import Market
from scheduling.registry import make_policy
from studies.background import dead_workers, states
from studies.background.states import Attempt, JobTable
from studies.counterfactuals.requests import CounterfactualRequest
from studies.counterfactuals.requests import create as create_counterfactual
from studies.experiments.request import ExperimentRequest
from studies.experiments.requests import create as create_experiment
from studies.job_tables import COUNTERFACTUALS, PLANS, RUNS
from studies.models import Counterfactual, Plan, Run, Trace
from tests.auctions.worlds import make_market, make_operator, make_user
from tests.rest import client_of, nobody_asked_before
from tests.studies.plans.conftest import submitted as submit_plan
from tests.studies.plans.conftest import tiny

__all__ = ["client_of", "nobody_asked_before"]
KINDS: tuple[JobTable[Any], ...] = (PLANS, COUNTERFACTUALS, RUNS)
NAMES = [kind.word for kind in KINDS]


@pytest.fixture(autouse=True)
def _any_number_at_once(settings: Any) -> None:
    settings.PLANS_AT_ONCE = settings.RUNS_AT_ONCE = None


@pytest.fixture
def market(db: None) -> Market:
    return make_market()


def ask(kind: JobTable[Any], owner: User, count: int) -> None:
    """Make `count` rows of work that wait."""
    if kind is RUNS:
        body = {
            "workloads": [{"generator": "dps", "setting": {"jobs": 5, "servers": 2}}],
            "policies": [{"name": "fifo"}],
            "seeds": list(range(count)),
            "bound": False,
        }
        create_experiment(owner, ExperimentRequest.from_json(body, Trace.objects.none()))
        return
    for _ in range(count):
        if kind is PLANS:
            submit_plan(owner)
        else:
            create_counterfactual(owner, Market.objects.get(), CounterfactualRequest(make_policy("fifo", {})))


def join(name: str, *members: User) -> None:
    """Make a team of these users."""
    team = teams.create_team(name, name.title())
    for member in members:
        teams.add_member(team, member, Role.BIDDER)


def owner_of(attempt: Attempt[Any] | None) -> str:
    assert attempt is not None
    row = attempt.row.get()
    return str((row.experiment if isinstance(row, Run) else row).owner.username)


def serve(kind: JobTable[Any]) -> str:
    """Begin the next row and end it; who its owner is."""
    attempt = states.claim_next(kind)
    owner = owner_of(attempt)
    assert attempt is not None
    assert states.fail(attempt, "a test ended it")
    return owner


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_after_twenty_of_one_owner_another_owners_work_is_next(market: Market, kind: JobTable[Any]) -> None:
    alice, bob = make_operator("alice"), make_operator("bob")
    ask(kind, alice, 20)
    assert serve(kind) == "alice"
    ask(kind, bob, 1)
    assert [serve(kind) for _ in range(3)] == ["bob", "alice", "alice"]


def test_after_fifty_plans_of_one_owner_another_owners_plan_is_next(db: None) -> None:
    alice, bob = make_user("alice"), make_user("bob")
    ask(PLANS, alice, settings.OPEN_WORK["plans"])
    assert serve(PLANS) == "alice"
    ask(PLANS, bob, 1)
    assert serve(PLANS) == "bob"
    assert serve(PLANS) == "alice"


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_a_second_worker_takes_the_work_of_who_has_none_running(market: Market, kind: JobTable[Any]) -> None:
    alice, bob = make_operator("alice"), make_operator("bob")
    ask(kind, alice, 3)
    ask(kind, bob, 3)
    running = [states.claim_next(kind) for _ in range(4)]
    assert [owner_of(attempt) for attempt in running] == ["alice", "bob", "alice", "bob"]
    for attempt in running[1:]:
        assert attempt is not None
        states.fail(attempt, "a test ended it")
    assert serve(kind) == "bob", "alice has one running"


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_three_owners_are_served_in_rounds_each_in_order_of_asking(market: Market, kind: JobTable[Any]) -> None:
    owners = [make_operator(name) for name in ("alice", "bob", "carol")]
    for owner, count in zip(owners, (4, 2, 3), strict=True):
        ask(kind, owner, count)
    served = [serve(kind) for _ in range(9)]
    assert served == ["alice", "bob", "carol", "alice", "bob", "carol", "alice", "carol", "alice"]
    order = list(kind.rows.order_by("started_at").values_list(kind.owner, "pk"))
    for owner in owners:
        mine = [pk for key, pk in order if key == owner.pk]
        assert mine == sorted(mine)


def test_work_whose_worker_died_does_not_count_as_running(db: None) -> None:
    alice, bob = make_user("alice"), make_user("bob")
    ask(PLANS, alice, 1)
    ask(PLANS, bob, 2)
    long_ago = timezone.now() - timedelta(seconds=dead_workers.STALE_S + 60)
    assert [owner_of(states.claim_next(PLANS)) for _ in range(2)] == ["alice", "bob"]
    Plan.objects.filter(owner=alice).update(heartbeat_at=long_ago, started_at=long_ago)
    assert owner_of(states.claim_next(PLANS)) == "alice"
    assert owner_of(states.claim_next(PLANS)) == "bob"
    assert states.claim_next(PLANS) is None


def test_a_worker_that_died_before_the_clock_was_set_back_counts_as_dead_in_time(
    db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(PLANS, make_user("alice"), 1)
    begun = timezone.now()
    monkeypatch.setattr(states, "now", lambda: begun + timedelta(hours=1))
    assert owner_of(states.claim_next(PLANS)) == "alice"
    monkeypatch.setattr(states, "now", lambda: begun)
    assert states.claim_next(PLANS) is None  # it may be alive
    monkeypatch.setattr(states, "now", lambda: begun + timedelta(seconds=dead_workers.STALE_S + 1))
    assert owner_of(states.claim_next(PLANS)) == "alice"


def test_a_heartbeat_of_a_host_whose_clock_is_a_little_ahead_stays(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(PLANS, make_user("alice"), 1)
    begun = timezone.now()
    beat = begun + timedelta(seconds=dead_workers.STALE_S - 1)
    monkeypatch.setattr(states, "now", lambda: beat)
    assert owner_of(states.claim_next(PLANS)) == "alice"
    monkeypatch.setattr(states, "now", lambda: begun)
    assert states.claim_next(PLANS) is None
    assert Plan.objects.get().heartbeat_at == beat


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_teams_take_turns_and_within_a_team_its_members(market: Market, kind: JobTable[Any]) -> None:
    alice, bob, carol = (make_operator(name) for name in ("alice", "bob", "carol"))
    join("vision", alice, bob)
    for owner, count in ((alice, 4), (bob, 2), (carol, 3)):
        ask(kind, owner, count)
    served = [serve(kind) for _ in range(9)]
    assert served == ["alice", "carol", "bob", "carol", "alice", "carol", "bob", "alice", "alice"]


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_what_a_member_has_running_counts_for_the_team(market: Market, kind: JobTable[Any]) -> None:
    alice, bob, carol = (make_operator(name) for name in ("alice", "bob", "carol"))
    join("vision", alice, bob)
    ask(kind, alice, 1)
    assert owner_of(states.claim_next(kind)) == "alice"
    ask(kind, bob, 1)
    ask(kind, carol, 2)
    assert [owner_of(states.claim_next(kind)) for _ in range(3)] == ["carol", "bob", "carol"]


@pytest.mark.parametrize("is_team", [False, True])
@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_the_reported_place_is_when_it_is_served(market: Market, kind: JobTable[Any], is_team: bool) -> None:
    owners = [make_operator(name) for name in ("alice", "bob", "carol")]
    if is_team:
        join("vision", *owners[:2])
    for owner, count in zip(owners, (5, 2, 3), strict=True):
        ask(kind, owner, count)
    serve(kind)
    waiting = kind.rows.filter(state="queued")
    places = {pk: states.place_of(kind, kind.rows.filter(pk=pk)) for pk in waiting.values_list("pk", flat=True)}
    assert sorted(place for place in places.values() if place is not None) == list(range(1, 10))
    for place in range(1, 10):
        attempt = states.claim_next(kind)
        assert attempt is not None
        assert places[attempt.pk] == place
        states.fail(attempt, "a test ended it")
    assert states.place_of(kind, kind.rows.all()) is None


def test_rest_and_pages_report_the_place_in_the_queue(
    market: Market, client: Client, client_of: Callable[[User], APIClient]
) -> None:
    alice, bob = make_operator("alice"), make_operator("bob")
    for kind in KINDS:
        ask(kind, alice, 3)
        ask(kind, bob, 2)
    client.force_login(bob)
    api = client_of(bob)
    plan, counterfactual = (model.objects.filter(owner=bob).latest("pk") for model in (Plan, Counterfactual))
    experiment = bob.experiments.get()
    assert api.get(f"/api/v1/plans/{plan.pk}").json()["place"] == 4
    assert api.get(f"/api/v1/clusters/lab/counterfactuals/{counterfactual.pk}").json()["place"] == 4
    assert api.get(f"/api/v1/experiments/{experiment.pk}").json()["place"] == 2
    part = f"/plans/{plan.pk}/part"
    page = client.get(part)
    assert "Number 4 in the queue" in page.text
    assert "Number 4 in the queue" in client.get(f"/markets/lab/counterfactuals/{counterfactual.pk}/").text
    assert "number 2 in the queue" in client.get(f"/experiments/{experiment.pk}/").text
    serve(PLANS)
    moved = client.get(part, headers={"If-None-Match": page["ETag"]})
    assert "Number 3 in the queue" in moved.text, "a place that moved is news"


@pytest.mark.parametrize(
    ("path", "body", "quota", "word"),
    [
        ("/api/v1/plans", tiny(), "plans", "plans"),
        (
            "/api/v1/clusters/lab/counterfactuals",
            {"policy": "fifo"},
            "counterfactuals",
            "counterfactuals",
        ),
        (
            "/api/v1/experiments",
            {"workloads": [{"generator": "dps"}], "policies": [{"name": "fifo"}], "bound": False},
            "runs",
            "runs",
        ),
    ],
    ids=NAMES,
)
def test_too_much_waiting_work_of_one_owner_is_refused_with_429(
    market: Market,
    client_of: Callable[[User], APIClient],
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    body: Any,
    quota: str,
    word: str,
) -> None:
    monkeypatch.setitem(settings.OPEN_WORK, quota, 1)
    api, other = client_of(make_operator("alice")), client_of(make_operator("bob"))
    assert api.post(path, body, format="json").status_code == 202
    refusal = api.post(path, body, format="json")
    assert refusal.status_code == 429
    assert int(refusal["Retry-After"]) > 0
    assert refusal["Content-Type"] == "application/problem+json"
    assert f"1 {word} of yours wait" in refusal.json()["detail"]
    assert other.post(path, body, format="json").status_code == 202, "the quota is each owner's own"


@pytest.mark.parametrize(
    ("path", "body"), [("/api/v1/plans", tiny()), ("/api/v1/clusters/lab/counterfactuals", {"policy": "fifo"})]
)
def test_too_much_waiting_work_of_one_team_is_refused_with_429(
    market: Market, client_of: Callable[[User], APIClient], monkeypatch: pytest.MonkeyPatch, path: str, body: Any
) -> None:
    word = path.rpartition("/")[2]
    monkeypatch.setitem(settings.OPEN_WORK, word, 2)
    monkeypatch.setattr(settings, "OPEN_WORK_OF_TEAM", 1)
    alice, bob, carol = (make_operator(name) for name in ("alice", "bob", "carol"))
    join("vision", alice, bob)
    for who in (alice, bob):
        assert client_of(who).post(path, body, format="json").status_code == 202
    refusal = client_of(bob).post(path, body, format="json")
    assert refusal.status_code == 429
    assert refusal.json()["detail"] == f"2 {word} of your team wait or are computed; at most 2 may."
    assert client_of(carol).post(path, body, format="json").status_code == 202, "carol is in no team"


def test_a_member_whose_team_is_deleted_meanwhile_is_served(market: Market) -> None:
    dora, team = make_user("dora"), teams.create_team("vision", "Vision")
    teams.add_member(team, dora, Role.BIDDER)
    deletions = iter([Team.objects.filter(pk=team.pk)])

    def delete_before_lock(execute: Callable[..., Any], sql: str, *args: Any) -> Any:
        """Delete it when it is about to be locked: its member was read before."""
        if 'FROM "accounts_team"' in sql:
            for rows in deletions:
                rows.delete()
        return execute(sql, *args)

    with connection.execute_wrapper(delete_before_lock):
        ask(COUNTERFACTUALS, dora, 1)
    assert not Team.objects.exists()
    assert Counterfactual.objects.filter(owner=dora).count() == 1
