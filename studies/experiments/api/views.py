"""REST operations on experiments: create, list, read, cancel, repeat, delete, and read results."""

import csv
from collections.abc import Iterable
from io import StringIO
from typing import Any, Final

from django.http import Http404, HttpResponse
from django.urls import reverse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from cluster.spreadsheets import inert
from scheduling.model.validation import check_object
from studies.background.idempotency import IdempotencyKey, create_once
from studies.background.models import OPEN
from studies.experiments import readings, requests, tables
from studies.experiments.api import documents
from studies.experiments.api.examples import EXPERIMENTS
from studies.experiments.api.serializers import (
    ExperimentIn,
    ExperimentOut,
    ExperimentPage,
    ResultsOut,
    RunOut,
    RunsOut,
)
from studies.experiments.request import ExperimentRequest, TraceFinder
from studies.models import Experiment
from web.headers import idempotency_key
from web.openapi import KEY, PAGES, READ, REPLAYED, WRITE, answered, describe, examples
from web.pagination import NewestFirst
from web.parameters import known_parameters
from web.renderers import CsvRenderer
from web.views import ApiView, user_of

EXPERIMENT: Final = OpenApiParameter(
    "experiment", {"type": "integer", "minimum": 1}, OpenApiParameter.PATH, description="Number of the experiment."
)
RUN: Final = OpenApiParameter(
    "run", {"type": "integer", "minimum": 1}, OpenApiParameter.PATH, description="Number of the run, from 1."
)
LOCATION: Final = answered("Location", "Address of the experiment.", [200, 202])


class Experiments(ApiView):
    """List and create experiments: policies x workloads x seeds."""

    @describe("List experiments", {200: ExperimentPage}, READ, parameters=PAGES, operation_id="experiments_list")
    def get(self, request: Request) -> Response:
        """List your experiments, or all experiments for an operator, newest first."""
        known_parameters(request, "cursor", "page_size")
        pages = NewestFirst()
        # The servers of a machine list take a megabyte in the matrix, and rows of the list do not show them.
        found = readings.visible_experiments(user_of(request)).defer("matrix", "rerun_of__matrix")
        page = pages.paginate_queryset(found, request, view=self) or []
        results = [documents.brief(experiment) for experiment in page]
        return Response({"next": pages.get_next_link(), "previous": pages.get_previous_link(), "results": results})

    @describe(
        "Create an experiment",
        {200: ExperimentOut, 202: ExperimentOut},
        WRITE,
        request=ExperimentIn,
        parameters=[KEY, LOCATION, REPLAYED],
        examples=examples(EXPERIMENTS),
        operation_id="experiments_create",
    )
    def post(self, request: Request) -> Response:
        """Create an experiment. One policy, one workload and one seed are a single replay.

        Answers 202; workers compute the runs. Answers 200 if the same key was sent before and all runs have ended.
        """
        known_parameters(request)
        body: Any = request.data
        owner, said = user_of(request), dict(body)
        request_key = IdempotencyKey.of(idempotency_key(request), said)

        def make() -> Experiment:
            return requests.create(
                owner, ExperimentRequest.from_json(said, TraceFinder(readings.visible_traces(owner))), request_key
            )

        asked = create_once(Experiment, owner, request_key, make)
        open_still = readings.progress_of(asked.row).state in OPEN
        response = _accepted(asked.row, status=202 if open_still else 200)
        if not asked.created:
            response["Idempotency-Replayed"] = "true"
        return response


class OneExperiment(ApiView):
    """Read or delete one experiment."""

    @describe(
        "Read an experiment", {200: ExperimentOut}, READ, parameters=[EXPERIMENT], operation_id="experiments_read"
    )
    def get(self, request: Request, experiment: int) -> Response:
        """Return its request, its state and its progress."""
        known_parameters(request)
        return Response(documents.full(_found(request, experiment)))

    @describe("Delete an experiment", {204: None}, READ, parameters=[EXPERIMENT], operation_id="experiments_delete")
    def delete(self, request: Request, experiment: int) -> Response:
        """Delete the experiment with its runs; running ones are cancelled first."""
        known_parameters(request)
        requests.delete(_found(request, experiment))
        return Response(status=204)


