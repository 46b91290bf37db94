"""The OpenAPI document is valid, and the server answers as it says, whatever is asked."""

from collections import Counter
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import schemathesis
from django.conf import settings as project
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.test import Client
from drf_spectacular.generators import SchemaGenerator
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import CHECKS as CHECKS_BY_NAME
from schemathesis.checks import load_all_checks
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode

from accounts.invitations import invite
from accounts.models import Invitation, Role, Token
from accounts.teams import add_member, create_team
from accounts.tokens import NewToken, issue
from auctions.engine import decision_queue
from auctions.engine.budgets import grant, set_budget
from auctions.engine.policies import change_policy
from auctions.engine.submission import submit_bid
from auctions.models import BudgetKind, Delivery, Market, Webhook
from auctions.webhooks.hooks import WebhookRequest
from auctions.webhooks.hooks import create as create_webhook
from auctions.webhooks.messages import add_test
from config.wsgi import application
from execution.api.programs import SMALL_ZIP
from execution.models import Generation, Program
from execution.tokens import token_of
from scheduling.registry import make_policy
from studies.counterfactuals.computing import compute_next as replay_next
from studies.counterfactuals.requests import CounterfactualRequest
from studies.counterfactuals.requests import create as create_counterfactual
from studies.experiments.api.examples import TRACE_TEXT
from studies.experiments.request import ExperimentRequest
from studies.experiments.requests import create as create_experiment
from studies.models import Counterfactual, Experiment, Plan, PlanRun, Trace
from studies.split_learning.api.examples import CSV, DESCRIBED, TINY
from studies.split_learning.plans.plan_request import PlanRequest
from studies.split_learning.plans.submission import submit_plan
from studies.split_learning.runs.requests import PlanRunRequest, submit_run
from studies.workloads.traces.upload import keep
from tests.auctions.worlds import body, make_market, make_operator, make_user, submit
from tests.draws import LONGER, SOAK, choose_seed, rounds, some
from tests.execution.rows import KEY, make_training
from tests.rest import user_token
from tests.studies.experiments.here import compute_here as compute_runs_here
from tests.studies.plans.here import compute_here, ran

load_all_checks()
POSITIVE = GenerationMode.POSITIVE
ALWAYS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
]
EXPERIMENT: Any = {
    "workloads": [{"generator": "dps", "setting": {"jobs": 4, "servers": 2, "slots": 20}}],
    "policies": [{"name": "fifo"}],
}
AT_LEAST = 1
"""Answers of 200 to 202 that an operation must have given, or its test tested nothing."""
ATTEMPTS = 5
"""Draws for an operation that did not give one, since few examples are drawn."""
SEED = choose_seed() if SOAK else 0
"""One for which these draws are enough."""

WEBHOOK: Any = {
    "name": {"enum": ["chat"]},
    "url": {"enum": ["https://example.org/hook"]},
    "cluster": {"enum": ["lab", None]},
}
"""Fields of webhooks."""
SPARE = "spare"
"""Name of tokens that no request is sent with."""

ONCE = {f"{rows}_{deed}" for deed in ("cancel", "delete") for rows in ("plans", "plans_runs")}
ONCE |= {f"counterfactuals_{deed}" for deed in ("cancel", "delete")}
ONCE |= {
    "bids_cancel",
    "bids_complete",
    "bids_fail",
    "bids_retry",
    "bids_withdraw",
    "budgets_remove",
    "experiments_cancel",
    "experiments_delete",
    "invitations_accept",
    "teams_create",
    "teams_invitations_withdraw",
    "teams_members_remove",
    "tokens_delete",
    "traces_delete",
    "webhooks_delete",
    "webhooks_redeliver",
}
"""Operations that are possible once for each thing there is."""
FOR_OPERATORS = (
    "budgets_grant",
    "budgets_remove",
    "budgets_set",
    "clusters_teams",
    "teams_create",
    "counterfactuals",
    "execution",
    "servers",
    "bids_complete",
    "bids_fail",
    "bids_retry",
)
"""Beginnings of the names of operations that bidders may not do."""


