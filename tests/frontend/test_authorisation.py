"""A rule for every address and every method, asked as each role about objects that exist.

The rules of addresses below `/api/v1/` are those of operations, in `tests/auctions/api/test_permissions.py`.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
from asgiref.sync import async_to_sync
from django.apps import apps
from django.contrib.admin import site
from django.contrib.auth.models import User
from django.core.cache import cache
from django.db import connection
from django.test import AsyncClient, Client
from django.test.utils import override_settings
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from django.utils import timezone

from accounts import invitations, teams
from accounts.models import Role
from accounts.tokens import NewToken, issue
from auctions.engine import decision_queue
from auctions.engine.budgets import grant, set_budget
from auctions.engine.servers import lose_server
from auctions.models import Bid, BidState, BudgetKind, Delivery, Market
from auctions.webhooks.hooks import WebhookRequest
from auctions.webhooks.hooks import create as create_webhook
from auctions.webhooks.messages import add_test
from cluster.models import Server
from execution.models import Program
from scheduling.registry import make_policy
from studies.counterfactuals.computing import compute_next as replay_next
from studies.counterfactuals.requests import CounterfactualRequest
from studies.counterfactuals.requests import create as create_counterfactual
from studies.experiments.api.examples import TRACE_TEXT
from studies.experiments.request import ExperimentRequest
from studies.experiments.requests import create as create_experiment
from studies.models import Trace
from studies.split_learning.api.examples import DESCRIBED, TINY
from studies.split_learning.plans.plan_request import PlanRequest
from studies.split_learning.plans.submission import submit_plan
from studies.split_learning.runs.requests import PlanRunRequest, submit_run
from studies.workloads.traces.upload import keep
from tests.auctions.api.conftest import METHODS, document, operations
from tests.auctions.worlds import make_market, make_operator, make_user, submit
from tests.execution.rows import KEY, make_training
from tests.frontend.sealed_bids.addresses import patterns
from tests.rest import nobody_asked_before
from tests.rows import taken_back
from tests.studies.plans.here import compute_here, ran
from web.problems import not_found

__all__ = ["document", "nobody_asked_before"]
Answers: TypeAlias = tuple[int, int, int, int, int]
ROLES: Final = ("anonymous", "charlie", "alice", "olga", "root")
"""A visitor, a stranger, the owner of every object, an operator, and an administrator (a superuser)."""
LOGIN: Final = 0
"""Sent to the login page."""
REFUSED: Final = (LOGIN, 401, 403, 404, 405)
EVERYBODY: Final = (200, 200, 200, 200, 200)
SIGNED_IN: Final = (LOGIN, 200, 200, 200, 200)
OWN: Final = (LOGIN, 404, 200, 200, 200)
OPERATING: Final = (LOGIN, 404, 404, 200, 200)
DONE: Final = 302
"""An action was done: rows were written, and the browser is sent to a page."""
UNDONE: Final = -DONE
"""Refused in words on the next page, to which the browser is sent; what was written is taken back."""
ALL_DO: Final = (LOGIN, DONE, DONE, DONE, DONE)
OWNER_DOES: Final = (LOGIN, 404, DONE, DONE, DONE)
USER_DOES: Final = (LOGIN, 404, DONE, 404, 404)
NO_EMAIL: Final = (404, 404, 404, 404, 404)
"""There is no e-mail server, as in an installation that configures none."""
OPERATOR_DOES: Final = (LOGIN, 404, 404, DONE, DONE)
OPERATOR_ALONE: Final = (LOGIN, 403, 403, DONE, DONE)
EMPTY: Final = 422
"""The form may be sent, and is refused because it is empty."""
ALL_SEND: Final = (LOGIN, EMPTY, EMPTY, EMPTY, EMPTY)
OWNER_SENDS: Final = (LOGIN, 404, EMPTY, EMPTY, EMPTY)
OPERATOR_SENDS: Final = (LOGIN, 404, 404, EMPTY, EMPTY)

GET: Final[dict[str, Answers]] = {
    **dict.fromkeys(("markets", "tokens", "plans", "plan_new", "traces", "experiments", "experiment_new"), SIGNED_IN),
    **dict.fromkeys(("overview", "tiles", "version", "compiling", "chart", "chart_csv", "bids"), SIGNED_IN),
    **dict.fromkeys(("programs", "submit", "webhooks"), SIGNED_IN),
    "webhook": (LOGIN, 404, 200, 404, 404),
    **dict.fromkeys(("plan", "plan_part", "plan_tables", "plan_version", "plan_noise", "plan_figure", "plan_csv"), OWN),
    **dict.fromkeys(("plan_again", "plan_run_new", "plan_runs_part", "plan_run_csv", "trace"), OWN),
    **dict.fromkeys(("experiment", "experiment_part", "experiment_version", "experiment_chart"), OWN),
    **dict.fromkeys(("experiment_chart_csv", "experiment_csv"), OWN),
    **dict.fromkeys(("bid", "receipt", "bid_alternatives", "bid_alternatives_csv", "bid_figure", "bid_csv"), OWN),
    **dict.fromkeys(("training_part", "training_version", "training_loss", "training_loss_csv"), OWN),
    **dict.fromkeys(("training_log", "training_log_lines", "training_log_text"), OWN),
    **dict.fromkeys(("servers", "server", "server_csv"), OPERATING),
    **dict.fromkeys(("changes", "changes_csv"), OWN),  # Alice is an administrator of her team
    **dict.fromkeys(("credits", "credits_csv"), OWN),
    **dict.fromkeys(("budgets", "budgets_csv"), OPERATING),
    **dict.fromkeys(("execution", "execution_part", "execution_version", "step_times", "step_times_csv"), OPERATING),
    **dict.fromkeys(("counterfactuals", "counterfactual_new", "counterfactual", "counterfactual_part"), OPERATING),
    **dict.fromkeys(("counterfactual_version", "counterfactual_sums", "counterfactual_csv"), OPERATING),
    "counterfactual_json": OPERATING,
    **dict.fromkeys(("team", "password_change"), SIGNED_IN),
    "invitation": EVERYBODY,
    **dict.fromkeys(("password_reset", "password_set"), NO_EMAIL),
}
"""What each role is answered who reads an address."""
POST: Final[dict[str, Answers]] = {
    "logout": (302, 302, 302, 302, 302),
    "submit": ALL_DO,
    "experiment_ready_made": ALL_DO,
    "quote": SIGNED_IN,
    **dict.fromkeys(("tokens", "plan_new", "traces", "experiment_new", "programs"), ALL_SEND),
    **dict.fromkeys(("plan_again", "plan_run_new"), OWNER_SENDS),
    "counterfactual_new": OPERATOR_SENDS,
    "token_rotate": (LOGIN, 404, 200, 404, 404),
    **dict.fromkeys(("token_end", "webhook_test", "webhook_delete", "redeliver"), USER_DOES),
    "webhooks": ALL_SEND,
    "webhook": (LOGIN, 404, EMPTY, 404, 404),
    "webhook_rotate": (LOGIN, 404, 200, 404, 404),
    **dict.fromkeys(("plan_cancel", "plan_compare", "plan_one_more", "plan_slots", "plan_delete"), OWNER_DOES),
    **dict.fromkeys(("plan_run_cancel", "plan_run_delete", "trace_delete"), OWNER_DOES),
    **dict.fromkeys(("experiment_cancel", "experiment_rerun", "experiment_delete"), OWNER_DOES),
    **dict.fromkeys(("withdraw", "cancel", "program_close"), OWNER_DOES),
    **dict.fromkeys(("complete", "retry"), OPERATOR_ALONE),
    **dict.fromkeys(("credits_budget", "credits_grant", "credits_remove"), (LOGIN, 404, 403, DONE, DONE)),
    **dict.fromkeys(("fail", "server_lost", "server_drain", "server_restore"), OPERATOR_DOES),
    **dict.fromkeys(("counterfactual_cancel", "counterfactual_delete"), OPERATOR_DOES),
    "team": (LOGIN, 200, EMPTY, 200, 200),  # a page says to others that they are in no team
    **dict.fromkeys(("member_role", "member_remove", "invitation_withdraw"), USER_DOES),
    "invitation": (EMPTY, DONE, UNDONE, DONE, DONE),  # Alice is a member already
    "password_change": SIGNED_IN,
    **dict.fromkeys(("password_reset", "password_set"), NO_EMAIL),
    "step_times_adopt": (LOGIN, 404, 404, 404, 404),  # there is no measured step time to adopt
}
"""What each role is answered who sends a form."""
STREAMS: Final[dict[str, Answers]] = {
    "events": (204, 200, 200, 200, 200),
    "training_log_events": (204, 404, 200, 200, 200),
}
"""What each role is answered who opens an event stream."""
OPEN: Final = ("livez", "healthz", "readyz", "login", "")
"""Answered to everybody, with nothing of a market: health checks, the login page, the icon."""
BY_THEIR_OWN_TESTS: Final = ("metrics", "sso", "sso_return", "sso_account", "sso_link", "sso_unlink")
"""Authorised in another way than by a session: `tests/auctions/test_metrics.py`,
`tests/accounts/test_single_sign_on.py`."""
FROM_CODE: Final = ("api-schema", "api-docs")
"""Documents that are made from the code alone."""
QUOTED: Final = {"model": "ResNet-50", "epochs": "2", "form": "constant", "value": "40", "architecture": "ps"}
FORMS: Final[dict[str, dict[str, str]]] = {
    "submit": QUOTED,
    "quote": QUOTED,
    "member_role": {"role": "viewer"},
    "fail": {"reason": "a disk broke", "refund": "full"},
    "credits_budget": {"budget-period": "week", "budget-credits": "7"},
    "credits_grant": {"grant-credits": "3", "grant-note": "a deadline"},
}
WRITES: Final = ("INSERT", "UPDATE", "DELETE")
SECRET: Final = "a name only Alice uses"
World: TypeAlias = Mapping[str, Mapping[str, object]]


@pytest.fixture(scope="module")
def objects(kept_rows: None) -> World:
    """Alice's objects. Parts of addresses by their names: those of all, then those of kinds and of single addresses."""
    alice, market = make_user("alice"), make_market()
    make_user("charlie")
    make_operator("olga")
    make_user("root", is_superuser=True)
    team = teams.create_team("vision", "Vision", administrator=alice)
    member = teams.add_member(team, make_user("bob"), Role.BIDDER)
    invitation = invitations.invite(team, Role.BIDDER, days=1, by=alice)
    submit(market, alice, label=SECRET)
    decision_queue.process_pending(market.pk)
    make_training(market.bids.get())
    submit(market, alice, label=SECRET)
    set_budget(team, period=BudgetKind.MONTH, amount=10**9)
    grant(team, 10**6, by=alice, note=SECRET)
    plan, queued = (
        submit_plan(alice, PlanRequest.from_json({**source, "label": SECRET}))
        for source in ({"profile": DESCRIBED}, {"instance": TINY})
    )
    assert compute_here()
    plan.refresh_from_db()
    replays = [create_counterfactual(alice, market, CounterfactualRequest(make_policy("fifo", {}))) for _ in range(2)]
    assert replay_next()
    small = {"workloads": [{"generator": "dps", "setting": {"jobs": 5, "servers": 2}}], "policies": [{"name": "fifo"}]}
    request = ExperimentRequest.from_json({"label": SECRET, **small}, Trace.objects.none())
    webhook = create_webhook(alice, WebhookRequest(SECRET, "https://example.org/")).webhook
    delivery = add_test(webhook)
    Delivery.objects.update(status="delivered", next_at=None)
    shown = {"key": KEY, "server": "edge-0", "chart_name": "schedule", "chart": "schedule", "kind": "value"}
    return {
        "": {"name": "lab", "run": ran(plan, market.cluster).pk, **shown},
        "bid": {"number": 1},
        "withdraw": {"number": 2},
        "plan": {"number": plan.pk},
        "plan_cancel": {"number": queued.pk},
        "plan_run_cancel": {"run": submit_run(alice, plan, PlanRunRequest(cluster=market.cluster)).pk},
        "plan_csv": {"name": "clients"},
        "plan_figure": {"name": "course"},
        "trace": {"number": keep(alice, TRACE_TEXT, label=SECRET, source="")[0].pk},
        "experiment": {"number": create_experiment(alice, request).pk},
        "experiment_csv": {"name": "results"},
        "counterfactual": {"number": replays[0].pk},
        "counterfactual_cancel": {"number": replays[1].pk},
        "program": {"number": Program.objects.get().pk},
        "member": {"number": member.pk},
        "invitation": {"text": invitation.link_text},
        "invitation_withdraw": {"number": invitation.pk},
        "password": {"uidb64": "MQ", "token": "set-password"},
        "webhook": {"number": webhook.pk},
        "redeliver": {"number": webhook.pk, "delivery": delivery.message_id},
        "credits": {"team": team.name},
        "token": {"number": issue(alice, NewToken(SECRET)).token.pk},
    }


