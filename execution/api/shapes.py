"""Shapes of responses about execution: each writes a row, and describes it in OpenAPI."""

# ruff: noqa: D101, D102 (shapes are named for what they describe, and their fields carry their texts)
from rest_framework import serializers

from auctions.api import fields
from auctions.api.bid_shapes import ROLES
from auctions.api.fields import ClusterName, slot_times, string, wall_time
from execution.models import Ending, EngineKind, GenerationState, Process, ProcessState, TrainingState
from execution.overviews import Overview
from execution.readings import Start
from web.writing import Answer


class ProcessOut(Answer):
    key = string("Name of the process; its log is read under it.")
    role = serializers.ChoiceField(ROLES, help_text="Whether it is a worker or a parameter server.")
    rank = fields.number("Number among the processes of its role, from 0.")
    server = string("Name of the server.", source="server.name")
    machine_type = string("Name of the machine type.", source="machine_type.name")
    state = serializers.ChoiceField(
        ProcessState.choices, help_text="State of the process. lost: it ended, and nobody knows how."
    )
    code = fields.number("Exit code; 128 + the number of a signal that ended it; null if it has not exited.", null=True)
    reason = string("Words of the engine about its end.", blank=True)
    started_at = wall_time("Start; null before it", null=True)
    ended_at = wall_time("End; null before it", null=True)


class HeldMachinesOut(Answer):
    server = string("Name of the server.")
    machine_type = string("Name of the machine type.")
    role = serializers.ChoiceField(ROLES, help_text="Whether they are workers or parameter servers.")
    count = fields.number("Number of machines.")


class GenerationOut(Answer):
    number = fields.number("Number of the generation, from 0.", source="row.number")
    state = serializers.ChoiceField(GenerationState.choices, source="row.state", help_text="State of the generation.")
    ending = serializers.ChoiceField(
        Ending.choices, allow_null=True, help_text="Reason why it ends or has ended; null while it runs."
    )
    slot, slot_s, slot_at = slot_times("row.slot", "Slot in which it was started")
    machines = HeldMachinesOut(many=True, help_text="Machines on which it runs.")
    resumed_from = fields.number("Step of the checkpoint from which it went on; null if from the start.", null=True)
    created_at = wall_time("Time at which it was created", source="row.created_at")
    began_at = wall_time("Start of its first process; null before it", null=True)
    stopped_at = wall_time("Time at which it was asked to stop; null before it", source="row.stopped_at", null=True)
    ended_at = wall_time("Time at which nothing of it was left; null before it", source="row.ended_at", null=True)
    last_step = fields.number("Last step that it reported; null if it reported none.", null=True)
    pause_s = serializers.FloatField(
        allow_null=True,
        help_text="Seconds from the stop of the previous generation until its own first process started.",
    )
    repeated_steps = fields.number("Steps of the previous generation that it has to do again.", null=True)
    processes = ProcessOut(many=True, help_text="Its processes, workers first.")

    @staticmethod
    def ending_of(row: Start) -> str | None:
        return row.row.ending or None

    @staticmethod
    def processes_of(row: Start) -> list[Process]:
        return row.processes


class ForecastOut(Answer):
    sequence = fields.number("Number of the bid.", source="bid")
    step = fields.number("Last step that was reported.")
    steps = fields.number("Number of steps in all.")
    step_s = serializers.FloatField(help_text="Present time from one step to the next, seconds.")
    done_slot = serializers.FloatField(help_text="Time at which it is done at this rate, in the slots that it holds.")
    done_at = wall_time("The same")
    promised_slot = serializers.FloatField(help_text="End of the last slot that it holds.")
    promised_at = wall_time("The same")
    late_slots = serializers.FloatField(help_text="done_slot - promised_slot; below 0 if it is done in time.")


