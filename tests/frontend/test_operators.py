"""One rule says who is an operator, for REST, pages, studies and the admin alike."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, Group, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.test import Client

from auctions.engine import decision_queue
from auctions.models import Bid, BidState, Market
from auctions.readings import market_readings
from auctions.readings.queues import displacements
from cluster.operators import is_operator
from studies.background.models import JobState
from studies.models import Plan
from studies.split_learning.api.examples import TINY
from studies.split_learning.plans.plan_request import PlanRequest
from studies.split_learning.plans.submission import submit_plan
from tests.auctions.worlds import make_market, make_operator, make_user, submit

PEOPLE = ("alice", "bob", "anonymous", "olga", "sam", "root")
"""The owner, another bidder, a visitor, a member of the group, staff outside it, a superuser who is not staff."""
OPERATING = ("olga", "root")
API = "/api/v1/clusters/lab"
PAGES = "/markets/lab"
JSON: Any = {"content_type": "application/json"}
Deed = Callable[[Client, Bid, Plan], Any]

DEEDS: dict[str, tuple[Deed, tuple[int, int, int, int, int, int]]] = {
    "read a bid by REST": (lambda c, b, p: c.get(f"{API}/bids/1"), (200, 404, 401, 200, 404, 200)),
    "read a schedule by REST": (lambda c, b, p: c.get(f"{API}/bids/1/schedule"), (200, 404, 401, 200, 404, 200)),
    "cancel a job by REST": (lambda c, b, p: c.post(f"{API}/bids/1/cancel", **JSON), (200, 404, 401, 200, 404, 200)),
    "filter bids by owner": (lambda c, b, p: c.get(f"{API}/bids?owner=alice"), (400, 400, 401, 200, 400, 200)),
    "list counterfactuals by REST": (lambda c, b, p: c.get(f"{API}/counterfactuals"), (403, 403, 401, 200, 403, 200)),
    "ask for a counterfactual by REST": (
        lambda c, b, p: c.post(f"{API}/counterfactuals", {"policy": "fifo"}, content_type="application/json"),
        (403, 403, 401, 202, 403, 202),
    ),
    "read a plan by REST": (lambda c, b, p: c.get(f"/api/v1/plans/{p.pk}"), (200, 404, 401, 200, 404, 200)),
    "cancel a plan by REST": (
        lambda c, b, p: c.post(f"/api/v1/plans/{p.pk}/cancel", **JSON),
        (200, 404, 401, 200, 404, 200),
    ),
    "open a bid's page": (lambda c, b, p: c.get(f"{PAGES}/bids/1/"), (200, 404, 302, 200, 404, 200)),
    "cancel a job on its page": (lambda c, b, p: c.post(f"{PAGES}/bids/1/cancel/"), (302, 404, 302, 302, 404, 302)),
    "open a plan's page": (lambda c, b, p: c.get(f"/plans/{p.pk}/"), (200, 404, 302, 200, 404, 200)),
    "cancel a plan on its page": (lambda c, b, p: c.post(f"/plans/{p.pk}/cancel/"), (302, 404, 302, 302, 404, 302)),
    "open counterfactuals": (lambda c, b, p: c.get(f"{PAGES}/counterfactuals/"), (404, 404, 302, 200, 404, 200)),
    "open the record of changes": (lambda c, b, p: c.get("/changes/"), (404, 404, 302, 200, 404, 200)),
    "download the record of changes": (lambda c, b, p: c.get("/changes.csv"), (404, 404, 302, 200, 404, 200)),
    "read the metrics": (lambda c, b, p: c.get("/metrics"), (403, 403, 401, 200, 403, 200)),
    "open the admin": (lambda c, b, p: c.get("/admin/", follow=True), (403, 403, 200, 200, 403, 200)),
    "open bids in the admin": (
        lambda c, b, p: c.get("/admin/auctions/bid/", follow=True),
        (403, 403, 200, 200, 403, 200),
    ),
    "open the policy's page in the admin": (
        lambda c, b, p: c.get(f"/admin/auctions/market/{b.market_id}/policy/", follow=True),
        (403, 403, 200, 200, 403, 200),
    ),
    "cancel a plan in the admin": (
        lambda c, b, p: c.post("/admin/studies/plan/", {"action": "cancel", "_selected_action": [p.pk]}, follow=True),
        (403, 403, 200, 200, 403, 200),
    ),
}
"""What is done to Alice's bid and plan, and what each of the people is answered; 200 to a visitor is the login page."""


@pytest.fixture(scope="module")
def people(kept_rows: None) -> dict[str, User | None]:
    return {
        "alice": make_user("alice"),
        "bob": make_user("bob"),
        "anonymous": None,
        "olga": make_operator("olga"),
        "sam": make_user("sam", is_staff=True),
        "root": make_user("root", is_superuser=True),
    }


@pytest.fixture(scope="module")
def alice(people: dict[str, User | None]) -> User:
    found = people["alice"]
    assert found is not None
    return found


@pytest.fixture(scope="module")
def planned(alice: User) -> Bid:
    """A planned job of Alice."""
    market = make_market()
    bid = submit(market, alice, label="secret of alice", epochs=2)
    decision_queue.process_pending(market.pk)
    return bid