@pytest.fixture
def world(objects: World, db: None) -> World:
    """The same, in each test as they were made."""
    return objects


@pytest.fixture(autouse=True)
def _sessions_in_cookies_and_no_files(settings: Any, tmp_path: Path) -> None:
    settings.SESSION_ENGINE = SESSIONS
    settings.EXECUTION_DIR = tmp_path


SESSIONS: Final = "django.contrib.sessions.backends.signed_cookies"
Clients: TypeAlias = Callable[[str], Client]


@pytest.fixture(scope="module")
def signed_in(objects: World) -> Mapping[str, tuple[Client, SimpleCookie]]:
    """A client of each role, and the cookies with which it begins: a login for every request takes longer than that."""
    with override_settings(SESSION_ENGINE=SESSIONS):
        clients = {role: as_role(Client(), role) for role in ROLES}
    return {role: (client, client.cookies) for role, client in clients.items()}


@pytest.fixture
def client_as(signed_in: Mapping[str, tuple[Client, SimpleCookie]], db: None) -> Clients:
    """The client of a role, which nothing was answered yet."""

    def found(role: str) -> Client:
        client, cookies = signed_in[role]
        client.cookies = SimpleCookie(cookies)
        return client

    return found


def as_role(client: Any, role: str) -> Any:
    """The client, signed in as this role."""
    if role != "anonymous":
        client.force_login(User.objects.get(username=role))
    return client


