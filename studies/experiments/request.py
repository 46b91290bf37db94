"""Request for an experiment: workloads, policies with parameters, and seeds. All of it is checked here."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.db.models import QuerySet

from scheduling.model.decision import canonical
from scheduling.model.errors import InvalidField, UnknownPolicy
from scheduling.model.types import Json
from scheduling.model.validation import check_integer, check_list, check_object, shown
from scheduling.policies.base import Policy
from scheduling.registry import POLICIES, make_policy
from studies.experiments.traced import traced_workload
from studies.models import Trace
from studies.workloads.generated.generators import read_generator
from studies.workloads.traces.source import TraceSource

LONGEST_LABEL: Final = 120
MOST_WORKLOADS: Final = 8
MOST_POLICIES: Final = 24
MOST_SEEDS: Final = 50
MOST_RUNS: Final = 400
LARGEST_SEED: Final = 10**9


@dataclass(frozen=True)
class ExperimentRequest:
    """A checked request for a matrix of runs."""

    label: str
    workloads: tuple[Json, ...]
    """Workloads as experiments store them: `title`, `source`, and for a trace its number and hash."""
    policies: tuple[Json, ...]
    """Policies, each with its `name` and all `parameters`."""
    seeds: tuple[int, ...]
    bound: bool
    """Whether the upper bound on welfare is computed for each workload and seed."""
    traces: tuple[Trace, ...]

    @property
    def document(self) -> Json:
        """Return the document that is stored."""
        return {
            "workloads": list(self.workloads),
            "policies": list(self.policies),
            "seeds": list(self.seeds),
            "bound": self.bound,
        }

    @property
    def runs(self) -> int:
        """Number of runs."""
        return len(self.workloads) * len(self.seeds) * (len(self.policies) + self.bound)

    @classmethod
    def from_json(cls, document: object, traces: "TraceFinder") -> "ExperimentRequest":
        """Read the body of a request; raises InvalidField naming the wrong field."""
        row = check_object("", document, required=["workloads", "policies"], optional=["label", "seeds", "bound"])
        found: list[Trace] = []
        workloads = tuple(
            _workload(f"workloads[{i}]", one, traces, found)
            for i, one in enumerate(_some("workloads", row["workloads"], MOST_WORKLOADS))
        )
        policies = tuple(
            _policy(f"policies[{i}]", one) for i, one in enumerate(_some("policies", row["policies"], MOST_POLICIES))
        )
        _all_different("policies", policies)
        _all_different("workloads", workloads)
        seeds = tuple(
            check_integer(f"seeds[{i}]", one, low=0, high=LARGEST_SEED)
            for i, one in enumerate(_some("seeds", row.get("seeds", [1]), MOST_SEEDS))
        )
        _all_different("seeds", seeds)
        bound = row.get("bound", True)
        if not isinstance(bound, bool):
            raise InvalidField("bound", f"expected true or false, got {shown(bound)}")
        label = check_label(row.get("label", ""))
        request = cls(label, workloads, policies, seeds, bound, tuple(found))
        if request.runs > MOST_RUNS:
            raise InvalidField("policies", f"{request.runs} runs in all; at most {MOST_RUNS} may be in an experiment")
        for i, workload in enumerate(workloads):
            _check_policies(f"workloads[{i}]", workload, policies)
        return request


class TraceFinder:
    """Finds the traces that a user may use."""

    def __init__(self, visible: "QuerySet[Trace]") -> None:
        self._visible = visible

    def __call__(self, where: str, number: object, *kinds: str) -> Trace:
        """Return the trace of this number, which must hold one of these kinds; raises InvalidField."""
        pk = check_integer(where, number, low=1, high=2**63 - 1)
        trace = self._visible.filter(pk=pk).defer("text").first()
        if trace is None:
            raise InvalidField(where, f"there is no trace {pk} of yours")
        if trace.kind not in kinds:
            raise InvalidField(where, f"expected {' or '.join(kinds)}, trace {pk} holds {trace.kind}")
        return trace


def check_label(value: object) -> str:
    """Check a label chosen by the user; raises InvalidField."""
    if not isinstance(value, str) or len(value) > LONGEST_LABEL or "\0" in value:
        raise InvalidField("label", f"expected a string of at most {LONGEST_LABEL} characters, got {shown(value)}")
    return value


def _some(where: str, value: object, most: int) -> list[object]:
    rows = check_list(where, value)
    if not 1 <= len(rows) <= most:
        raise InvalidField(where, f"expected 1 to {most} entries, got {len(rows)}")
    return rows


def _all_different(where: str, rows: Sequence[object]) -> None:
    seen: dict[str, int] = {}
    for i, row in enumerate(rows):
        first = seen.setdefault(canonical(row), i)
        if first != i:
            raise InvalidField(f"{where}[{i}]", f"the same as {where}[{first}]")


def _policy(where: str, document: object) -> Json:
    row = check_object(where, document, required=["name"], optional=["parameters"])
    name = row["name"]
    if not isinstance(name, str):
        raise InvalidField(f"{where}.name", f"expected a string, got {shown(name)}")
    try:
        policy = make_policy(name, row.get("parameters", {}))
    except UnknownPolicy as error:
        raise InvalidField(f"{where}.name", str(error)) from None
    except InvalidField as error:
        raise InvalidField(f"{where}.parameters.{error.field}".removesuffix(".parameters"), error.problem) from None
    return {"name": policy.name, "parameters": policy.to_json()}


def _workload(where: str, document: object, traces: TraceFinder, found: list[Trace]) -> Json:
    if isinstance(document, dict) and "generator" in document:
        source = read_generator(document, where)
        return {"title": source.title, "source": source.to_json()}
    workload, read = traced_workload(where, document, traces)
    found += read
    return workload


def _check_policies(where: str, workload: Json, policies: Sequence[Json]) -> None:
    """Check that every policy can run on the servers and with the jobs of this workload."""
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
            raise InvalidField(f"policies[{i}]", f"{policy.name} runs no jobs of kind {min(wrong)} ({where})")
        try:
            policy.check(inventory)
        except InvalidField as error:
            raise InvalidField(f"policies[{i}]", f"{policy.name} cannot run on {where}: {error}") from None


def known_policies() -> list[str]:
    """Return the names of all policies."""
    return list(POLICIES)