class TrainingOut(Answer):
    cluster = ClusterName(source="*", help_text="Name of the cluster.")
    sequence = fields.number("Number of the bid.", source="row.bid.sequence")
    program = string("Name of the program.", source="row.program.name")
    arguments = serializers.ListField(
        child=serializers.CharField(), source="row.arguments", help_text="Arguments of the bid."
    )
    state = serializers.ChoiceField(
        TrainingState.choices, source="row.state", help_text="State of the training; the bid has one of its own."
    )
    reason = string("Reason why it is in this state; of a failure, the last lines of output.", source="row.reason")
    step = fields.number("Greatest step that the last start which reported has reported.", source="row.step")
    steps = fields.number("Number of steps in all; null if the bid does not state it.", source="row.steps", null=True)
    percent = fields.number("Share of the steps that is done, percent, rounded down; null without `steps`.", null=True)
    loss = serializers.FloatField(source="row.loss", allow_null=True, help_text="Loss at this step.")
    continues = fields.number("Number of the earlier bid whose training it continues; null if none.", null=True)
    retries = fields.number("Failures in a row without a newer checkpoint; the fifth ends it.", source="row.retries")
    next_try_at = wall_time("Time before which it is not started again after a failure", null=True)
    forecast = ForecastOut(
        allow_null=True,
        help_text="When it will be done at its present rate; null if it does not run, or that is not known.",
    )
    generations = GenerationOut(many=True, help_text="Generations, oldest first; of many, the newest.")
    truncated = serializers.BooleanField(help_text="Whether there are earlier generations.")


class TrainingStepOut(Answer):
    generation = fields.number("Number of the generation that reported it.", source="generation.number")
    step = fields.number("Number of steps done.")
    loss = serializers.FloatField(allow_null=True, help_text="Loss.")
    seconds = serializers.FloatField(allow_null=True, help_text="Duration of this step, as reported, seconds.")
    at = wall_time("Time at which the executor read it")


class TrainingProgressOut(Answer):
    results = TrainingStepOut(many=True, help_text="Steps by generation, then by number.")
    truncated = serializers.BooleanField(
        help_text="Whether there are more: go on with the generation of the last row, and its step + 1."
    )


class LogOut(Answer):
    text = string("Whole lines of output, without colours; empty if there are none from `offset` on.", blank=True)
    begin = fields.number("Offset of the first byte of `text`, in bytes of all output.")
    end = fields.number(
        "Offset behind its last byte, and behind versions of a line that were written over: go on here."
    )
    first = fields.number("Offset of the first byte that is kept; older output was removed.")
    size = fields.number("Bytes of all output so far.")
    unfinished = string(
        "The line that begins at `end` and may still change, such as a progress bar; empty if there is none.",
        blank=True,
    )
    is_over = serializers.BooleanField(help_text="Whether the process has ended, so that no more output follows.")


class EstimateOut(Answer):
    model = string("Name of the model.")
    worker_type = string("Name of the worker type.")
    profile_s = serializers.FloatField(help_text="Step time in the profile, seconds: new bids use it.")
    measured_s = serializers.FloatField(
        allow_null=True,
        help_text="Median of the reported durations of steps, less the exchange of gradients by the profile, seconds;"
        " null for fewer than 20 steps, or if it is not above 0.",
    )
    ratio = serializers.FloatField(allow_null=True, help_text="measured_s / profile_s.")
    steps = fields.number("Number of steps.")
    jobs = fields.number("Number of jobs that reported them.")


class MeasuredOut(Answer):
    model = string("Name of the model.", source="constellation.model")
    architecture = string("ps, or ring, as jobs in queues run, too.", source="constellation.architecture")
    worker_type = string("Type of the workers; several are joined by +.", source="constellation.worker_type")
    workers = fields.number("Number of workers.", source="constellation.workers")
    ps_type = string("Type of the parameter servers; empty in a ring.", source="constellation.ps_type", blank=True)
    num_ps = fields.number("Number of parameter servers.", source="constellation.ps")
    one_server = serializers.BooleanField(
        source="constellation.one_server", help_text="Whether all machines were on one server."
    )
    expected_s = serializers.FloatField(help_text="Duration of a step by the profile of now, seconds.")
    measured_s = serializers.FloatField(
        allow_null=True, help_text="Median of the reported durations, seconds; null for fewer than 20 steps."
    )
    ratio = serializers.FloatField(allow_null=True, help_text="measured_s / expected_s.")
    steps = fields.number("Number of steps.")
    jobs = fields.number("Number of jobs that reported them.")


