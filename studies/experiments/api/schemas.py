"""REST shapes of traces and experiments: each is one class that checks a body, or writes an answer."""

# ruff: noqa: D101 (the name of a class says what it describes, and its fields have help texts)
from typing import Any, Final

from rest_framework import serializers

from cluster.traces.formats import FORMATS, KINDS
from studies.background.shapes import place_field, stage_field, state_field
from studies.experiments.metrics import METRICS
from studies.experiments.readings import Shown
from studies.experiments.request import label_field
from studies.models import Experiment
from web.fields import Text, Timestamp
from web.pagination import Page
from web.schema import Schema, named

LONGEST_SOURCE: Final = 200


class TraceIn(Schema):
    label = label_field()
    source = named(Text(LONGEST_SOURCE, blank=True, default="", help_text="Name of the file."))
    text = Text(help_text="The whole file; its first line says which format it has.")
    throughputs = Text(
        blank=True,
        default="",
        help_text="The whole file of Gavel's throughputs (JSON), for a trace that states mini-batches and no"
        " durations; or upload it as a trace of its own.",
    )


class MalformedOut(Schema):
    line = serializers.IntegerField(help_text="Line number, from 1, the heading included.")
    field = serializers.CharField(help_text="The column that is wrong, or `line`.")
    message = serializers.CharField(help_text="What was expected.")


class TraceRow(Schema):
    id = serializers.IntegerField(help_text="Number, which is part of its address.")
    label = named(serializers.CharField(allow_blank=True, help_text="Its owner's name for it."))
    source = named(serializers.CharField(allow_blank=True, help_text="Name of the file."))
    format = serializers.ChoiceField(list(FORMATS), help_text="Format of the file.")
    kind = serializers.ChoiceField(list(KINDS), help_text="What it holds.")
    sha256 = serializers.CharField(help_text="Hash of its text in UTF-8, hex.")
    records = serializers.IntegerField(help_text="Lines that are records; for throughputs, its entries.")
    malformed_lines = serializers.IntegerField(help_text="Lines that are no records.")
    owner = serializers.CharField(source="owner.username", help_text="User who uploaded it.")
    submitted_at = Timestamp(help_text="When it was uploaded.")


class TraceOut(TraceRow):
    malformed = MalformedOut(many=True, help_text="Lines that are no records; of very many the first.")
    gpu_types = serializers.ListField(
        child=serializers.CharField(), help_text="GPU types for which its throughputs are; empty if it has none."
    )


class TracePage(Page):
    results = TraceRow(many=True, help_text="Newest first.")


class ProgressOut(Schema):
    queued = serializers.IntegerField(help_text="Runs that no worker has begun.")
    running = serializers.IntegerField(help_text="Runs that are computed now.")
    completed = serializers.IntegerField(help_text="Runs with an outcome.")
    failed = serializers.IntegerField(help_text="Runs that ended with an error.")
    cancelled = serializers.IntegerField(help_text="Runs that were cancelled.")
    share = serializers.FloatField(help_text="Share of the work that is done; 1 at the end.")


class ExperimentRow(Schema):
    id = serializers.IntegerField(source="experiment.pk", help_text="Number, which is part of its address.")
    label = named(serializers.CharField(source="experiment.label", allow_blank=True, help_text="Its owner's name."))
    state, stage = state_field(source="progress.state"), stage_field(source="progress.stage")
    progress = ProgressOut(help_text="Number of runs in each state.")
    owner = serializers.CharField(source="experiment.owner.username", help_text="User who requested it.")
    rerun_of = serializers.IntegerField(
        source="experiment.rerun_of_id", allow_null=True, help_text="Number of the experiment that it repeats."
    )
    submitted_at = Timestamp(source="experiment.submitted_at", help_text="When it was requested.")

    def to_representation(self, instance: Experiment) -> Any:
        """Write an experiment with the readings of its runs."""
        return super().to_representation(Shown(instance))


class WorkloadOut(Schema):
    title = serializers.CharField(help_text="Title for people.")
    source = named(serializers.DictField(help_text="All that is needed to draw it again, except a trace's text."))
    trace = serializers.IntegerField(required=False, help_text="Number of the trace, of which `sha256` is the hash.")
    sha256 = serializers.CharField(required=False, help_text="Hash of the trace's text.")
    machines = serializers.IntegerField(required=False, help_text="Number of the trace that holds the servers.")
    step_times = serializers.IntegerField(required=False, help_text="Number of the trace that holds step times.")
    quotas = serializers.IntegerField(required=False, help_text="Number of the trace from which tenants are drawn.")


class PolicyOut(Schema):
    name = serializers.CharField(help_text="Name of the policy.")
    parameters = serializers.DictField(help_text="All its parameters.")


class ComparisonOut(Schema):
    same = serializers.IntegerField(help_text="Number of runs whose outcome has the same bytes.")
    differ = serializers.ListField(child=serializers.IntegerField(), help_text="Numbers of the runs that differ.")
    open = serializers.IntegerField(help_text="Number of runs that are not completed in both.")
    same_sources = serializers.BooleanField(help_text="Whether the code was the same.")


