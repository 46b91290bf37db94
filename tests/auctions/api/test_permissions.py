"""Permissions: a rule for every operation of the OpenAPI document, so that a new one without a rule fails."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.cache import cache
from django.db import connection
from rest_framework.test import APIClient

from accounts.invitations import invite
from accounts.models import ClusterTeams, Invitation, Membership, Role, Team, Token
from accounts.teams import add_member, create_team
from accounts.tokens import NewToken, issue
from auctions.engine import decision_queue
from auctions.engine.budgets import grant, set_budget
from auctions.models import Bid, Budget, BudgetKind, BudgetPeriod, CreditTransaction, Delivery, Outage, Webhook
from auctions.state import book
from auctions.webhooks.hooks import WebhookRequest
from auctions.webhooks.hooks import create as create_webhook
from auctions.webhooks.messages import add_test
from cluster import clock
from execution.api.programs import SMALL_ZIP
from execution.models import Program
from scheduling.registry import make_policy
from studies.background.models import JobState
from studies.counterfactuals.computing import compute_next as replay_next
from studies.counterfactuals.requests import CounterfactualRequest
from studies.counterfactuals.requests import create as create_counterfactual
from studies.experiments.api.examples import TRACE_TEXT
from studies.experiments.request import ExperimentRequest
from studies.experiments.requests import create as create_experiment
from studies.models import Experiment, Plan, PlanRun, Run, Trace
from studies.split_learning.api.examples import DESCRIBED, TINY
from studies.split_learning.plans.plan_request import PlanRequest
from studies.split_learning.plans.submission import submit_plan
from studies.workloads.traces.upload import keep
from tests.auctions.api.conftest import operations
from tests.auctions.worlds import body, make_market, make_operator, make_user, submit
from tests.execution.rows import KEY, make_training
from tests.rows import taken_back
from tests.studies.plans.here import compute_here

ACTORS = ("alice", "olga", "charlie", "anonymous", "ada")
"""Alice owns what is asked for, Olga is an operator, Charlie a stranger; Ada, an administrator, is answered as Olga."""
ANYBODY_KNOWN = (200, 200, 200, 401)
OF_THE_BID = (200, 200, 404, 401)
OF_THE_USER = (200, 404, 404, 401)
FOR_OPERATORS = (403, 200, 403, 401)
RULES: dict[str, tuple[int, int, int, int]] = {
    "token": (400, 400, 400, 400),
    "tokens_list": ANYBODY_KNOWN,
    "tokens_create": (201, 201, 201, 401),
    "tokens_read": OF_THE_USER,
    "tokens_rotate": (201, 404, 404, 401),
    "tokens_delete": (204, 404, 404, 401),
    "webhooks_list": ANYBODY_KNOWN,
    "webhooks_create": (201, 201, 201, 401),
    "webhooks_read": OF_THE_USER,
    "webhooks_change": OF_THE_USER,
    "webhooks_rotate": (201, 404, 404, 401),
    "webhooks_delete": (204, 404, 404, 401),
    "webhooks_test": (202, 404, 404, 401),
    "webhooks_deliveries": OF_THE_USER,
    "webhooks_redeliver": (202, 404, 404, 401),
    "teams_list": ANYBODY_KNOWN,
    "teams_create": (403, 201, 403, 401),
    "teams_read": OF_THE_BID,
    "teams_members": OF_THE_BID,
    "teams_members_change": OF_THE_BID,
    "teams_members_remove": (204, 204, 404, 401),
    "teams_invitations": OF_THE_BID,
    "teams_invite": (201, 201, 404, 401),
    "teams_invitations_withdraw": (204, 204, 404, 401),
    "invitations_accept": (409, 200, 200, 401),
    "budgets_list": ANYBODY_KNOWN,
    "budgets_read": OF_THE_BID,
    "budgets_set": (403, 200, 404, 401),
    "budgets_remove": (403, 204, 404, 401),
    "budgets_grant": (403, 200, 404, 401),
    "budgets_transactions": OF_THE_BID,
    "budgets_transactions_csv": OF_THE_BID,
    "clusters_teams": FOR_OPERATORS,
    "clusters_teams_change": FOR_OPERATORS,
    "clusters_list": ANYBODY_KNOWN,
    "clusters_read": ANYBODY_KNOWN,
    "prices": ANYBODY_KNOWN,
    "utilisation": ANYBODY_KNOWN,
    "welfare": ANYBODY_KNOWN,
    "summary": ANYBODY_KNOWN,
    "quote": ANYBODY_KNOWN,
    "bids_list": ANYBODY_KNOWN,
    "bids_submit": (202, 202, 202, 401),
    "bids_submit_bulk": (202, 202, 202, 401),
    "bids_read": OF_THE_BID,
    "bids_schedule": OF_THE_BID,
    "bids_changes": OF_THE_BID,
    "bids_machines": OF_THE_BID,
    "bids_segments": OF_THE_BID,
    "bids_preemptions": OF_THE_BID,
    "bids_training": OF_THE_BID,
    "bids_training_progress": OF_THE_BID,
    "bids_training_log": OF_THE_BID,
    "execution_read": FOR_OPERATORS,
    "progress_report": (403, 403, 403, 401),  # for programs, by tokens of their own
    "programs_list": ANYBODY_KNOWN,
    "programs_create": (201, 201, 201, 401),
    "programs_read": OF_THE_BID,
    "programs_close": OF_THE_BID,
    "execution_step_times": FOR_OPERATORS,
    "execution_step_times_csv": FOR_OPERATORS,
    "bids_cancel": OF_THE_BID,
    "bids_withdraw": OF_THE_BID,
    "bids_complete": FOR_OPERATORS,
    "bids_fail": FOR_OPERATORS,
    "bids_retry": FOR_OPERATORS,
    "servers_list": FOR_OPERATORS,
    "servers_read": FOR_OPERATORS,
    "servers_lost": FOR_OPERATORS,
    "servers_drain": FOR_OPERATORS,
    "servers_restore": FOR_OPERATORS,
    "plans_list": ANYBODY_KNOWN,
    "plans_create": (202, 202, 202, 401),
    "plans_read": OF_THE_BID,
    "plans_cancel": OF_THE_BID,
    "plans_delete": (204, 204, 404, 401),
    "plans_schedule": OF_THE_BID,
    "plans_noise": OF_THE_BID,
    "plans_replan": (202, 202, 404, 401),
    "plans_comparisons": OF_THE_BID,
    "plans_methods": (202, 202, 404, 401),
    "plans_helpers": (202, 202, 404, 401),
    "plans_slots": (202, 202, 404, 401),
    "plans_runs_list": OF_THE_BID,
    "plans_runs_create": (202, 202, 404, 401),
    "plans_runs_read": OF_THE_BID,
    "plans_runs_cancel": OF_THE_BID,
    "plans_runs_delete": (204, 204, 404, 401),
    "plans_runs_tasks": OF_THE_BID,
    "bids_alternatives": OF_THE_BID,
    "counterfactuals_list": FOR_OPERATORS,
    "counterfactuals_create": (403, 202, 403, 401),
    "counterfactuals_read": FOR_OPERATORS,
    "counterfactuals_cancel": FOR_OPERATORS,
    "counterfactuals_delete": (403, 204, 403, 401),
    "counterfactuals_bids": FOR_OPERATORS,
    "counterfactuals_csv": FOR_OPERATORS,
    "traces_list": ANYBODY_KNOWN,
    "traces_upload": (201, 201, 201, 401),
    "traces_read": OF_THE_BID,
    "traces_delete": (204, 204, 404, 401),
    "experiments_list": ANYBODY_KNOWN,
    "experiments_create": (202, 202, 202, 401),
    "experiments_read": OF_THE_BID,
    "experiments_cancel": OF_THE_BID,
    "experiments_rerun": (202, 202, 404, 401),
    "experiments_delete": (204, 204, 404, 401),
    "experiments_results": OF_THE_BID,
    "experiments_results_csv": OF_THE_BID,
    "experiments_runs": OF_THE_BID,
    "experiments_runs_csv": OF_THE_BID,
    "experiments_run": OF_THE_BID,
}
"""What Alice (everything is hers), Olga (an operator), Charlie (a stranger) and who is not known are answered."""

SMALL = {"generator": "dps", "setting": {"jobs": 5, "servers": 2}}
BODIES: dict[str, Any] = {
    "token": {"username": "alice", "password": "a guess"},
    "tokens_create": {"name": "script", "scope": "bid"},
    "webhooks_create": {"name": "chat", "url": "https://example.org/"},
    "webhooks_change": {"name": "chat", "url": "https://example.org/", "is_on": False},
    "teams_create": {"name": "another", "title": "Another", "administrator": "dora"},
    "teams_members_change": {"role": "viewer"},
    "teams_invite": {"role": "bidder"},
    "budgets_set": {"period": "week", "credits": 5},
    "budgets_grant": {"credits": 2.5, "note": "a deadline"},
    "clusters_teams_change": {"operated_by": None, "is_restricted": True, "teams": []},
    "quote": body(),
    "bids_submit": body(),
    "bids_submit_bulk": {"bids": [body()]},
    "bids_fail": {"reason": "a disk broke"},
    "programs_create": {"name": "mine", "arguments": ["python3", "job.py"], "archive": SMALL_ZIP},
    "plans_create": {"instance": TINY},
    "plans_replan": {"changes": {"drop": ["phone"]}},
    "plans_runs_create": {"cluster": "lab"},
    "counterfactuals_create": {"policy": "fifo"},
    "traces_upload": {"text": f"{TRACE_TEXT}\n"},
    "experiments_create": {"workloads": [SMALL], "policies": [{"name": "fifo"}]},
}
SECRET = "a name only Alice uses"
ROWS = (
    Token.objects,
    Webhook.objects,
    Delivery.objects,
    Team.objects,
    Membership.objects,
    Invitation.objects,
    ClusterTeams.objects,
    Budget.objects,
    BudgetPeriod.objects,
    CreditTransaction.objects,
    Program.objects,
    Bid.objects,
    Outage.objects,
    Plan.objects,
    PlanRun.objects,
    Trace.objects,
    Experiment.objects,
    Run.objects,
)


@dataclass(frozen=True)
class World:
    """Keys of what is Alice's: a bid that is decided and one that waits, plans, a replay, a trace and an experiment."""

    users: dict[str, int]
    plan: int
    described: int
    open_run: int
    ended_run: int
    counterfactual: int
    trace: int
    experiment: int
    program: int
    token: int
    invitation: int
    link: str
    webhook: int
    delivery: str

    def path(self, path: str, name: str) -> str:
        """The address of an operation on them."""
        keys = {
            "cluster": "lab",
            "sequence": 2 if name == "bids_withdraw" else 1,
            "server": "edge-0",
            "plan": self.described if name == "plans_slots" else self.plan,
            "counterfactual": self.counterfactual,
            "trace": self.trace,
            "experiment": self.experiment,
            "run": self._run(name),
            "key": KEY,
            "program": self.program,
            "token": self.token,
            "team": "vision",
            "user": "bella",
            "invitation": self.invitation,
            "webhook": self.webhook,
            "delivery": self.delivery,
        }
        return path.format(**keys)

    def _run(self, name: str) -> int:
        if not name.startswith("plans_runs"):
            return 1
        return self.ended_run if name == "plans_runs_tasks" else self.open_run