@pytest.fixture(scope="module")
def _objects(kept_rows: None) -> None:
    """A market with a decided and a waiting bid of Alice, and what else operations are about."""
    market, alice = make_market(), make_user("alice")
    User.objects.create_user("bob", password="correct horse")
    team = create_team("vision", "Vision", administrator=alice)
    for name in ("bella", "cleo"):
        add_member(team, make_user(name), Role.BIDDER)
    for _ in range(3):
        invite(team, Role.BIDDER, days=7, by=alice)
    for name in ("vision", "speech"):
        limited = team if name == "vision" else create_team(name, name.title())
        set_budget(limited, period=BudgetKind.YEAR, amount=10**15)
        grant(limited, -(10**9), by=alice)
    submit(market, alice)
    decision_queue.process_pending(market.pk)
    make_training(market.bids.get())
    submit(market, alice)
    for source in ({"instance": TINY}, {"profile": DESCRIBED}, {"profile": DESCRIBED}):
        submit_plan(alice, PlanRequest.from_json(source))
    compute_here()
    plan = Plan.objects.earliest("pk")
    ran(plan, market.cluster)
    for _ in range(2):
        submit_run(alice, plan, PlanRunRequest(market.cluster))
        create_counterfactual(alice, market, CounterfactualRequest(make_policy("fifo", {})))
    replay_next()
    keep(alice, TRACE_TEXT, label="", source="")
    for _ in range(2):
        create_experiment(alice, ExperimentRequest.from_json(EXPERIMENT, Trace.objects.all()))
    compute_runs_here(most=2)  # those of the first


@pytest.fixture
def alice(_objects: None, db: None) -> User:
    """The owner of what there is."""
    return User.objects.get(username="alice")


@pytest.fixture
def market(_objects: None, db: None) -> Market:
    """The market of all bids."""
    return Market.objects.get()