class ExperimentOut(ExperimentRow):
    place = place_field()
    workloads = WorkloadOut(source="experiment.matrix.workloads", many=True, help_text="What policies are run on.")
    policies = PolicyOut(source="experiment.matrix.policies", many=True, help_text="What is compared.")
    seeds = serializers.ListField(
        source="experiment.matrix.seeds", child=serializers.IntegerField(), help_text="Seeds of all that is drawn."
    )
    bound = serializers.BooleanField(source="experiment.matrix.bound", help_text="Whether bounds are computed.")
    standing = serializers.BooleanField(
        help_text="Whether rejected bids stand under policies with posted prices, as they do in live markets; else"
        " rejections are final, as in all experiments before bids could stand."
    )
    comparison = ComparisonOut(allow_null=True, help_text="With what it repeats; null if it repeats nothing.")


class ExperimentPage(Page):
    results = ExperimentRow(many=True, help_text="Newest first.")


class RunRow(Schema):
    run = serializers.IntegerField(source="run.number", help_text="Number within the experiment, from 1.")
    state, stage = state_field(source="run.state"), stage_field(source="run.stage")
    workload = serializers.CharField(help_text="Title of its workload.")
    policy = serializers.CharField(allow_null=True, help_text="Label of its policy; null for a bound.")
    seed = serializers.IntegerField(source="run.seed", help_text="Seed of everything that is drawn.")
    decided = serializers.IntegerField(source="run.decided", help_text="Jobs decided so far.")
    jobs = serializers.IntegerField(
        source="run.jobs", allow_null=True, help_text="Number of jobs; null before the workload is drawn."
    )
    identity = serializers.CharField(allow_blank=True, help_text="Hash of sources, workload, policy and seed.")
    workload_sha256 = serializers.CharField(
        source="run.workload_sha256", allow_blank=True, help_text="Hash of bids, servers and plan."
    )
    outcome_sha256 = serializers.CharField(
        source="run.outcome_sha256", allow_blank=True, help_text="Hash of the outcome's bytes."
    )
    sources = serializers.CharField(source="run.sources", allow_blank=True, help_text="Hash of the code that ran.")
    commit = serializers.CharField(source="run.commit", allow_blank=True, help_text="Commit of the code, if known.")
    error = serializers.CharField(source="run.error", allow_blank=True, help_text="Why it failed.")
    duration_s = serializers.FloatField(
        source="run.duration_s", allow_null=True, help_text="Seconds from start to end, by the wall clock."
    )


class RunOut(RunRow):
    outcome = serializers.DictField(allow_null=True, help_text="Everything that is the same each time.")
    timing = serializers.DictField(
        source="run.timing", allow_null=True, help_text="Measured speed, which differs from run to run."
    )


class RunsOut(Schema):
    runs = RunRow(source="cells", many=True, help_text="All runs in order.")


class MetricOut(Schema):
    name = serializers.ChoiceField(list(METRICS), help_text="Key of `values`.")
    title = serializers.CharField(source="metric.title", help_text="Title for people.")
    unit = serializers.CharField(
        source="metric.unit", allow_blank=True, help_text="Empty for plain numbers and shares."
    )
    better = serializers.ChoiceField(["more", "less", ""], source="metric.better", help_text="Empty if neither is.")
    synthetic = serializers.BooleanField(help_text="Whether it depends on drawn data: values, targets, tenants.")
    exact = serializers.BooleanField(source="metric.exact", help_text="Whether a rerun gives the same figure.")


class IntervalOut(Schema):
    n = serializers.IntegerField(help_text="Number of seeds.")
    mean = serializers.FloatField(help_text="Mean over seeds.")
    low = serializers.FloatField(allow_null=True, help_text="Lower end of the 95 % t interval; null for one seed.")
    high = serializers.FloatField(allow_null=True, help_text="Its upper end.")


class ResultRow(Schema):
    workload = serializers.CharField(source="title", help_text="Title of the workload.")
    policy = serializers.CharField(source="label", help_text="Label of the policy.")
    runs = serializers.IntegerField(source="completed", help_text="Number of completed runs.")
    values = serializers.DictField(child=IntervalOut(allow_null=True), help_text="By metric; null if there is none.")


class BestPossibleOut(Schema):
    workload = serializers.CharField(source="title", help_text="Title of the workload.")
    kinds = serializers.ListField(child=serializers.CharField(), help_text="How it was proved.")
    welfare = IntervalOut(source="value", help_text="Welfare that no policy can exceed.")
    gap = serializers.FloatField(
        allow_null=True, help_text="Largest gap to a seed's best policy, as a share; null before one is completed."
    )
    cpu_s = serializers.FloatField(help_text="CPU-seconds of all seeds together.")


class ResultsOut(Schema):
    experiment = serializers.IntegerField(source="experiment.pk", help_text="Number of the experiment.")
    state = state_field("State of the experiment.")
    notes = serializers.ListField(child=serializers.CharField(), help_text="What is synthetic, what was left out.")
    warnings = serializers.ListField(
        child=serializers.CharField(), help_text="Horizons that are too short for some jobs; empty if none is."
    )
    metrics = MetricOut(many=True, help_text="What is measured.")
    rows = ResultRow(many=True, help_text="Every policy on every workload.")
    bounds = BestPossibleOut(source="bound_rows", many=True, help_text="Every workload that has a bound.")
