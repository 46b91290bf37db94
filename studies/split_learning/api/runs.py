"""REST operations that run a plan with its clients and helpers as processes, and read planned and measured times."""

from typing import Final

from django.http import Http404, HttpResponse
from django.urls import reverse
from drf_spectacular.utils import OpenApiExample
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.rights import rights_of
from studies.background import states
from studies.job_tables import PLAN_RUNS
from studies.models import PlanRun
from studies.split_learning.api.base import created_once, plan_found
from studies.split_learning.runs import readings
from studies.split_learning.runs.requests import PlanRunIn, PlanRunRequest, submit_run
from studies.split_learning.schemas.runs import PlanRunOut, PlanRunPage
from web.csv_files import CsvView, csv_file
from web.openapi import CSV, KEY, PAGES, READ, REPLAYED, WAITED, WRITE, describe, location, prefer
from web.pagination import page_of
from web.views import ApiView, no_body, one_of, user_of

EXAMPLE: Final = {"cluster": "demo-training", "slot_s": 0.05, "batches": 3}


class PlanRuns(ApiView):
    """List and create the runs of one plan."""

    @describe("List runs of a plan", {200: PlanRunPage}, READ, parameters=PAGES, operation_id="plans_runs_list")
    def get(self, request: Request, plan: int) -> Response:
        """List the runs of the plan, newest first."""
        found = readings.visible_runs(user_of(request), plan_found(request, plan)).defer(*readings.LARGE)
        return page_of(self, request, found, PlanRunPage)

    @describe(
        "Run a plan",
        {200: PlanRunOut, 201: PlanRunOut, 202: PlanRunOut},
        WRITE,
        request=PlanRunIn,
        reads=lambda request, plan: PlanRunIn.read(request.data, closed=rights_of(user_of(request)).closed),
        parameters=[KEY, prefer("until it has ended"), location("run", [200, 201, 202]), WAITED, REPLAYED],
        examples=[OpenApiExample("Three batches", value=EXAMPLE, request_only=True)],
        operation_id="plans_runs_create",
    )
    def post(self, request: Request, plan: int) -> Response:
        """Run each client and helper as a process on the machine of a cluster whose operator allows it: 202.

        Answers 201 with the run after `Prefer: wait` if it has ended, and 200 if the same key was sent before and it
        has ended. 400 for a cluster that runs no plans, and 409 while there is no plan.
        """
        body, owner, found = dict(request.data), user_of(request), plan_found(request, plan)
        return created_once(
            request,
            PlanRun,
            {"plan": plan, **body},
            lambda key: submit_run(owner, found, PlanRunRequest.from_json(body, closed=rights_of(owner).closed), key),
            PlanRunOut,
            lambda run: reverse("api-plan-run", args=[run.plan_id, run.pk]),
        )


class OnePlanRun(ApiView):
    """Read or delete one run of a plan."""

    @describe("Read a run of a plan", {200: PlanRunOut}, READ, operation_id="plans_runs_read")
    def get(self, request: Request, plan: int, run: int) -> Response:
        """Return its state, and the planned and measured makespan of each batch once it is completed."""
        return Response(PlanRunOut.write(_found(request, plan, run)))

    @describe("Delete a run of a plan", {204: None}, READ, operation_id="plans_runs_delete")
    def delete(self, request: Request, plan: int, run: int) -> Response:
        """Delete it; the processes of one that runs end within a second."""
        _found(request, plan, run).delete()
        return Response(status=204)


class Cancel(ApiView):
    """Cancel one run of a plan."""

    @describe("Cancel a run of a plan", {200: PlanRunOut}, WRITE, operation_id="plans_runs_cancel")
    def post(self, request: Request, plan: int, run: int) -> Response:
        """Cancel it. Its processes end within a second; 409 if it has already ended."""
        no_body(request)
        found = _found(request, plan, run)
        states.cancel(PLAN_RUNS, found.pk)
        found.refresh_from_db()
        return Response(PlanRunOut.write(found))


class Tasks(CsvView):
    """Read the measured tasks of one run."""

    @describe("Download measured tasks", CSV, READ, operation_id="plans_runs_tasks")
    def get(self, request: Request, plan: int, run: int) -> HttpResponse:
        """Return the measured start and end of each task of each batch, as CSV, in seconds; 404 until it is
        completed.
        """
        found = _found(request, plan, run)
        if found.tasks is None:
            raise Http404(f"Run {run} has no measured tasks: it is {found.get_state_display().lower()}.")
        return csv_file(readings.task_rows(found.plan, readings.tasks_of(found)), f"plan-{plan}-run-{run}.csv")


def _found(request: Request, plan: int, run: int) -> PlanRun:
    found = readings.visible_runs(user_of(request), plan_found(request, plan))
    return one_of(found, f"There is no run {run} of plan {plan}.", pk=run)