@pytest.fixture(scope="module")
def sent(alice: User) -> Plan:
    return submit_plan(alice, PlanRequest.from_json({"instance": TINY, "label": "secret of alice"}))


@pytest.fixture
def bid(planned: Bid, db: None) -> Bid:
    """The same, in each test as it was made."""
    return Bid.objects.get(pk=planned.pk)


@pytest.fixture
def market(bid: Bid) -> Market:
    return bid.market


@pytest.fixture
def plan(sent: Plan, db: None) -> Plan:
    return Plan.objects.get(pk=sent.pk)


@pytest.fixture
def olga(people: dict[str, User | None], db: None) -> User:
    """The operator."""
    return User.objects.get(username="olga")


def client_of(user: User | None) -> Client:
    client = Client()
    if user is not None:
        client.force_login(user)
    return client


@pytest.mark.thorough
@pytest.mark.parametrize("person", PEOPLE)
@pytest.mark.parametrize("name", DEEDS)
def test_each_person_is_answered_by_the_one_rule(
    bid: Bid, plan: Plan, people: dict[str, User | None], name: str, person: str
) -> None:
    deed, answers = DEEDS[name]
    answer = deed(client_of(people[person]), bid, plan)
    assert answer.status_code == answers[PEOPLE.index(person)], answer.content[:300]
    bid.refresh_from_db()
    plan.refresh_from_db()
    may = (person == "alice" and "admin" not in name) or person in OPERATING
    assert (bid.state == BidState.CANCELLED) == (may and name.startswith("cancel a job"))
    assert (plan.state == JobState.CANCELLED) == (may and name.startswith("cancel a plan"))
    if not may:
        assert "secret of alice" not in answer.content.decode()


@pytest.mark.thorough
@pytest.mark.parametrize("person", PEOPLE)
def test_pages_offer_the_admin_and_everybodys_rows_to_operators_alone(
    market: Market, bid: Bid, plan: Plan, people: dict[str, User | None], person: str
) -> None:
    user = people[person]
    client = client_of(user)
    operates = person in OPERATING
    assert is_operator(AnonymousUser() if user is None else user) == operates
    if user is None:
        return
    page = client.get(f"{PAGES}/").text
    assert ('href="/admin/"' in page) == (f'href="{PAGES}/counterfactuals/"' in page) == operates
    sees = operates or person == "alice"
    assert ("secret of alice" in client.get(f"{PAGES}/bids/").text) == sees
    assert ("secret of alice" in client.get("/plans/").text) == sees
    bars = market_readings.bars(market, start=0, end=100, viewer=user)
    assert bars
    assert all((bar.sequence == bid.sequence) == (bar.label == "secret of alice") == sees for bar in bars)
    assert displacements(bid, user) == ()


def test_a_user_who_leaves_the_group_is_no_operator_from_then_on(bid: Bid, olga: User) -> None:
    client = client_of(olga)
    assert client.get(f"{API}/bids/1").status_code == 200
    olga.groups.clear()
    assert client.get(f"{API}/bids/1").status_code == 404
    assert client.get("/admin/", follow=True).status_code == 403


@pytest.mark.parametrize("codename", ["change_cluster", "view_cluster"])
@pytest.mark.parametrize("through_group", [False, True])
def test_the_rule_is_the_permission_to_change_clusters_however_it_is_held(
    db: None, codename: str, through_group: bool
) -> None:
    carol = make_user("carol")
    permission = Permission.objects.get(content_type__app_label="cluster", codename=codename)
    if through_group:
        group = Group.objects.create(name="others")
        group.permissions.add(permission)
        carol.groups.add(group)
    else:
        carol.user_permissions.add(permission)
    carol.user_permissions.add(Permission.objects.get(content_type__app_label="auctions", codename="change_market"))
    assert is_operator(carol) is carol.has_perm("cluster.change_cluster") is (codename == "change_cluster")


def test_a_permission_of_the_same_name_on_something_else_makes_nobody_an_operator(db: None) -> None:
    carol = make_user("carol")
    market = ContentType.objects.get(app_label="auctions", model="market")
    carol.user_permissions.add(Permission.objects.create(content_type=market, codename="change_cluster", name="other"))
    assert not is_operator(carol)


def test_an_operator_who_is_not_active_is_none(olga: User) -> None:
    for user in (olga, User.objects.get(username="root")):
        assert is_operator(user)
        user.is_active = False
        assert not is_operator(user)


def test_a_number_too_large_for_any_row_is_not_there(market: Market, olga: User) -> None:
    client = client_of(olga)
    for number in (2**63, 10**19):
        for rows in ("counterfactuals", "bids"):
            assert client.get(f"{PAGES}/{rows}/{number}/").status_code == 404
            assert client.get(f"{API}/{rows}/{number}").status_code == 404
        for rows in ("plans", "traces", "experiments"):
            assert client.get(f"/{rows}/{number}/").status_code == 404
            assert client.get(f"/api/v1/{rows}/{number}").status_code == 404


def test_the_admin_sends_visitors_to_the_login_page_and_from_there_to_the_page_they_asked_for(db: None) -> None:
    for asked, target in (("", "/admin/"), ("?next=/admin/auctions/bid/", "/admin/auctions/bid/")):
        answer = Client().get(f"/admin/login/{asked}")
        assert answer.status_code == 302
        assert answer.headers["Location"].endswith(f"?next={target}")
