"""OpenAPI schemas of requests and answers about traces and experiments."""

# ruff: noqa: D101 (the name of a class says what it describes, and its fields have help texts)
from typing import Any, Final

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from cluster.traces.formats import FORMATS, KINDS
from scheduling.registry import POLICIES
from studies.background.models import JobState
from studies.background.shapes import place_field, stage_field
from studies.experiments.metrics import METRICS
from studies.experiments.request import LARGEST_SEED, LONGEST_LABEL, MOST_POLICIES, MOST_SEEDS, MOST_WORKLOADS
from studies.workloads.generated.generators import GENERATORS
from studies.workloads.simulation.replay import LONGEST_HORIZON
from studies.workloads.traces.source import MOST_GPUS
from web.schema import Schema, named

LONGEST_SOURCE: Final = 200


def _label(**more: Any) -> Any:
    text = "Your name for it."
    return named(serializers.CharField(allow_blank=True, max_length=LONGEST_LABEL, help_text=text, **more))


def _whole(text: str, high: int, **more: Any) -> serializers.IntegerField:
    return serializers.IntegerField(required=False, min_value=1, max_value=high, help_text=text, **more)


def _yes(text: str) -> serializers.BooleanField:
    return serializers.BooleanField(required=False, help_text=text)


class TraceIn(Schema):
    label = _label(required=False)
    source = named(
        serializers.CharField(
            required=False, allow_blank=True, max_length=LONGEST_SOURCE, help_text="Name of the file."
        )
    )
    text = serializers.CharField(help_text="All of the file, known by its first line.")
    throughputs = serializers.CharField(
        required=False,
        allow_blank=True,
        help_text="All of Gavel's file of throughputs (JSON), for a trace that says mini-batches and no durations; or "
        "upload it as a trace of its own.",
    )


class MalformedOut(Schema):
    line = serializers.IntegerField(help_text="Counted from 1, the heading included.")
    field = serializers.CharField(help_text="The column that is wrong, or `line`.")
    message = serializers.CharField(help_text="What was expected.")


class TraceRow(Schema):
    id = serializers.IntegerField(help_text="Names it in addresses.")
    label = _label()
    source = named(serializers.CharField(allow_blank=True, help_text="Name of the file."))
    format = serializers.ChoiceField(list(FORMATS), help_text="Whose format it is.")
    kind = serializers.ChoiceField(
        list(KINDS), help_text="What it holds: jobs, or what they run on, or what tells more of them."
    )
    sha256 = serializers.CharField(help_text="Of its text in UTF-8, hex.")
    records = serializers.IntegerField(help_text="Lines that are jobs, or what else it holds; entries of throughputs.")
    malformed_lines = serializers.IntegerField(help_text="Lines that are no record.")
    owner = serializers.CharField(help_text="Who uploaded it.")
    submitted_at = serializers.DateTimeField(help_text="Wall clock, ISO 8601.")


class TraceOut(TraceRow):
    malformed = MalformedOut(many=True, help_text="Lines that are no record; of very many the first.")
    gpu_types = serializers.ListField(
        child=serializers.CharField(), help_text="For which its throughputs are; empty where none came with it."
    )


class TracePage(Schema):
    next = serializers.CharField(allow_null=True, help_text="Address of the next page.")
    previous = serializers.CharField(allow_null=True, help_text="Address of the page before.")
    results = TraceRow(many=True, help_text="Newest first.")


@extend_schema_field({"type": "object", "additionalProperties": True})
class FreeIn(serializers.JSONField):
    """An object whose keys depend on the name in another field."""