@pytest.fixture(scope="module")
def world(kept_rows: None) -> World:
    """All of it is named as only Alice names it."""
    users = {"alice": make_user("alice"), "olga": make_operator(), "charlie": make_user("charlie")}
    users["ada"] = make_user("ada", is_superuser=True)
    market, alice = make_market(), users["alice"]
    submit(market, alice, label=SECRET)
    decision_queue.process_pending(market.pk)
    make_training(market.bids.get())
    submit(market, alice, label=SECRET)
    make_user("dora")
    team = create_team("vision", "Vision", administrator=alice)
    add_member(team, make_user("bella"), Role.BIDDER)
    invitation = invite(team, Role.BIDDER, days=7, by=alice)
    set_budget(team, period=BudgetKind.MONTH, amount=10**9)
    grant(team, 10**6, by=users["olga"], note=SECRET)
    plan, described = (
        submit_plan(alice, PlanRequest.from_json({**source, "label": SECRET}))
        for source in ({"instance": TINY}, {"profile": DESCRIBED})
    )
    open_run, ended_run = (
        PlanRun.objects.create(
            owner=alice,
            plan=plan,
            cluster=market.cluster,
            slot_s=0.05,
            batches=1,
            submitted_at=clock.now(),
            **more,
        )
        for more in ({}, {"state": JobState.COMPLETED, "stage": "", "ended_at": clock.now(), "tasks": []})
    )
    counterfactual = create_counterfactual(alice, market, CounterfactualRequest(make_policy("fifo", {})))
    kept = keep(alice, TRACE_TEXT, label=SECRET, source="")[0]
    request = ExperimentRequest.from_json({"label": SECRET, **BODIES["experiments_create"]}, Trace.objects.none())
    webhook = create_webhook(alice, WebhookRequest(SECRET, "https://example.org/")).webhook
    delivery = add_test(webhook)
    Delivery.objects.update(status="delivered", next_at=None)
    return World(
        users={name: user.pk for name, user in users.items()},
        plan=plan.pk,
        described=described.pk,
        open_run=open_run.pk,
        ended_run=ended_run.pk,
        counterfactual=counterfactual.pk,
        trace=kept.pk,
        experiment=create_experiment(alice, request).pk,
        program=Program.objects.get().pk,
        token=issue(alice, NewToken(SECRET)).token.pk,
        invitation=invitation.pk,
        link=invitation.link_text,
        webhook=webhook.pk,
        delivery=delivery.message_id,
    )


