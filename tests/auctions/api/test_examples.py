"""What the documentation says to paste works on the demo's cluster as it stands there."""

from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from rest_framework.test import APIClient

from accounts.models import Role
from accounts.teams import add_member, create_team
from accounts.tokens import NewToken, issue
from auctions.api.examples import BIDS, TOKEN
from auctions.engine import decision_queue
from auctions.engine.submission import submit_bid
from auctions.models import Market
from auctions.webhooks.hooks import WebhookRequest
from auctions.webhooks.hooks import create as create_webhook
from cluster.models import Server
from cluster.operators import OPERATORS
from demo.scenarios import DPS, WEIGHTED
from demo.world import market_of
from execution.models import Execution
from studies.split_learning.api.examples import TINY
from studies.split_learning.plans.plan_request import PlanRequest
from studies.split_learning.plans.submission import submit_plan
from tests.auctions.api.conftest import operations
from tests.auctions.worlds import make_user
from tests.studies.plans.here import compute_here

LEFT_OUT = ("progress_report", "invitations_accept")
"""Only a program that runs may send it: `tests/execution/test_progress_by_http.py` sends its example."""


@pytest.fixture
def demo(db: None) -> Market:
    user = User.objects.create_user(TOKEN["username"], password=TOKEN["password"])
    user.groups.add(Group.objects.get(name=OPERATORS))
    market_of(WEIGHTED, seed=7)
    market = market_of(DPS, seed=7)
    Execution.objects.create(cluster=market.cluster, own_programs=True, users_trust_each_other=True, runs_plans=True)
    return market


@pytest.mark.thorough
def test_every_operation_with_a_body_has_examples_and_each_is_taken(document: Any, demo: Market) -> None:
    taken = 0
    plan = submit_plan(User.objects.get(), PlanRequest.from_json({"instance": TINY}))
    assert compute_here()
    promised = submit_bid(cluster=demo.cluster, owner=User.objects.get(), body=BIDS["A model this cluster knows"]).bid
    decision_queue.process_pending(demo.pk)
    server = Server.objects.filter(cluster=demo.cluster)[0]
    names = {"{plan}": str(plan.pk), "{sequence}": str(promised.sequence), "{server}": server.name}
    user, team = User.objects.get(), create_team("team", "Team")
    names |= {"{team}": team.name, "{user}": add_member(team, make_user("another"), Role.BIDDER).user.username}
    names["{token}"] = str(issue(user, NewToken("script")).token.pk)
    names["{webhook}"] = str(create_webhook(user, WebhookRequest("chat", "https://example.org/")).webhook.pk)
    for path, method, operation in operations(document):
        if "requestBody" not in operation or operation["operationId"] in LEFT_OUT:
            continue
        for title, example in operation["requestBody"]["content"]["application/json"]["examples"].items():
            client = APIClient()
            client.force_authenticate(user)
            cluster = WEIGHTED.name if "weight" in example["value"] else DPS.name
            address = path.replace("{cluster}", cluster)
            for name, value in names.items():
                address = address.replace(name, value)
            sent = dict(example["value"])
            if operation["operationId"] == "plans_runs_create":
                sent["cluster"] = demo.cluster.name  # not the demo's cluster in which users may run plans
            answer = getattr(client, method)(address, sent, format="json")
            assert answer.status_code in (200, 201, 202), f"{operation['operationId']} {title}: {answer.content!r}"
            taken += 1
    assert taken == 49
    decision_queue.process_pending(demo.pk)
    decided = client.get("/api/v1/clusters/demo/bids").json()["results"]
    states = {row["sequence"]: row["state"] for row in decided}
    assert states.pop(promised.sequence) == "failed"
    assert list(states.values()) == ["planned"] * 8


def test_the_document_says_that_bodies_hold_no_other_keys(document: Any) -> None:
    closed = {name for name, schema in document["components"]["schemas"].items() if "additionalProperties" in schema}
    assert closed >= {"BidIn", "BulkIn", "TokenIn"}


def test_every_field_of_the_document_is_described(document: Any) -> None:
    for name, schema in document["components"]["schemas"].items():
        for field, described in schema.get("properties", {}).items():
            assert described.get("description"), f"{name}.{field}"
    for _, _, operation in operations(document):
        for parameter in operation.get("parameters", []):
            assert parameter["description"], operation["operationId"]
