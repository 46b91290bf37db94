"""REST operations on plans: create, list, read, cancel and delete."""

from typing import Final

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import Http404, HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.rights import rights_of
from scheduling.model.types import Json
from scheduling.split_learning.methods import METHODS
from studies.background import states
from studies.background.creating import IdempotencyKey
from studies.background.models import JobState
from studies.job_tables import PLANS
from studies.models import MOST_SECONDS, Plan
from studies.split_learning.api import examples as bodies
from studies.split_learning.api.base import CREATED, ONCE, created, plan_found
from studies.split_learning.plans import readings
from studies.split_learning.plans.csv_instance import read_csv
from studies.split_learning.plans.plan_request import PlanRequest
from studies.split_learning.plans.submission import delete_plan, submit_plan
from studies.split_learning.schemas.answers import PlanOut, PlanPage
from studies.split_learning.schemas.request import LEAST_SECONDS, LONGEST_LABEL, PlanIn
from web.csv_files import CsvView, csv_file
from web.openapi import CSV, PAGES, READ, WRITE, describe, examples, query
from web.pagination import page_of
from web.parameters import wrong_parameters
from web.parsers import CsvParser, LargeJSONParser, csv_text
from web.views import ApiView, no_body, user_of

FILTERS: Final = [
    query("state", str, "Only plans in these states; may be repeated.", enum=JobState.values, many=True),
    query("method", str, "Only plans by this method.", enum=list(METHODS)),
    *PAGES,
]
CSV_PARAMETERS: Final = [
    query("method", str, "With CSV: as the key of the same name.", enum=list(METHODS)),
    query("seconds", {"type": "number", "minimum": LEAST_SECONDS, "maximum": MOST_SECONDS}, "With CSV, likewise."),
    query("seed", {"type": "integer", "minimum": 0, "maximum": 10**9}, "With CSV, likewise."),
    query("slot_ms", {"type": "integer", "minimum": 1, "maximum": 10**9}, "With CSV: milliseconds of a slot; 1."),
    query("label", {"type": "string", "minLength": 1, "maxLength": LONGEST_LABEL}, "With CSV, likewise."),
    query("cluster", {"type": "string", "minLength": 1}, "With CSV, likewise."),
]


class Plans(ApiView):
    """List and create plans of parallel split learning."""

    parser_classes = (LargeJSONParser, CsvParser)
    body_limit_bytes = settings.PLAN_BODY_LIMIT_BYTES

    @describe("List plans", {200: PlanPage}, READ, parameters=FILTERS, operation_id="plans_list")
    def get(self, request: Request) -> Response:
        """List your plans, or all plans for an operator, newest first."""
        found = _filtered(request, readings.visible_plans(user_of(request)).defer(*readings.LARGE))
        return page_of(self, request, found, PlanPage)

    @describe(
        "Create a plan",
        CREATED,
        WRITE,
        reads=lambda request: _asked(user_of(request), _body(request)),
        request={"application/json": PlanIn, "text/csv": OpenApiTypes.STR},
        parameters=[*CSV_PARAMETERS, *ONCE],
        examples=[
            *examples(bodies.PLANS),
            OpenApiExample("Two clients", value=bodies.CSV, request_only=True, media_type="text/csv"),
        ],
        operation_id="plans_create",
    )
    def post(self, request: Request) -> Response:
        """Create a plan: 202 with its place in the queue; a worker computes it. CSV has a row per helper and client.

        Answers 201 with the plan after `Prefer: wait`, and 200 if the same key was sent before and it has ended.
        """
        body, owner = _body(request), user_of(request)

        def submit(key: IdempotencyKey) -> Plan:
            return submit_plan(owner, _asked(owner, body), key)

        return created(request, body, submit)


class OnePlan(ApiView):
    """Read or delete one plan."""

    @describe("Read a plan", {200: PlanOut}, READ, operation_id="plans_read")
    def get(self, request: Request, plan: int) -> Response:
        """Return its state, the bound and the best makespan so far, and the plan once there is one."""
        return Response(PlanOut.write(plan_found(request, plan)))

    @describe("Delete a plan", {204: None}, READ, operation_id="plans_delete")
    def delete(self, request: Request, plan: int) -> Response:
        """Delete the plan with the comparisons requested on its page; running ones are cancelled first."""
        delete_plan(plan_found(request, plan))
        return Response(status=204)


class Cancel(ApiView):
    """Cancel a plan."""

    @describe("Cancel a plan", {200: PlanOut}, WRITE, operation_id="plans_cancel")
    def post(self, request: Request, plan: int) -> Response:
        """Cancel it. A running one ends within seconds and keeps its best plan; 409 if it has already ended."""
        no_body(request)
        found = plan_found(request, plan)
        states.cancel(PLANS, found.pk)
        found.refresh_from_db()
        return Response(PlanOut.write(found))


class Schedule(CsvView):
    """Read the schedule of one plan."""

    @describe("Download a schedule", CSV, READ, operation_id="plans_schedule")
    def get(self, request: Request, plan: int) -> HttpResponse:
        """Return when helpers run passes, as CSV, in slots and seconds; 404 while there is no plan."""
        found = plan_found(request, plan)
        if found.result is None:
            raise Http404(f"Plan {plan} has no schedule: it is {found.get_state_display().lower()}.")
        return csv_file(readings.schedule_rows(found), f"plan-{found.pk}.csv")


def _filtered(request: Request, plans: "QuerySet[Plan]") -> "QuerySet[Plan]":
    """Return the plans that match the query."""
    wanted = request.query_params.getlist("state")
    if wanted:
        plans = plans.filter(state__in=wanted)
    method = request.query_params.get("method")
    if method is not None:
        plans = plans.filter(method=method)
    return plans


def _asked(owner: User, body: Json) -> PlanRequest:
    return PlanRequest.from_json(body, closed=rights_of(owner).closed)


def _body(request: Request) -> Json:
    """Return the JSON body, or the one that is equal to the CSV text and those parameters that are right."""
    text = csv_text(request)
    if text is None:
        return dict(request.data)
    wrong = wrong_parameters(request, CSV_PARAMETERS)
    given = {name: value for name, value in request.query_params.dict().items() if name not in wrong}
    slot_ms = int(given.pop("slot_ms", "1"))
    body: Json = {name: _number(value) if name in ("seconds", "seed") else value for name, value in given.items()}
    return {**body, "instance": read_csv(text, slot_ms=slot_ms)}


def _number(text: str) -> int | float:
    return int(text) if text.isdigit() else float(text)
