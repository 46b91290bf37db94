"""The OpenAPI document is valid, and the server answers as it says, whatever is asked."""

import json
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from django.core.management import call_command
from django.test import Client
from hypothesis import HealthCheck, Phase, given, settings
from rest_framework.authtoken.models import Token
from schemathesis.checks import CHECKS as CHECKS_BY_NAME
from schemathesis.checks import load_all_checks
from schemathesis.core.result import Ok

from auctions.models import Market
from config.wsgi import application
from tests.auctions.worlds import make_user, submit

load_all_checks()
CHECKS = CHECKS_BY_NAME.get_by_names(
    ["not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance"]
)


def test_the_document_is_valid_and_raises_no_warning(tmp_path: Path) -> None:
    call_command("spectacular", "--validate", "--fail-on-warn", "--file", str(tmp_path / "schema.yml"))


@pytest.fixture
def document(db: None) -> Any:
    answer = Client().get("/api/v1/schema", headers={"Accept": "application/vnd.oai.openapi+json"})
    return json.loads(answer.content)


def test_every_operation_answers_as_documented(document: Any, market: Market) -> None:
    user = make_user("olga", is_staff=True)
    submit(market, user)
    headers = {"Authorization": f"Token {Token.objects.create(user=user).key}"}
    schema = schemathesis.openapi.from_dict(document)
    schema.app = application
    for result in schema.get_all_operations():
        assert isinstance(result, Ok)
        fuzz(result.ok(), headers)


def fuzz(operation: Any, headers: dict[str, str]) -> None:
    @settings(
        max_examples=12,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def answers_as_documented(case: Any) -> None:
        if "cluster" in (case.path_parameters or {}):
            case.path_parameters["cluster"] = "lab"
        (case.headers or {}).pop("Prefer", None)  # its wait has a test of its own
        case.call_and_validate(headers=headers, checks=CHECKS)

    answers_as_documented()
