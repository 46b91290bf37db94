"""REST operations on experiments: create, list, read, cancel, repeat, delete, and read results."""

from typing import Final

from django.contrib.auth.models import User
from django.http import Http404, HttpResponse
from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.rights import rights_of
from scheduling.model.types import Json
from studies.background.creating import IdempotencyKey, create_once
from studies.background.models import OPEN
from studies.experiments import readings, requests, tables
from studies.experiments.api.examples import EXPERIMENTS
from studies.experiments.api.schemas import ExperimentOut, ExperimentPage, ResultsOut, RunOut, RunsOut
from studies.experiments.request import ExperimentIn, ExperimentRequest
from studies.models import Experiment
from web.csv_files import CsvView, csv_file
from web.headers import idempotency_key, submitted
from web.openapi import CSV, KEY, PAGES, READ, REPLAYED, WRITE, describe, examples, location
from web.pagination import page_of
from web.views import ApiView, no_body, one_of, user_of

LOCATION: Final = location("experiment", [200, 202])


class Experiments(ApiView):
    """List and create experiments: policies x workloads x seeds."""

    @describe("List experiments", {200: ExperimentPage}, READ, parameters=PAGES, operation_id="experiments_list")
    def get(self, request: Request) -> Response:
        """List your experiments, or all experiments for an operator, newest first."""
        # The servers of a machine list take a megabyte in the matrix, and rows of the list do not show them.
        found = readings.visible_experiments(user_of(request)).defer("matrix", "rerun_of__matrix")
        return page_of(self, request, found, ExperimentPage)

    @describe(
        "Create an experiment",
        {200: ExperimentOut, 202: ExperimentOut},
        WRITE,
        request=ExperimentIn,
        reads=lambda request: _asked(user_of(request), dict(request.data)),
        parameters=[KEY, LOCATION, REPLAYED],
        examples=examples(EXPERIMENTS),
        operation_id="experiments_create",
    )
    def post(self, request: Request) -> Response:
        """Create an experiment. One policy, one workload and one seed are a single replay.

        Answers 202; workers compute the runs. Answers 200 if the same key was sent before and all runs have ended.
        """
        body, owner = dict(request.data), user_of(request)
        key = IdempotencyKey.of(idempotency_key(request), body)

        def make() -> Experiment:
            return requests.create(owner, _asked(owner, body), key)

        made = create_once(Experiment, owner, key, make)
        return _accepted(made.row, is_open=readings.progress_of(made.row).state in OPEN, created=made.created)


class OneExperiment(ApiView):
    """Read or delete one experiment."""

    @describe("Read an experiment", {200: ExperimentOut}, READ, operation_id="experiments_read")
    def get(self, request: Request, experiment: int) -> Response:
        """Return its request, its state and its progress."""
        return Response(ExperimentOut.write(_found(request, experiment)))

    @describe("Delete an experiment", {204: None}, READ, operation_id="experiments_delete")
    def delete(self, request: Request, experiment: int) -> Response:
        """Delete the experiment with its runs; running ones are cancelled first."""
        requests.delete(_found(request, experiment))
        return Response(status=204)


class Cancel(ApiView):
    """Cancel an experiment."""

    @describe("Cancel an experiment", {200: ExperimentOut}, WRITE, operation_id="experiments_cancel")
    def post(self, request: Request, experiment: int) -> Response:
        """Cancel the runs that have not ended; completed runs stay. 409 if all have ended."""
        no_body(request)
        found = _found(request, experiment)
        requests.cancel(found)
        return Response(ExperimentOut.write(found))


class Rerun(ApiView):
    """Repeat an experiment."""

    @describe(
        "Rerun an experiment and compare",
        {202: ExperimentOut},
        WRITE,
        parameters=[LOCATION],
        operation_id="experiments_rerun",
    )
    def post(self, request: Request, experiment: int) -> Response:
        """Run the experiment again: 202 with a new one, whose `comparison` says which runs gave the same bytes."""
        no_body(request)
        return _accepted(requests.rerun(user_of(request), _found(request, experiment)))


class ResultsView(ApiView):
    """Read the results of an experiment."""

    @describe("Read results", {200: ResultsOut}, READ, operation_id="experiments_results")
    def get(self, request: Request, experiment: int) -> Response:
        """Return means over seeds with 95 % t intervals, from the runs completed so far, and the bounds."""
        return Response(ResultsOut.write(readings.results_of(_found(request, experiment))))


class Runs(ApiView):
    """List the runs of an experiment."""

    @describe("List runs", {200: RunsOut}, READ, operation_id="experiments_runs")
    def get(self, request: Request, experiment: int) -> Response:
        """List all runs in order, without their outcomes."""
        return Response(RunsOut.write(readings.results_of(_found(request, experiment))))


class OneRun(ApiView):
    """Read one run."""

    @describe("Read a run", {200: RunOut}, READ, operation_id="experiments_run")
    def get(self, request: Request, experiment: int, run: int) -> Response:
        """Return the run, with its whole outcome once it is completed."""
        results = readings.results_of(_found(request, experiment))
        cell = next((cell for cell in results.cells if cell.run.number == run), None)
        if cell is None:
            raise Http404(f"Experiment {experiment} has no run {run}.")
        return Response(RunOut.write(cell))


class ResultsCsv(CsvView):
    """Read results as a table."""

    @describe("Download results", CSV, READ, operation_id="experiments_results_csv")
    def get(self, request: Request, experiment: int) -> HttpResponse:
        """Return one row for each workload, policy and metric, as CSV."""
        found = _found(request, experiment)
        return csv_file(tables.result_rows(readings.results_of(found)), f"experiment-{found.pk}-results.csv")


class RunsCsv(CsvView):
    """Read runs as a table."""

    @describe("Download runs", CSV, READ, operation_id="experiments_runs_csv")
    def get(self, request: Request, experiment: int) -> HttpResponse:
        """Return one row for each run with all its figures and hashes, as CSV."""
        found = _found(request, experiment)
        return csv_file(tables.run_rows(readings.results_of(found)), f"experiment-{found.pk}-runs.csv")


def _accepted(experiment: Experiment, *, is_open: bool = True, created: bool = True) -> Response:
    address = reverse("api-experiment", args=[experiment.pk])
    document = ExperimentOut.write(experiment)
    return submitted(document, status=202 if is_open else 200, location=address, repeated=not created)


def _asked(owner: User, body: Json) -> ExperimentRequest:
    return ExperimentRequest.from_json(body, readings.visible_traces(owner), closed=rights_of(owner).closed)


def _found(request: Request, number: int) -> Experiment:
    found = readings.visible_experiments(user_of(request))
    return one_of(found, f"There is no experiment {number} of yours.", pk=number)