class WorkloadIn(Schema):
    trace = _whole("Number of a trace of yours that holds jobs. Or a generator.", 2**63 - 1)
    gpus = _whole("Of a trace: so many GPUs, eight a server. Or a cluster, or machines.", MOST_GPUS)
    apart = _yes("With GPUs: parameter servers on servers of their own, as OASiS wants them.")
    cluster = serializers.CharField(required=False, help_text="Of a trace: the servers of this cluster, as of now.")
    machines = _whole("Of a trace: number of one that holds machines, which are the servers.", 2**63 - 1)
    step_times = _whole(
        "Of a trace: number of one that holds step times (Sia) or throughputs (Gavel), for jobs that say none.",
        2**63 - 1,
    )
    batch = _whole("With step times of Sia: samples on each GPU; the most that were measured.", 10**9)
    quotas = _whole(
        "Of a trace that names no tenants: number of one that holds quotas; each job's tenant is drawn by them.",
        2**63 - 1,
    )
    slot_s = _whole("Of a trace: seconds of a slot; 600, or the cluster's.", 10**9)
    horizon = _whole("Of a trace: slots that can be planned; twice the longest run, or the cluster's.", LONGEST_HORIZON)
    jobs = _whole("Of a trace: only the first so many rows.", 10**9)
    ring = _yes("Of a trace: jobs exchange gradients in rings.")
    elastic = _yes("Of a trace: jobs can use twice the GPUs they had.")
    reference = serializers.CharField(
        required=False, help_text="Of a trace with throughputs: the GPU of worker types not measured; v100."
    )
    generator = serializers.ChoiceField(
        list(GENERATORS), required=False, help_text="Servers and jobs by the settings of a paper, drawn from the seed."
    )
    setting = FreeIn(required=False, help_text="Of a generator: sizes and ranges; the paper's where nothing is said.")


class PolicyIn(Schema):
    name = serializers.ChoiceField(list(POLICIES), help_text="As in the registry.")
    parameters = FreeIn(required=False, help_text="The policy's own; its defaults where nothing is said.")


class ExperimentIn(Schema):
    label = _label(required=False)
    workloads = serializers.ListField(
        child=WorkloadIn(), min_length=1, max_length=MOST_WORKLOADS, help_text="What policies are run on."
    )
    policies = serializers.ListField(
        child=PolicyIn(), min_length=1, max_length=MOST_POLICIES, help_text="What is compared; no two alike."
    )
    seeds = serializers.ListField(
        child=serializers.IntegerField(min_value=0, max_value=LARGEST_SEED),
        required=False,
        min_length=1,
        max_length=MOST_SEEDS,
        help_text="Of everything that is drawn; [1] if not given, no two alike.",
    )
    bound = _yes("Whether the upper bound on welfare is computed for each workload and seed; true if not given.")


class ProgressOut(Schema):
    queued = serializers.IntegerField(help_text="Runs that no worker has begun.")
    running = serializers.IntegerField(help_text="Runs that are computed now.")
    completed = serializers.IntegerField(help_text="Runs with an outcome.")
    failed = serializers.IntegerField(help_text="Runs that have none.")
    cancelled = serializers.IntegerField(help_text="Runs that were ended before.")
    share = serializers.FloatField(help_text="Of all that is to be computed, what is; 1 at the end.")


class ExperimentRow(Schema):
    id = serializers.IntegerField(help_text="Names it in addresses.")
    label = _label()
    state = serializers.ChoiceField(JobState.choices, help_text="queued and running change, the others are final.")
    stage = stage_field()
    progress = ProgressOut(help_text="How far it is.")
    owner = serializers.CharField(help_text="Who asked.")
    rerun_of = serializers.IntegerField(allow_null=True, help_text="Number of the experiment it repeats.")
    submitted_at = serializers.DateTimeField(help_text="Wall clock, ISO 8601.")


class WorkloadOut(Schema):
    title = serializers.CharField(help_text="For people.")
    source = named(serializers.DictField(help_text="All it takes to draw it again, but for a trace's text."))
    trace = serializers.IntegerField(required=False, help_text="Number of the trace, of which `sha256` is the hash.")
    sha256 = serializers.CharField(required=False, help_text="Of the trace's text.")
    machines = serializers.IntegerField(required=False, help_text="Number of the trace whose machines the servers are.")
    step_times = serializers.IntegerField(required=False, help_text="Number of the trace that step times are of.")
    quotas = serializers.IntegerField(required=False, help_text="Number of the trace by which tenants are drawn.")


class PolicyOut(Schema):
    name = serializers.CharField(help_text="As in the registry.")
    parameters = serializers.DictField(help_text="All of them.")


class ComparisonOut(Schema):
    same = serializers.IntegerField(help_text="Runs whose outcome has the same bytes.")
    differ = serializers.ListField(child=serializers.IntegerField(), help_text="Numbers of those it has not.")
    open = serializers.IntegerField(help_text="Runs that are not done in both.")
    same_sources = serializers.BooleanField(help_text="Whether the code was the same.")


class ExperimentOut(ExperimentRow):
    place = place_field()
    workloads = WorkloadOut(many=True, help_text="What policies are run on.")
    policies = PolicyOut(many=True, help_text="What is compared, with all parameters.")
    seeds = serializers.ListField(child=serializers.IntegerField(), help_text="Of everything that is drawn.")
    bound = serializers.BooleanField(help_text="Whether bounds are computed.")
    comparison = ComparisonOut(allow_null=True, help_text="With what it repeats; null where it repeats nothing.")


