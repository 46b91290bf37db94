"""JSON that is nested without end, or holds what no database stores, is a form error: it stores nothing."""

from typing import Any

import pytest
from django.contrib import admin
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import models
from django.test import Client, RequestFactory

from auctions.models import Bid, Market
from cluster.json_field import JsonFormField
from cluster.models import Cluster
from execution.models import Execution, Program
from studies.models import Experiment, Plan, Trace
from tests.auctions.worlds import make_cluster, make_operator
from tests.execution.test_admin import ADMIN, form, program_form
from tests.frontend import test_experiment_pages, test_plan_pages
from tests.frontend.test_views import FORM, HOME

TEXTS = {
    "open lists": "[" * 100_000,
    "closed lists": "[" * 100_000 + "]" * 100_000,
    "objects": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "what a reader takes": '{"a":' * 700 + "1" + "}" * 700,
    "a level too many": "[" * 21 + "]" * 21,
    "a name twice": '{"a": "1", "a": "2"}',
    "an integer too long to be read": '{"a": ' + "9" * 5_000 + "}",
}
STORED = (Bid, Execution, Experiment, Plan, Program, Trace)
each_text = pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)


@pytest.fixture(autouse=True)
def _nothing_is_stored(db: None) -> Any:
    yield
    for model in STORED:
        assert not model._default_manager.exists(), model


@each_text
@pytest.mark.parametrize(
    ("kind", "field"),
    [("execution", "addresses"), ("execution", "sbatch_options"), ("program", "arguments"), ("program", "environment")],
)
def test_the_admin_refuses_it(as_operator: Client, text: str, kind: str, field: str) -> None:
    sent = (form if kind == "execution" else program_form)(cluster=make_cluster().pk, **{field: text})
    answer = as_operator.post(f"{ADMIN}/{kind}/add/", sent)
    assert answer.status_code == 200
    assert "Expected JSON" in " ".join(answer.context["adminform"].form.errors[field])
    assert text[:50].replace('"', "&quot;") in answer.text


def test_every_json_field_of_the_admin_is_of_this_kind(rf: RequestFactory, db: None) -> None:
    request = rf.get("/")
    request.user = make_operator()
    kinds = {
        (model.__name__, field.name)
        for model, site in admin.site._registry.items()
        for field in model._meta.get_fields()
        if isinstance(field, models.JSONField)
        and field.name in (fields := site.get_form(request).base_fields)
        and site.has_add_permission(request)
        and not isinstance(fields[field.name], JsonFormField)
    }
    assert kinds == set()


@each_text
def test_the_form_of_bids_refuses_it(market: Market, as_alice: Client, text: str) -> None:
    answer = as_alice.post(f"{HOME}submit/", {**FORM, "more": text})
    assert answer.status_code == 422
    assert list(as_alice.post(f"{HOME}quote/", {**FORM, "more": text}).json()["errors"]) == ["more"]


@each_text
def test_the_form_of_experiments_refuses_it(as_alice: Client, text: str) -> None:
    answer = test_experiment_pages.sent(as_alice, setting=text)
    assert "setting" in answer.context["form"].errors
    answer = test_experiment_pages.sent(as_alice, more=f"fifo blocking={text.replace(' ', '')}")
    assert answer.status_code in (200, 422)


@each_text
def test_forms_that_read_files_refuse_it(as_alice: Client, as_operator: Client, text: str) -> None:
    answer = test_plan_pages.sent(as_alice, example="", text=text)
    assert answer.context["form"].errors
    answer = as_alice.post("/traces/", {"file": SimpleUploadedFile("physical.json", text.encode())})
    assert answer.context["form"].errors
    answer = as_operator.post("/admin/cluster/cluster/import/", {"document": SimpleUploadedFile("x", text.encode())})
    assert answer.status_code == 200
    assert answer.context["form"].errors
    assert not Cluster.objects.exists()