PAGES: Final = {name: (route, parts) for route, name, parts in patterns() if not route.startswith(("api/", "admin/"))}


def path_of(name: str, world: World) -> str:
    """The address of this name, of an object of Alice."""
    route, parts = PAGES[name]
    kind = "bid" if "/bids/<" in route else name.partition("_")[0]
    values = {**world[""], **world.get(kind, {}), **world.get(name, {})}
    for part in parts:
        for converter in ("int:", "slug:", "str:", ""):
            route = route.replace(f"<{converter}{part}>", str(values[part]))
    return f"/{route}"


@contextmanager
def writes() -> Iterator[list[str]]:
    """The statements of the block that write rows."""
    found: list[str] = []

    def note(execute: Callable[..., Any], sql: str, *arguments: Any) -> Any:
        if sql.startswith(WRITES):
            found.append(sql)
        return execute(sql, *arguments)

    with connection.execute_wrapper(note):
        yield found


@contextmanager
def prepared(name: str) -> Iterator[list[str]]:
    """What an address needs is there in the block, and gone after it; the statements of the block that write rows."""
    with taken_back():
        if name == "retry":
            Bid.objects.update(state=BidState.QUARANTINED)
        if name == "server_restore":
            lose_server(Server.objects.get(name="edge-0"), reason="a disk broke", by=None)
        with writes() as statements:
            yield statements