class ExperimentPage(Schema):
    next = serializers.CharField(allow_null=True, help_text="Address of the next page.")
    previous = serializers.CharField(allow_null=True, help_text="Address of the page before.")
    results = ExperimentRow(many=True, help_text="Newest first.")


class RunRow(Schema):
    run = serializers.IntegerField(help_text="Number within the experiment, from 1.")
    state = serializers.ChoiceField(JobState.choices, help_text="queued and running change, the others are final.")
    stage = stage_field()
    workload = serializers.CharField(help_text="Its title.")
    policy = serializers.CharField(allow_null=True, help_text="Its label; null of a bound.")
    seed = serializers.IntegerField(help_text="Of everything that is drawn.")
    decided = serializers.IntegerField(help_text="Jobs by now.")
    jobs = serializers.IntegerField(allow_null=True, help_text="Jobs there are, once the workload is drawn.")
    identity = serializers.CharField(allow_blank=True, help_text="Hash of sources, workload, policy and seed.")
    workload_sha256 = serializers.CharField(allow_blank=True, help_text="Of bids, servers and plan.")
    outcome_sha256 = serializers.CharField(allow_blank=True, help_text="Of the outcome's bytes.")
    sources = serializers.CharField(allow_blank=True, help_text="Of the code that ran.")
    commit = serializers.CharField(allow_blank=True, help_text="Of the code that ran, where it is known.")
    error = serializers.CharField(allow_blank=True, help_text="Why it failed.")
    duration_s = serializers.FloatField(
        allow_null=True, help_text="Seconds from start to end, by the clock on the wall."
    )


class RunOut(RunRow):
    outcome = serializers.DictField(
        allow_null=True, help_text="Everything that is the same each time, as one document."
    )
    timing = serializers.DictField(allow_null=True, help_text="How fast it was: differs from time to time.")


class RunsOut(Schema):
    runs = RunRow(many=True, help_text="In order.")


class MetricOut(Schema):
    name = serializers.ChoiceField(list(METRICS), help_text="Key of `values`.")
    title = serializers.CharField(help_text="For people.")
    unit = serializers.CharField(allow_blank=True, help_text="Empty for plain numbers and shares.")
    better = serializers.ChoiceField(["more", "less", ""], help_text="Empty where neither is.")
    synthetic = serializers.BooleanField(help_text="Whether it rests on what was drawn: values, targets.")
    exact = serializers.BooleanField(help_text="Whether the same run gives the same figure.")


class IntervalOut(Schema):
    n = serializers.IntegerField(help_text="Seeds.")
    mean = serializers.FloatField(help_text="Over seeds.")
    low = serializers.FloatField(allow_null=True, help_text="Of the 95 % t interval; null of one seed.")
    high = serializers.FloatField(allow_null=True, help_text="Likewise.")


class ResultRow(Schema):
    workload = serializers.CharField(help_text="Its title.")
    policy = serializers.CharField(help_text="Its label.")
    runs = serializers.IntegerField(help_text="That are done.")
    values = serializers.DictField(child=IntervalOut(allow_null=True), help_text="By metric; null where there is none.")


class BestPossibleOut(Schema):
    workload = serializers.CharField(help_text="Its title.")
    kinds = serializers.ListField(child=serializers.CharField(), help_text="How it was proved.")
    welfare = IntervalOut(help_text="What no policy can exceed.")
    gap = serializers.FloatField(
        allow_null=True,
        help_text="By how much it is above a seed's best policy, at most; null before any is done.",
    )
    cpu_s = serializers.FloatField(help_text="That it took, of all seeds together.")


class ResultsOut(Schema):
    experiment = serializers.IntegerField(help_text="Its number.")
    state = serializers.ChoiceField(JobState.choices, help_text="Of the experiment.")
    notes = serializers.ListField(child=serializers.CharField(), help_text="What is synthetic, what was left out.")
    warnings = serializers.ListField(
        child=serializers.CharField(),
        help_text="How many jobs can never be complete as far ahead as is planned; empty with a long horizon.",
    )
    metrics = MetricOut(many=True, help_text="What is measured.")
    rows = ResultRow(many=True, help_text="Every policy on every workload.")
    bounds = BestPossibleOut(many=True, help_text="Of every workload that has one.")