class StepTimesOut(Answer):
    estimates = EstimateOut(many=True, help_text="By model and worker type, where all workers were of one type.")
    measured = MeasuredOut(many=True, help_text="By everything on which a step's duration depends.")


class ServerUseOut(Answer):
    name = string("Name of the server.")
    in_service = serializers.BooleanField(help_text="Whether the market gives it new work.")
    running = fields.number("Number of processes that run there.")
    sent = fields.number("Number of processes that were sent to the engine and have not been seen there.")
    unstarted = fields.number("Number of these that were sent more than 5 s ago: the server may not be reached.")
    lost = fields.number("Number of processes that were lost there in the last hour.")
    engine_state = string(
        "What the engine says of the server; null if it says nothing. It is not trusted: an engine may notice a dead"
        " server after minutes.",
        null=True,
    )


class LateOut(Answer):
    sequence = fields.number("Number of the bid.", source="bid")
    problem = string("What should have happened, in words.")
    since = wall_time("Time from which on it is late")


def _counts(what: str) -> serializers.DictField:
    return serializers.DictField(child=serializers.IntegerField(), help_text=f"Number of {what} in each state.")


class RestartOut(Answer):
    restarts = fields.number("Number of changes of machines that were measured: the newest, at most 50.")
    seconds = serializers.FloatField(
        allow_null=True, help_text="Median time that one cost, wall-clock seconds; null without any."
    )
    slots = serializers.FloatField(allow_null=True, help_text="The same in slots.")
    parameter = string("Name by which the policy in force counts it: restart or pause.")
    counted_slots = fields.number("Slots that the policy counts for it.")


class ExecutionOut(Answer):
    cluster = ClusterName(source="*", help_text="Name of the cluster.")
    is_on = serializers.BooleanField(source="execution.is_on", help_text="Whether processes are started.")
    engine = serializers.ChoiceField(
        EngineKind.choices, source="execution.engine", help_text="Engine that starts processes."
    )
    grace_s = serializers.FloatField(
        source="execution.grace_s", help_text="Seconds between SIGTERM and SIGKILL, and before machines change."
    )
    executor_active = serializers.BooleanField(help_text="Whether an executor is active, for all clusters.")
    executor = string("Executor that is active, or was last; null if there was none.", null=True)
    executor_since = wall_time("Time at which it became the active one; null if there was none", null=True)
    lease_until = wall_time("End of its lease, which it renews about once a second", null=True)
    fence = fields.number("Number of executors that have been active so far; null if there was none.", null=True)
    trainings = _counts("trainings")
    generations = fields.number("Number of generations that have not ended.")
    processes = _counts("processes of these generations")
    servers = ServerUseOut(many=True, help_text="Servers in the order of prices.")
    late = LateOut(
        many=True, help_text="What should have started or ended more than 5 s ago, or failed in the executor, by bid."
    )
    defect = string("Error that ends each loop of the executor for this cluster; null if there is none.", null=True)
    foreseen = ForecastOut(
        many=True, help_text="Trainings that will not be done in time at their present rate, the latest first."
    )
    restart = RestartOut(help_text="What it costs a job that its machines change.")

    @staticmethod
    def defect_of(row: Overview) -> str | None:
        return None if row.defect is None else str(row.defect)

    @staticmethod
    def executor_of(row: Overview) -> str | None:
        return None if row.lease is None else row.lease.holder

    @staticmethod
    def fence_of(row: Overview) -> int | None:
        return None if row.lease is None else row.lease.fence
