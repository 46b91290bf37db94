"""Request for an experiment: workloads, policies with parameters, and seeds. All of it is checked here."""

# ruff: noqa: D101 (the name of a class says what it describes, and its fields have help texts)
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db.models import QuerySet
from rest_framework import serializers

from cluster.models import Cluster
from scheduling.model.decision import canonical
from scheduling.model.errors import InvalidField, refuse_all
from scheduling.model.types import Json
from scheduling.model.validation import LARGEST_EXACT, shown
from scheduling.policies.base import Policy
from scheduling.registry import make_policy
from studies.background.shapes import policy_name, policy_of, policy_parameters, wrong_parameters
from studies.experiments.traced import FILES, traced_workload
from studies.models import Trace
from studies.workloads.generated.generators import GENERATORS, read_generator
from studies.workloads.simulation.replay import LONGEST_HORIZON
from studies.workloads.traces.source import MOST_GPUS, TraceSource
from web.fields import ByName, Choice, Flag, Integer, Rows, Text
from web.schema import Schema, named, refused

LONGEST_LABEL: Final = 120
MOST_WORKLOADS: Final = 8
MOST_POLICIES: Final = 24
MOST_SEEDS: Final = 50
MOST_RUNS: Final = 400
LARGEST_SEED: Final = 10**9
LARGEST: Final = 10**9


def label_field() -> Any:
    """Return the field for a label in a request."""
    return named(Text(LONGEST_LABEL, blank=True, line=True, default="", help_text="Your name for it."))


class TraceNumber(Integer):
    """The number of a trace that holds one of these kinds, among the `traces` of the context."""

    def __init__(self, *kinds: str, **more: Any) -> None:
        super().__init__(1, LARGEST_EXACT, required=False, **more)
        self.kinds = kinds

    def run_validation(self, data: Any = serializers.empty) -> Any:
        """The trace; raises ValidationError if there is none, or it holds something else."""
        number = super().run_validation(data)
        trace = self.context["traces"].filter(pk=number).defer("text").first()
        if trace is None:
            raise serializers.ValidationError(f"expected one of your traces, got {number}")
        if trace.kind not in self.kinds:
            problem = f"expected a trace with {' or '.join(self.kinds)}, got {trace.kind} in trace {number}"
            raise serializers.ValidationError(problem)
        return trace


@dataclass(frozen=True)
class CheckedWorkload:
    """A workload as experiments store it: `title`, `source`, and for a trace its number and hash."""

    document: Json
    traces: tuple[Trace, ...] = ()
    """The traces that it reads."""


class WorkloadIn(Schema):
    trace = TraceNumber("jobs", help_text="Number of a trace of yours that holds jobs. Or a generator.")
    gpus = Integer(
        1, MOST_GPUS, required=False, help_text="Trace: number of GPUs, 8 a server. Or a cluster, or machines."
    )
    apart = Flag(required=False, help_text="With GPUs: parameter servers on separate servers, as OASiS requires.")
    cluster = Text(required=False, help_text="Trace: name of a cluster whose servers are used, as they are now.")
    machines = TraceNumber(*FILES["machines"], help_text="Trace: number of a trace that holds the servers.")
    step_times = TraceNumber(
        *FILES["step_times"],
        help_text="Trace: number of a trace with step times (Sia) or throughputs (Gavel), for jobs that state none.",
    )
    batch = Integer(
        1, LARGEST, required=False, help_text="With step times of Sia: samples on each GPU; by default the most."
    )
    quotas = TraceNumber(
        *FILES["quotas"],
        help_text="Trace that names no tenants: number of a trace with quotas, from which each job's tenant is drawn.",
    )
    slot_s = Integer(
        1, LARGEST, required=False, help_text="Trace: seconds of a slot; by default 600, or the cluster's."
    )
    horizon = Integer(
        1,
        LONGEST_HORIZON,
        required=False,
        help_text="Trace: slots that can be planned; by default twice the longest run, or the cluster's.",
    )
    jobs = Integer(1, LARGEST, required=False, help_text="Trace: number of rows to read; by default all.")
    ring = Flag(required=False, help_text="Trace: whether jobs exchange gradients in rings.")
    elastic = Flag(required=False, help_text="Trace: whether jobs can use twice the GPUs they had.")
    reference = Text(
        required=False, help_text="Trace with throughputs: GPU that stands for types not measured; by default v100."
    )
    generator = Choice(
        GENERATORS, required=False, help_text="Servers and jobs by the settings of a paper, drawn from the seed."
    )
    setting = ByName(
        serializers.JSONField(allow_null=True),
        required=False,
        help_text="Generator: sizes and ranges; the paper's for those that are left out.",
    )

    def validate_cluster(self, name: str) -> str:
        """Return the name of a cluster that exists and is not `closed` in the context."""
        if name in self.context.get("closed", ()) or not Cluster.objects.filter(name=name).exists():
            raise serializers.ValidationError(f"expected a cluster, got {shown(name)}")
        return name

    def validate(self, attrs: Json) -> Any:
        """Return the CheckedWorkload."""
        try:
            return _generated(attrs) if "generator" in attrs else _traced(attrs)
        except InvalidField as error:
            raise refused(error) from None


class PolicyIn(Schema):
    name = policy_name("Name of the policy.")
    parameters = policy_parameters()

    def wrong_keys(self, data: Json) -> Mapping[str, str]:
        """Return what is wrong with the parameters, whatever else is wrong."""
        return wrong_parameters(data.get("name"), data.get("parameters"))

    def validate(self, attrs: Json) -> Json:
        """Return the policy's name with all parameters."""
        policy = policy_of(attrs["name"], attrs["parameters"])
        return {"name": policy.name, "parameters": policy.to_json()}