@pytest.fixture(autouse=True)
def _limits(market: Market, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """None is met by what is drawn; who waits for a decision gets one."""
    monkeypatch.setattr(project, "EXECUTION_DIR", tmp_path)
    monkeypatch.setattr(project, "OPEN_WORK", dict.fromkeys(project.OPEN_WORK, 10**6))
    monkeypatch.setattr("auctions.webhooks.hooks.MOST_WEBHOOKS", 10**6)
    monkeypatch.setattr("execution.programs.MOST_OPEN", 10**6)
    monkeypatch.setattr("execution.programs.MOST_A_DAY", 10**6)
    monkeypatch.setattr("web.shutdown.pause", lambda _: decision_queue.process_pending(market.pk))
    monkeypatch.setattr("web.throttles.PasswordThrottle.allow_request", lambda *_: True)
    # The end of a request would close the connection, and with it undo the test's own transaction.
    monkeypatch.setattr(connection, "close_if_unusable_or_obsolete", lambda: None)


def headers_of(user: User | None) -> dict[str, str]:
    """The header of a token of the user, who has three more, which may be ended."""
    if user is None:
        return {}
    for _ in range(3):
        issue(user, NewToken(SPARE))
    add_webhooks(user)
    return {"Authorization": f"Token {user_token(user)}"}


def add_webhooks(user: User) -> None:
    """Three webhooks of the user, each with a message that was delivered: while a test is sent again, no other is."""
    for name in ("chat", "log", "desk"):
        add_test(create_webhook(user, WebhookRequest(name, "https://example.org/")).webhook)
    Delivery.objects.update(type="bid.completed", status="delivered", next_at=None)


def knowing(document: Any) -> Any:
    """The document with the names this world has, so that what is drawn from it is often right."""
    document = deepcopy(document)
    seconds = {"type": "number", "minimum": 0, "maximum": 50}
    bodies = document["components"]["schemas"]
    bid = bodies["BidIn"]["properties"]
    bid["model"] = {"enum": ["ResNet-50"]}
    bid["label"] = {"type": "string", "pattern": "^[ -~]{0,120}$"}
    bid["worker_step_s"] = _names(seconds, "gpu", least=1)
    bid["ps_step_s"] = _names(seconds, "ps", least=1)
    bid["upload_delay_s"] = _names(seconds, "edge-0", "cloud", least=0)
    bodies["BidIn"]["required"] = ["model", "epochs", "utility"]
    for key in ("weight", "architecture", "reduce_step_s", "chunk_mb", "program"):  # for other markets than this one
        del bid[key]
    for form in bid["utility"]["oneOf"]:
        if "points" in form["properties"]:
            form["properties"]["points"] = {"enum": [[[0, 1]], [[0, 1], [300, 0.5]], [[0, 0.9], [1e5, 0]]]}
    bodies["BulkIn"]["properties"]["bids"]["maxItems"] = 3
    bodies["TokenIn"]["properties"] = {"username": {"enum": ["bob"]}, "password": {"enum": ["correct horse", "guess"]}}
    for name in ("ReasonIn", "DrainIn", "FailIn"):
        bodies[name]["properties"]["reason"] = {"type": "string", "pattern": "^[!-~]{1,40}$"}
    bodies["DrainIn"]["properties"] |= {"from_slot": {"enum": [0, 1, None]}, "deadline_slot": {"enum": [4, 9, None]}}
    bodies["ProgramDefinitionIn"]["properties"] = {
        "name": {"type": "string", "pattern": "^[a-z]{12}$"},
        "arguments": {"enum": [["python3", "job.py"]]},
        "archive": {"enum": [SMALL_ZIP]},
        "environment": {"enum": [{}, {"OMP_NUM_THREADS": "1"}]},
    }
    bodies["ProgramDefinitionIn"]["required"] = ["name", "arguments", "archive"]
    bodies["NewTokenIn"]["properties"] |= {"name": {"enum": ["script"]}, "cluster": {"enum": ["lab", None]}}
    bodies["WebhookIn"]["properties"] |= WEBHOOK
    bodies["ChangedWebhookIn"]["properties"] |= WEBHOOK
    bodies["NewTeamIn"]["properties"] = {
        "name": {"type": "string", "pattern": "^[a-z]{12}$"},
        "title": {"enum": ["Another"]},
        "administrator": {"enum": ["bob", "alice"]},
    }
    bodies["BudgetIn"]["properties"]["credits"] = {"enum": [10**8, 10**9]}
    bodies["GrantIn"]["properties"] = {"credits": {"enum": [3, 0.5, -1, 1e-7]}, "note": {"enum": ["", "a deadline"]}}
    bodies["AcceptIn"]["properties"]["invitation"] = {"enum": [one.link_text for one in Invitation.objects.all()]}
    bodies["ClusterTeamsIn"]["properties"] |= {
        "operated_by": {"enum": ["vision", None]},
        "teams": {"enum": [[], ["vision"]]},
    }
    plan = bodies["PlanIn"]
    plan["properties"]["instance"] = {"enum": [TINY]}
    plan["properties"]["label"] = bid["label"]
    plan["required"] = ["instance"]
    for key in ("profile", "scenario", "cluster"):
        del plan["properties"][key]
    bodies["PlanRunIn"]["properties"] = {"cluster": {"enum": ["lab"]}, "batches": {"enum": [1, 3]}}
    bodies["PlanRunIn"]["required"] = ["cluster"]
    again = bodies["ReplanIn"]
    again["properties"]["changes"] = {"enum": [{"drop": ["phone"]}, {"slower": {"camera": 1.5}}]}
    again["properties"]["label"] = bid["label"]
    again["required"] = ["changes"]
    del again["properties"]["instance"]
    document["paths"]["/api/v1/plans"]["post"]["requestBody"]["content"]["text/csv"]["schema"] = {"enum": [CSV]}
    experiment, trace = bodies["ExperimentIn"], bodies["TraceIn"]
    experiment["properties"] |= {"workloads": {"enum": [EXPERIMENT["workloads"]]}, "label": bid["label"]}
    experiment["properties"]["policies"] = {"enum": [EXPERIMENT["policies"], [{"name": "dps"}, {"name": "srtf"}]]}
    experiment["properties"]["seeds"] = {"type": "array", "items": {"enum": [0, 7]}, "minItems": 1, "uniqueItems": True}
    trace["properties"] = {"label": bid["label"], "text": {"enum": [TRACE_TEXT, f"{TRACE_TEXT}\n"]}}
    upload = document["paths"]["/api/v1/traces"]["post"]["requestBody"]["content"]
    upload["text/csv"]["schema"] = {"enum": [TRACE_TEXT]}
    first, *more = Experiment.objects.order_by("pk").values_list("pk", flat=True)
    done, profiled, *others = Plan.objects.order_by("pk").values_list("pk", flat=True)
    first, *waiting = Counterfactual.objects.order_by("pk").values_list("pk", flat=True)
    bodies["CounterfactualIn"]["properties"]["parameters"] = {"enum": [{}]}
    spare, *tokens = Token.objects.filter(name=SPARE).order_by("pk").values_list("pk", flat=True) or [10**12]
    first_webhook, *webhooks = Webhook.objects.order_by("pk").values_list("pk", flat=True) or [10**12]
    once: dict[str, list[Any]] = {
        "webhook": webhooks,
        "token": tokens,
        "plan": others,
        "counterfactual": waiting,
        "experiment": more,
        "trace": [],
    }
    names: dict[str, list[Any]] = {
        "plan": [done, profiled, *others, 10**12],
        "counterfactual": [first, *waiting, 10**12],
        "trace": [*Trace.objects.values_list("pk", flat=True), 10**12],
        "experiment": [first, 10**12],
        "run": [1, 2, 9],
        "token": [spare, 10**12],
        "webhook": [first_webhook, 10**12],
        "delivery": [*(one.message_id for one in Delivery.objects.filter(webhook=first_webhook)), "msg_0"],
        "team": ["vision", "none"],
        "since": ["2026-11-25", "2026-02-30"],
        "until": ["2099-12-31", "today"],
        "user": ["bella", "cleo", "none"],
        "invitation": [*Invitation.objects.values_list("pk", flat=True), 10**12],
        "program": [*Program.objects.values_list("pk", flat=True), 10**12],
        "cluster": ["lab"],
        "sequence": [1, 2, 3, 10**12],
        "key": [KEY, "none"],
        "offset": [0, 3],
        "server": ["cloud", "edge-0", "mars"],
        "owner": ["alice", "olga"],
        "from_slot": [-3, 0, 3],
        "from_step": [0, 3, 4],
        "generation": [0, 1],
        "to_slot": [1, 9, 10**9],
        "draws": [1, 20],
        "Prefer": ["wait=0", "wait=5", "respond-async", "wait=x"],
        "Idempotency-Key": [f"key-{i}" for i in range(30)],
    }
    for path in document["paths"].values():
        for operation in path.values():
            known = _known_values(operation["operationId"], names, once)
            for parameter in operation.get("parameters", []):
                if parameter["name"] in known:
                    parameter["schema"] = {"enum": known[parameter["name"]]}
                parameter.pop("examples", None)
    return document


def _known_values(operation: str, names: dict[str, list[Any]], once: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """What parameters of an operation may be; what can be done once to a row is not done to the first ones."""
    if operation.startswith("plans_runs_"):
        first, *waiting = PlanRun.objects.order_by("pk").values_list("pk", flat=True)
        runs = waiting if operation.endswith(("_cancel", "_delete")) else [first]
        keys = {"Prefer": ["wait=0", "wait=x"], "Idempotency-Key": [f"run-{i}" for i in range(30)]}
        return names | {"plan": names["plan"][:1], "run": [*runs, 10**12]} | keys
    if operation == "budgets_remove":  # other operations need that of the other team
        return names | {"team": ["speech", "none"]}
    if operation.endswith(("_cancel", "_delete")):
        return names | {name: [*numbers, 10**12] for name, numbers in once.items()}
    if operation.startswith("plans_"):  # no worker computes while a request waits
        known = names | {"Prefer": [value for value in names["Prefer"] if value != "wait=5"]}
        # Only what is computed can be planned again, under a key that asked for nothing else.
        again = {"plan": names["plan"][:2], "Idempotency-Key": [f"again-{i}" for i in range(30)]}
        more = {"Idempotency-Key": [f"more-{i}" for i in range(30)]}
        return known | {"plans_replan": again, "plans_helpers": more}.get(operation, {})
    return names


def _names(child: Any, *names: str, least: int) -> Any:
    return {
        "type": "object",
        "properties": dict.fromkeys(names, child),
        "additionalProperties": False,
        "minProperties": least,
    }


def asked(
    document: Any,
    headers: dict[str, str],
    *,
    examples: int,
    mode: GenerationMode,
    checks: list[str],
    attempts: int = 1,
    closed: tuple[str, ...] = (),
) -> dict[str, Counter[int]]:
    """Ask every operation at random and check each answer; how often each status came, by operation.

    An operation that has not given a success is asked again, up to this number of times in all; not one whose name
    begins as one of `closed`, which this caller may not do.
    """
    schema = schemathesis.openapi.from_dict(document)
    schema.app = application
    seen: dict[str, Counter[int]] = {}
    for result in schema.get_all_operations():
        assert isinstance(result, Ok)
        operation = result.ok()
        name = operation.definition.raw["operationId"]
        counts = seen[name] = Counter()
        if mode is GenerationMode.NEGATIVE and not (SOAK or may_be_wrong(operation)):
            continue
        for attempt in range(1 if name.startswith(closed) else attempts):
            if successes(counts) < AT_LEAST:
                counts += fuzz(operation, known_to(operation, headers), SEED + attempt, examples, mode, checks)
    return seen


def known_to(operation: Any, headers: dict[str, str]) -> dict[str, str]:
    """The headers of a caller that an operation knows: programs, not users, report progress."""
    if headers and operation.definition.raw["operationId"] == "progress_report":
        return {"Authorization": f"Token {token_of(Generation.objects.get())}"}
    return headers


def may_be_wrong(operation: Any) -> bool:
    """Whether a request may differ from the document: not if it says no more than names in its path.

    Hypothesis gives up on such an operation after hundreds of draws, as it does in a soak.
    """
    described = operation.definition.raw
    parts = [(part["in"], part["schema"]) for part in described.get("parameters", [])]
    return "requestBody" in described or any(part != ("path", {"type": "string"}) for part in parts)


def successes(counts: Counter[int]) -> int:
    """The number of answers of 200 to 202."""
    return sum(counts[code] for code in (200, 201, 202))


def fuzz(
    operation: Any, headers: dict[str, str], drawn: int, examples: int, mode: GenerationMode, checks: list[str]
) -> Counter[int]:
    seen: Counter[int] = Counter()

    @seed(drawn)
    @settings(
        max_examples=examples,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def answers_as_documented(case: Any) -> None:
        answer = case.call_and_validate(headers=headers, checks=CHECKS_BY_NAME.get_by_names(checks))
        seen[answer.status_code] += 1

    try:
        answers_as_documented()
    except Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE
        assert not may_be_wrong(operation)
    return seen


@pytest.mark.thorough
def test_the_document_is_written_once_for_all_who_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    read = partial(Client().get, "/api/v1/schema")
    first = read()
    monkeypatch.setattr(SchemaGenerator, "get_schema", Mock(side_effect=AssertionError("it is written again")))
    for query in ({}, {"version": "2"}, {"lang": "de"}):
        again = read(query)
        assert (again.status_code, again["Content-Type"]) == (200, "application/vnd.oai.openapi; charset=utf-8")
        assert again.content == first.content


def test_the_document_is_valid_and_raises_no_warning(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"  # YAML takes seconds
    call_command("spectacular", "--validate", "--fail-on-warn", "--format", "openapi-json", "--file", str(file))


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("who", some(["operator", "bidder"], 1))
def test_what_is_often_right_is_answered_as_documented(document: Any, alice: User, who: str) -> None:
    headers = headers_of(alice if who == "bidder" else make_operator())
    examples = rounds(6, longer=3 * LONGER)
    closed = FOR_OPERATORS if who == "bidder" else ()
    seen = asked(
        knowing(document), headers, examples=examples, mode=POSITIVE, checks=ALWAYS, attempts=ATTEMPTS, closed=closed
    )
    few = {name for name, counts in seen.items() if successes(counts) < AT_LEAST}
    assert all(name.startswith(closed) for name in few - ONCE), few - ONCE
    assert 202 in seen["bids_submit"]  # 201, 200 and 409 are asked for below, whatever is drawn


@pytest.mark.thorough
def test_a_bid_sent_again_or_changed_under_its_key_is_answered_as_documented(document: Any, alice: User) -> None:
    """A key is rarely drawn twice, so these are written down."""
    schema = schemathesis.openapi.from_dict(document)
    schema.app = application
    found = [result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)]
    submit_one = next(one for one in found if one.definition.raw["operationId"] == "bids_submit")
    headers, codes = headers_of(alice), []
    checks: Any = CHECKS_BY_NAME.get_by_names(ALWAYS)
    for bid in (body(), body(), body(epochs=2)):
        case = submit_one.Case(
            path_parameters={"cluster": "lab"},
            headers={"Idempotency-Key": "twice", "Prefer": "wait=5"},
            body=bid,
            media_type="application/json",
        )
        codes.append(case.call_and_validate(headers=headers, checks=checks).status_code)
    assert codes == [201, 200, 409]


@pytest.mark.soak
@pytest.mark.slow
def test_bids_of_a_weight_are_answered_as_documented(document: Any, market: Market, alice: User) -> None:
    change_policy(market, name="weighted_completion", parameters={}, by=None)
    for weight in (3, 5):
        sent = {key: value for key, value in body().items() if key != "utility"} | {"weight": weight}
        submit_bid(cluster=market.cluster, owner=alice, body=sent)
    decision_queue.process_pending(market.pk)
    known = knowing(document)
    bid = known["components"]["schemas"]["BidIn"]
    del bid["properties"]["utility"], bid["properties"]["ps_step_s"]
    bid["properties"] |= {"architecture": {"enum": ["ring"]}, "weight": {"enum": [1, 2.5, 0]}}
    bid["required"] = ["model", "epochs", "weight"]
    known["paths"] = {path: part for path, part in known["paths"].items() if "/clusters/" in path}
    seen = asked(known, headers_of(alice), examples=rounds(6, longer=2 * LONGER), mode=POSITIVE, checks=ALWAYS)
    for name in ("bids_submit", "quote", "bids_changes", "bids_machines", "bids_schedule", "bids_read"):
        assert successes(seen[name]) >= AT_LEAST, seen[name]


@pytest.mark.soak
@pytest.mark.slow
def test_who_is_not_known_is_answered_as_documented(document: Any) -> None:
    seen = asked(knowing(document), {}, examples=rounds(3), mode=POSITIVE, checks=ALWAYS)
    assert set(seen.pop("token")) == {200, 400}
    # 404 for an invalid address: drawn numbers of a bid may be written 1.0.
    assert {code for counts in seen.values() for code in counts} <= {401, 404}


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("mode", some(GenerationMode, 1))
def test_what_nobody_would_send_is_answered_as_documented(document: Any, alice: User, mode: GenerationMode) -> None:
    checks = [*ALWAYS, *(["negative_data_rejection"] if mode is GenerationMode.NEGATIVE else [])]
    seen = asked(document, headers_of(alice), examples=rounds(3, longer=2 * LONGER), mode=mode, checks=checks)
    assert sum(counts.total() for counts in seen.values()) > 150