def asked(name: str, method: str, client: Client, world: World) -> tuple[int, bool, str]:
    """Status of the answer, or `LOGIN`; whether rows were written; the text of the answer."""
    with prepared(name) as statements:
        answer = getattr(client, method)(path_of(name, world), FORMS.get(name, {}))
        text = "" if answer.streaming else answer.content.decode()
    status = LOGIN if answer.headers.get("Location", "").startswith("/login/") else answer.status_code
    return status, bool(statements), text


def views(resolver: Any = None, prefix: str = "") -> Iterator[tuple[str, str, Any]]:
    """Route, name and view of every address there is."""
    for one in (resolver or get_resolver()).url_patterns:
        route = prefix + str(one.pattern)
        if isinstance(one, URLResolver):
            yield from views(one, route)
        elif isinstance(one, URLPattern):
            yield route, one.name or "", one.callback


def rest_views() -> Iterator[tuple[str, str, Any]]:
    """Route with the parts in braces, name and view class of every address of REST."""
    for route, name, view in views():
        if route.startswith("api/"):
            view = getattr(view, "cls", None) or getattr(view, "view_class", view)
            yield re.sub(r"<(\w+:)?(\w+)>", r"{\2}", route), name, view


def test_every_address_has_a_rule() -> None:
    assert set(PAGES) == {*GET, *POST, *STREAMS, *OPEN, *BY_THEIR_OWN_TESTS}
    assert not (set(GET) | set(POST)) & {*STREAMS, *OPEN}


def test_every_method_of_rest_is_an_operation_which_has_a_rule(document: Any) -> None:
    described = {(path.removeprefix("/"), method) for path, method, _ in operations(document)}
    served = set()
    for route, name, view in rest_views():
        if view is not not_found and name not in FROM_CODE:
            served |= {(route, method) for method in METHODS if hasattr(view, method)}
    assert served == described


