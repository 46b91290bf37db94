"""Operations on trainings: their state, progress and logs; for operators, the execution of a cluster."""

from typing import Final

from django.http import Http404, HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from auctions.api.base import bid_and_cluster, operated_market
from auctions.models import Bid
from execution import logs, overviews, readings, step_times
from execution.api.shapes import ExecutionOut, LogOut, StepTimesOut, TrainingOut, TrainingProgressOut
from execution.engines.files import Logs
from execution.models import Execution, Process, ProcessState
from execution.places import engine_root
from web.csv_files import CsvView, csv_file
from web.openapi import CSV, READ, describe, query
from web.parameters import whole_number
from web.views import ApiView, one_of

LARGEST: Final = 2**53
"""Largest number of a step or byte that all readers of JSON read exactly."""
COUNT: Final = {"type": "integer", "minimum": 0, "maximum": LARGEST}
STEPS: Final = [
    query("generation", COUNT, "Only steps of this generation and later ones; 0 if not given."),
    query("from_step", COUNT, "Of that generation, only steps from this one on; 0 if not given."),
]


class ClusterExecution(ApiView):
    """The execution of one cluster."""

    @describe("Read the execution of a cluster", {200: ExecutionOut}, READ, operation_id="execution_read")
    def get(self, request: Request, cluster: str) -> Response:
        """For operators: whether an executor is active, what runs on which server, and what is late. 404 if the cluster
        does not execute its jobs.
        """
        market = operated_market(request, cluster)
        rows = Execution.objects.select_related("cluster")
        absent = f"Jobs of {market.cluster.name} are not run by this service."
        execution = one_of(rows, absent, cluster=market.cluster)
        return Response(ExecutionOut.write(overviews.overview(execution), cluster=market.cluster))


class MeasuredStepTimes(ApiView):
    """Measured step times of one cluster."""

    @describe("Read measured step times", {200: StepTimesOut}, READ, operation_id="execution_step_times")
    def get(self, request: Request, cluster: str) -> Response:
        """For operators: durations of steps that trainings reported, beside the profiles that bids use."""
        return Response(StepTimesOut.write(step_times.of_market(operated_market(request, cluster))))


class MeasuredStepTimesCsv(CsvView):
    """Measured step times as a table."""

    @describe("Download measured step times", CSV, READ, operation_id="execution_step_times_csv")
    def get(self, request: Request, cluster: str) -> HttpResponse:
        """For operators: one row for each model, architecture, and numbers and types of machines."""
        rows = step_times.table(step_times.of_market(operated_market(request, cluster)))
        return csv_file(rows, f"{cluster}-step-times.csv")


class BidTraining(ApiView):
    """The training of one bid."""

    @describe(
        "Read a training",
        {200: TrainingOut},
        READ,
        parameters=[query("before", COUNT, "Only generations below this number.")],
        operation_id="bids_training",
    )
    def get(self, request: Request, cluster: str, sequence: int) -> Response:
        """Its state with the reason, what is done, and the newest 50 generations with their processes; 404 before
        anything was started for the bid.
        """
        bid, found = bid_and_cluster(request, cluster, sequence)
        training = readings.training_of(bid, before=whole_number(request, "before"))
        if training is None:
            raise Http404(_nothing(bid))
        return Response(TrainingOut.write(training, cluster=found))


class TrainingProgress(ApiView):
    """The steps that a training reported."""

    @describe(
        "Read progress", {200: TrainingProgressOut}, READ, parameters=STEPS, operation_id="bids_training_progress"
    )
    def get(self, request: Request, cluster: str, sequence: int) -> Response:
        """Steps with their losses, at most 5,000. Steps after a checkpoint that were lost with a process are reported
        again, by a later generation.
        """
        bid, _ = bid_and_cluster(request, cluster, sequence)
        generation, step = (whole_number(request, name) or 0 for name in ("generation", "from_step"))
        rows, truncated = readings.progress_of(bid, generation=generation, step=step)
        return Response(TrainingProgressOut.write({"results": rows, "truncated": truncated}))


class TrainingLog(ApiView):
    """The output of one process."""

    @describe(
        "Read a log",
        {200: LogOut},
        READ,
        parameters=[query("offset", COUNT, "Only output from this byte on; 0 if not given.")],
        operation_id="bids_training_log",
    )
    def get(self, request: Request, cluster: str, sequence: int, key: str) -> Response:
        """Lines that the process wrote, at most 64 KiB. To follow the log, ask again with `end` as the offset."""
        bid, found = bid_and_cluster(request, cluster, sequence)
        rows = Process.objects.filter(generation__training__bid=bid)
        process = one_of(rows, f"Bid {bid.sequence} has no process {key}.", key=key)
        offset = whole_number(request, "offset") or 0
        is_over = process.state in (ProcessState.EXITED, ProcessState.LOST)
        part = logs.part_from(Logs(engine_root(found.name)), key, offset, is_over=is_over)
        return Response(LogOut.write({**vars(part), "is_over": is_over}))


def _nothing(bid: Bid) -> str:
    """Return why a bid has no training."""
    if bid.body.get("program") is None:
        return f"Bid {bid.sequence} has no training: it names no program."
    return f"Nothing was started for bid {bid.sequence}: it is {bid.get_state_display().lower()}."