class ExperimentParts(Schema):
    label = label_field()
    workloads = Rows(WorkloadIn(), least=1, most=MOST_WORKLOADS, help_text="What policies are run on; all different.")
    policies = Rows(PolicyIn(), least=1, most=MOST_POLICIES, help_text="What is compared; all different.")
    seeds = Rows(
        Integer(0, LARGEST_SEED),
        least=1,
        most=MOST_SEEDS,
        default=lambda: [1],
        help_text="Seeds of everything that is drawn; by default [1]. All different.",
    )
    bound = Flag(
        default=True, help_text="Whether the upper bound on welfare is computed for each workload and seed; default."
    )
    standing = Flag(
        default=True,
        help_text="Whether rejected bids stand under policies with posted prices, as they do in live markets; default."
        " If false, rejections are final.",
    )


class ExperimentIn(ExperimentParts):
    def validate(self, attrs: Json) -> Json:
        """Return the checked fields; raises ValidationError if they do not fit together."""
        try:
            refuse_all(list(_misfits(attrs, [one.document for one in attrs["workloads"]])))
        except InvalidField as error:
            raise refused(error) from None
        return attrs


@dataclass(frozen=True)
class ExperimentRequest:
    """A checked request for a matrix of runs."""

    label: str
    workloads: tuple[CheckedWorkload, ...]
    policies: tuple[Json, ...]
    """Policies, each with its `name` and all `parameters`."""
    seeds: tuple[int, ...]
    bound: bool
    """Whether the upper bound on welfare is computed for each workload and seed."""
    standing: bool = True
    """Whether rejected bids stand under policies with posted prices."""

    @property
    def traces(self) -> tuple[Trace, ...]:
        """All traces that its workloads read."""
        return tuple(trace for workload in self.workloads for trace in workload.traces)

    @property
    def document(self) -> Json:
        """Return the document that is stored."""
        return {
            "workloads": [workload.document for workload in self.workloads],
            "policies": list(self.policies),
            "seeds": list(self.seeds),
            "bound": self.bound,
            "standing": self.standing,
        }

    @classmethod
    def from_json(
        cls, document: object, traces: "QuerySet[Trace]", *, closed: Container[str] = ()
    ) -> "ExperimentRequest":
        """Read the body of a request that may use these traces; raises InvalidField naming the wrong fields.

        Clusters whose names are in `closed` do not exist for who asks.
        """
        read = ExperimentIn.read(document, traces=traces, closed=closed)
        rows = {name: tuple(read[name]) for name in ("workloads", "policies", "seeds")}
        return cls(label=read["label"], bound=read["bound"], standing=read["standing"], **rows)


def _generated(row: Json) -> CheckedWorkload:
    problem = "expected either a generator with its setting, or a trace, got both"
    refuse_all([InvalidField(name, problem) for name in sorted(set(row) - {"generator", "setting"})])
    source = read_generator(row, "")
    return CheckedWorkload({"title": source.title, "source": source.to_json()})


def _traced(row: Json) -> CheckedWorkload:
    if "trace" not in row:
        raise InvalidField("trace", "missing; give a trace or a generator")
    if "setting" in row:
        raise InvalidField("setting", "expected no setting without a generator, got one")
    return CheckedWorkload(*traced_workload(row))


def _misfits(attrs: Json, workloads: Sequence[Json]) -> Iterator[InvalidField]:
    """Yield an error for each entry, right in itself, that does not fit the others."""
    for name, rows in (("policies", attrs["policies"]), ("workloads", workloads), ("seeds", attrs["seeds"])):
        yield from _repeated(name, rows)
    runs = len(workloads) * len(attrs["seeds"]) * (len(attrs["policies"]) + attrs["bound"])
    if runs > MOST_RUNS:
        yield InvalidField("policies", f"expected at most {MOST_RUNS} runs in all, got {runs}")
    for i, workload in enumerate(workloads):
        yield from _unfit_policies(f"workloads[{i}]", workload, attrs["policies"])


def _repeated(where: str, rows: Sequence[object]) -> Iterator[InvalidField]:
    """Yield an error for each entry that is the same as one before it."""
    seen: dict[str, int] = {}
    for i, row in enumerate(rows):
        first = seen.setdefault(canonical(row), i)
        if first != i:
            yield InvalidField(f"{where}[{i}]", f"expected no entry twice, got the same as {where}[{first}]")


def _unfit_policies(where: str, workload: Json, policies: Sequence[Json]) -> Iterator[InvalidField]:
    """Yield an error for each policy that cannot run on the servers or with the jobs of this workload."""
    if "trace" in workload:
        source = TraceSource.from_json(workload["source"])
        inventory, kinds = source.servers(), {source.architecture}
    else:
        # All jobs have the same architecture, so one is enough: drawing thousands would take minutes.
        drawn = read_generator(workload["source"], where).with_jobs(1).draw(1)
        inventory, kinds = drawn.inventory, {bid.architecture for bid in drawn.jobs.bids}
    for i, row in enumerate(policies):
        policy: Policy = make_policy(row["name"], row["parameters"])
        wrong = kinds - policy.architectures
        if wrong:
            yield InvalidField(
                f"policies[{i}]", f"expected a policy that runs {min(wrong)} jobs ({where}), got {policy.name}"
            )
            continue
        try:
            policy.check(inventory)
        except InvalidField as error:
            yield InvalidField(
                f"policies[{i}]", f"expected a policy that can run on {where}, got {policy.name}: {error}"
            )