class Cancel(ApiView):
    """Cancel an experiment."""

    @describe(
        "Cancel an experiment",
        {200: ExperimentOut},
        WRITE,
        request=None,
        parameters=[EXPERIMENT],
        operation_id="experiments_cancel",
    )
    def post(self, request: Request, experiment: int) -> Response:
        """Cancel the runs that have not ended; completed runs stay. 409 if all have ended."""
        _nothing_said(request)
        found = _found(request, experiment)
        requests.cancel(found)
        return Response(documents.full(found))


class Rerun(ApiView):
    """Repeat an experiment."""

    @describe(
        "Run an experiment again and compare",
        {202: ExperimentOut},
        WRITE,
        request=None,
        parameters=[EXPERIMENT, LOCATION],
        operation_id="experiments_rerun",
    )
    def post(self, request: Request, experiment: int) -> Response:
        """Run the experiment again: 202 with a new one, whose `comparison` says which runs gave the same bytes."""
        _nothing_said(request)
        return _accepted(requests.rerun(user_of(request), _found(request, experiment)))


class ResultsView(ApiView):
    """Read the results of an experiment."""

    @describe("Read results", {200: ResultsOut}, READ, parameters=[EXPERIMENT], operation_id="experiments_results")
    def get(self, request: Request, experiment: int) -> Response:
        """Return means over seeds with 95 % t intervals, from the runs completed so far, and the bounds."""
        known_parameters(request)
        return Response(documents.results_document(readings.results_of(_found(request, experiment))))


class Runs(ApiView):
    """List the runs of an experiment."""

    @describe("List runs", {200: RunsOut}, READ, parameters=[EXPERIMENT], operation_id="experiments_runs")
    def get(self, request: Request, experiment: int) -> Response:
        """List all runs in order, without their outcomes."""
        known_parameters(request)
        results = readings.results_of(_found(request, experiment))
        return Response({"runs": [documents.run_row(results, cell) for cell in results.cells]})


class OneRun(ApiView):
    """Read one run."""

    @describe("Read a run", {200: RunOut}, READ, parameters=[EXPERIMENT, RUN], operation_id="experiments_run")
    def get(self, request: Request, experiment: int, run: int) -> Response:
        """Return the run, with its whole outcome once it is done."""
        known_parameters(request)
        results = readings.results_of(_found(request, experiment))
        cell = next((cell for cell in results.cells if cell.run.number == run), None)
        if cell is None:
            raise Http404(f"Experiment {experiment} has no run {run}.")
        return Response(documents.run_full(results, cell))


class ResultsCsv(ApiView):
    """Read results as a table."""

    renderer_classes = (CsvRenderer, JSONRenderer)

    @describe(
        "Download results",
        {(200, "text/csv"): OpenApiTypes.STR},
        READ,
        parameters=[EXPERIMENT],
        operation_id="experiments_results_csv",
    )
    def get(self, request: Request, experiment: int) -> HttpResponse:
        """Return one row for each workload, policy and metric, as CSV."""
        known_parameters(request)
        found = _found(request, experiment)
        return _csv(tables.result_rows(readings.results_of(found)), f"experiment-{found.pk}-results.csv")


class RunsCsv(ApiView):
    """Read runs as a table."""

    renderer_classes = (CsvRenderer, JSONRenderer)

    @describe(
        "Download runs",
        {(200, "text/csv"): OpenApiTypes.STR},
        READ,
        parameters=[EXPERIMENT],
        operation_id="experiments_runs_csv",
    )
    def get(self, request: Request, experiment: int) -> HttpResponse:
        """Return one row for each run with all its figures and hashes, as CSV."""
        known_parameters(request)
        found = _found(request, experiment)
        return _csv(tables.run_rows(readings.results_of(found)), f"experiment-{found.pk}-runs.csv")


def _accepted(experiment: Experiment, *, status: int = 202) -> Response:
    response = Response(documents.full(experiment), status=status)
    response["Location"] = reverse("api-experiment", args=[experiment.pk])
    return response


def _nothing_said(request: Request) -> None:
    known_parameters(request)
    data: Any = request.data
    check_object("", dict(data), required=[])


def _csv(rows: Iterable[list[object]], name: str) -> HttpResponse:
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows(inert(rows))
    response = HttpResponse(text.getvalue(), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def _found(request: Request, number: int) -> Experiment:
    experiment = readings.visible_experiments(user_of(request)).filter(pk=number).first()
    if experiment is None:
        raise Http404(f"There is no experiment {number} of yours.")
    return experiment