@pytest.mark.thorough
@pytest.mark.parametrize("name", GET)
def test_an_address_is_read_by_whom_it_may(client_as: Clients, world: World, name: str) -> None:
    answers = {role: asked(name, "get", client_as(role), world) for role in ROLES}
    assert [status for status, _, _ in answers.values()] == list(GET[name])
    assert not any(written for _, written, _ in answers.values())
    assert not [role for role in ROLES[:2] if SECRET in answers[role][2] or "alice" in answers[role][2]]


@pytest.mark.thorough
@pytest.mark.parametrize("name", POST)
def test_a_form_is_sent_by_whom_it_may_and_then_does_what_it_says(client_as: Clients, world: World, name: str) -> None:
    for role, expected in zip(ROLES, POST[name], strict=True):
        status, written, _ = asked(name, "post", client_as(role), world)
        assert (role, status) == (role, abs(expected))
        is_done = expected == DONE or (name in ("token_rotate", "webhook_rotate") and expected == 200)
        assert expected == UNDONE or written == (is_done and name != "logout"), role


@pytest.mark.thorough
def test_a_method_without_a_rule_is_refused_to_everybody_and_changes_nothing(client_as: Clients, world: World) -> None:
    rules = {"get": GET, "post": POST}
    clients = {role: client_as(role) for role in ("anonymous", "root")}
    for name in {*GET, *POST}:
        for method in METHODS:
            if name in rules.get(method, ()):
                continue
            for role, client in clients.items():
                status, written, _ = asked(name, method, client, world)
                assert status in REFUSED, (name, method, role, status)
                assert not written, (name, method, role)


@pytest.mark.thorough
@pytest.mark.parametrize("name", STREAMS)
def test_an_event_stream_is_opened_by_whom_it_may(world: World, name: str) -> None:
    for role, expected in zip(ROLES, STREAMS[name], strict=True):
        answer = async_to_sync(as_role(AsyncClient(), role).get)(path_of(name, world))
        assert (role, answer.status_code, answer.streaming) == (role, expected, expected == 200)


@pytest.mark.parametrize("name", OPEN)
def test_an_open_address_says_nothing_of_a_market(client_as: Clients, world: World, name: str) -> None:
    for role in ("anonymous", "root"):
        status, written, text = asked(name, "get", client_as(role), world)
        assert status in (200, 302, 503)
        assert not written
        assert not any(word in text for word in (SECRET, "alice", "Lab"))


@pytest.mark.thorough
def test_a_method_of_rest_that_is_no_operation_is_refused_to_everybody(client_as: Clients, world: World) -> None:
    values = {"cluster": "lab", "server": "edge-0", "key": KEY}
    for route, name, view in rest_views():
        cache.clear()  # requests to one address do not count against the rate of the next
        clients = {role: client_as(role) for role in ("anonymous", "root")}
        path = "/" + re.sub(r"{(\w+)}", lambda part: values.get(part[1], "1"), route)
        for method in METHODS:
            if view is not_found or name in FROM_CODE or hasattr(view, method):
                continue
            for role, client in clients.items():
                with writes() as statements:
                    answer = getattr(client, method)(path)
                assert answer.status_code in REFUSED, (name, method, role)
                assert not statements


ALL: Final = "changelist add history delete change"
READ: Final = "changelist history change"
ADMIN: Final[dict[str, str]] = {
    **dict.fromkeys(("auth.group", "auth.user"), ""),
    **dict.fromkeys(("cluster.cluster", "cluster.machinetype", "cluster.server", "cluster.modelprofile"), ALL),
    **dict.fromkeys(("accounts.team", "accounts.clusterteams"), ALL),
    **dict.fromkeys(("axes.accessattempt", "accounts.token"), f"{READ} delete"),
    **dict.fromkeys(("auctions.bid", "auctions.outage", "auctions.policyerror", "auctions.decisionrecord"), READ),
    **dict.fromkeys(("auctions.firstdecision", "auctions.event", "auctions.commitment", "auctions.payment"), READ),
    **dict.fromkeys(("auctions.policyversion", "auctions.slotprice", "auctions.publication"), READ),
    **dict.fromkeys(("auctions.certificate", "auctions.competitiveratio", "auctions.webhook", "auctions.seal"), READ),
    **dict.fromkeys(("auctions.budget", "auctions.budgetperiod", "auctions.credittransaction"), READ),
    **dict.fromkeys(("auctions.market", "execution.execution"), f"{READ} add"),
    "execution.program": ALL,
    **dict.fromkeys(("execution.training", "execution.generation", "execution.process"), READ),
    **dict.fromkeys(("execution.checkpoint", "execution.progress", "execution.lease", "execution.defect"), READ),
    **dict.fromkeys(("studies.plan",), READ),
}
"""Pages of each model in the admin that an operator may open; an administrator may open those of `auth`, too."""
WITH_OBJECT: Final = ("history", "delete", "change")