@pytest.fixture
def clients(client_of: Callable[[User], APIClient], world: World, db: None) -> dict[str, APIClient]:
    """A client for every actor."""
    users = {name: client_of(User.objects.get(pk=key)) for name, key in world.users.items()}
    return {**users, "anonymous": APIClient()}


def stored() -> list[Any]:
    """All rows of `ROWS`, in SQL that takes no time to build."""
    found = []
    with connection.cursor() as cursor:
        for rows in ROWS:
            cursor.execute(f"SELECT * FROM {rows.model._meta.db_table} ORDER BY 1")
            found.append(cursor.fetchall())
    return found


def test_every_operation_has_a_rule(document: Any) -> None:
    assert {operation["operationId"] for _, _, operation in operations(document)} == set(RULES)


@pytest.mark.thorough
@pytest.mark.parametrize("name", RULES)
def test_an_operation_answers_whom_it_may(
    document: Any,
    world: World,
    clients: dict[str, APIClient],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    name: str,
) -> None:
    if name == "bids_retry":
        Bid.objects.update(state="quarantined")
    if name in ("plans_schedule", "plans_noise", "plans_replan", "plans_runs_create"):
        compute_here()
    if name in ("counterfactuals_bids", "counterfactuals_csv"):
        replay_next()
    path, method = next((p, m) for p, m, operation in operations(document) if operation["operationId"] == name)
    for actor in ACTORS:
        monkeypatch.setattr(settings, "EXECUTION_DIR", tmp_path / actor)
        book.forget()
        cache.clear()
        with taken_back():
            ask = partial(getattr(clients[actor], method), world.path(path, name), format="json")
            assert_answers(ask, world, name, actor)


def assert_answers(ask: Callable[[Any], Any], world: World, name: str, actor: str) -> None:
    """Ask as one of the actors; who may not has changed nothing, and strangers learn nothing."""
    expected = RULES[name][ACTORS.index("olga" if actor == "ada" else actor)]
    before = [] if expected < 400 else stored()
    answer = ask({"invitation": world.link} if name == "invitations_accept" else BODIES.get(name))
    assert answer.status_code == expected, (actor, answer.content)
    if expected == 401:
        assert answer["WWW-Authenticate"] == "Token"
    if expected >= 400:
        assert stored() == before, actor
    if actor in ("charlie", "anonymous"):
        assert SECRET not in answer.content.decode()
        assert "alice" not in answer.content.decode()