def some_row(model: Any) -> Any:
    """A row of a model: the first one, or one that is made of anything."""
    found = model._default_manager.first()
    if found is not None:
        return found
    made: dict[str, Any] = {}
    for field in model._meta.concrete_fields:
        if field.null or field.primary_key or field.has_default():
            continue
        if field.is_relation:
            made[field.name] = some_row(field.related_model)
        else:
            made[field.name] = field.choices[0][0] if field.choices else OF_TYPE[field.get_internal_type()]
    return model._default_manager.create(**made)


OF_TYPE: Final[dict[str, Any]] = {
    "BooleanField": False,
    "CharField": "x",
    "TextField": "x",
    "BinaryField": "{}",  # a text that is stored compressed
    "JSONField": {},
    "DateTimeField": timezone.now(),
    **dict.fromkeys(("FloatField", "IntegerField", "BigIntegerField", "PositiveIntegerField"), 1),
    **dict.fromkeys(("PositiveBigIntegerField", "PositiveSmallIntegerField"), 1),
}


def test_every_model_of_the_admin_has_a_rule() -> None:
    assert {model._meta.label_lower for model in site._registry} == set(ADMIN)


@pytest.mark.thorough
@pytest.mark.parametrize("label", ADMIN)
def test_a_page_of_the_admin_is_opened_by_whom_it_may(client_as: Clients, world: World, label: str) -> None:
    clients = {role: client_as(role) for role in ROLES}
    row = some_row(apps.get_model(label))
    for action in ALL.split():
        path = reverse(f"admin:{label.replace('.', '_')}_{action}", args=[row.pk] if action in WITH_OBJECT else ())
        operating = 200 if action in ADMIN[label].split() else 403
        administrating = 200 if label.startswith("auth.") else operating
        expected = (LOGIN, LOGIN, LOGIN, operating, administrating)
        for role, status in zip(ROLES, expected, strict=True):
            assert (action, role, *admin_answer(clients[role], "get", path)) == (action, role, status, False)
            if status == LOGIN:
                assert admin_answer(clients[role], "post", path) == (LOGIN, False)


def admin_answer(client: Client, method: str, path: str) -> tuple[int, bool]:
    """Status of an answer of the admin, or `LOGIN`; whether rows were written."""
    with writes() as statements:
        answer = getattr(client, method)(path)
    status = LOGIN if "/login/" in answer.headers.get("Location", "") else answer.status_code
    return status, bool(statements)


ADMIN_ALONE: Final = ("auth_user_password_change",)
"""Pages of no model's own that administrators alone open."""
ADMIN_OTHERS: Final = ("cluster_cluster_import", "auctions_market_policy", "auctions_outage_report")
ADMIN_PLAIN: Final = ("index", "login", "logout", "password_change", "password_change_done", "autocomplete", "jsi18n")


def test_every_address_of_the_admin_has_a_rule() -> None:
    named = {name.removeprefix("admin:") for _, name, _ in patterns() if name.startswith("admin:")} - {""}
    of_models = {f"{label.replace('.', '_')}_{action}" for label in ADMIN for action in ALL.split()}
    assert named - of_models == {*ADMIN_ALONE, *ADMIN_OTHERS, *ADMIN_PLAIN, "view_on_site"}


@pytest.mark.thorough
@pytest.mark.parametrize("name", ADMIN_ALONE + ADMIN_OTHERS)
def test_a_page_of_the_admin_s_own_is_opened_by_whom_it_may(client_as: Clients, world: World, name: str) -> None:
    rows: dict[str, type[User] | type[Market]] = {"auth_user_password_change": User, "auctions_market_policy": Market}
    path = reverse(f"admin:{name}", args=[rows[name].objects.earliest("pk").pk] if name in rows else ())
    expected = (LOGIN, LOGIN, LOGIN, 403 if name in ADMIN_ALONE else 200, 200)
    assert tuple(admin_answer(client_as(role), "get", path)[0] for role in ROLES) == expected
    assert [admin_answer(client_as(role), "post", path) for role in ROLES[:3]] == [(LOGIN, False)] * 3
