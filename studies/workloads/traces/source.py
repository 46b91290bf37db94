"""A public trace on chosen servers; a seed for the missing data makes it a workload."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, cast

import numpy as np

from cluster.traces.formats import Trace
from cluster.traces.records import TraceJob
from scheduling.model.bid import Architecture
from scheduling.model.errors import InvalidField, refuse_all
from scheduling.model.inventory import Inventory
from scheduling.model.types import Json
from scheduling.model.validation import LARGEST_INTEGER, check_integer, shown
from studies.workloads.simulation.replay import LONGEST_HORIZON, ReplayParameters, horizon_for
from studies.workloads.simulation.report import note_of
from studies.workloads.traces.machines import gpu_cluster
from studies.workloads.traces.mapping import Rules, is_measured, to_bids
from studies.workloads.traces.profiles import StepTimes
from studies.workloads.workload import Workload

SLOT_S: Final = 600
"""Default slot length. The longest jobs of Philly take weeks: shorter slots make horizons too long."""
MOST_GPUS: Final = 10_000
MOST_CELLS: Final = 20_000_000
"""Largest slots x servers x resources. DPS needs some 250 bytes for each: 5 GB, and two runs may run at once."""


@dataclass(frozen=True)
class TraceSource:
    """Options for reading a trace, and the servers: a number of equal GPUs, a cluster's servers or a list."""

    gpus: int | None = None
    """Number of equal GPUs, eight on each server."""
    apart: bool = False
    """Whether parameter servers have separate servers, as OASiS requires."""
    inventory: Inventory | None = None
    """Inventory to use instead of equal GPUs."""
    cluster: str = ""
    """Name of that inventory."""
    delay: tuple[int, ...] = ()
    """Slots after arrival until each of its servers can be used."""
    slot_s: int = SLOT_S
    horizon: int | None = None
    """Horizon, slots; None: twice the longest run."""
    jobs: int | None = None
    """Number of rows to read from the start; None: all."""
    ring: bool = False
    """Whether jobs exchange gradients in rings."""
    elastic: bool = False
    """Whether jobs can use twice the GPUs they had."""
    reference: str = "v100"
    """GPU whose step times stand for worker types that were not measured."""
    step_times: StepTimes = field(default_factory=StepTimes)
    """Measured step times that belong to the trace."""
    shares: Mapping[str, int] = field(default_factory=dict)
    """GPU-days of tenants, from which each job's tenant is drawn; empty: the trace's own tenants."""

    def __post_init__(self) -> None:
        refuse_all(list(self._wrong()))

    def _wrong(self) -> Iterator[InvalidField]:
        if (self.gpus is None) == (self.inventory is None):
            yield InvalidField(
                "gpus", "expected either a number of GPUs, or a cluster, or machines, got none or several"
            )
        for name, high in (
            ("gpus", MOST_GPUS), ("slot_s", LARGEST_INTEGER), ("horizon", LONGEST_HORIZON), ("jobs", LARGEST_INTEGER)
        ):  # fmt: skip
            given = getattr(self, name)
            try:
                if given is not None:
                    check_integer(name, given, low=1, high=high)
            except InvalidField as error:
                yield error
        for name in ("apart", "ring", "elastic"):
            if not isinstance(getattr(self, name), bool):
                yield InvalidField(name, f"expected true or false, got {shown(getattr(self, name))}")
        if not isinstance(self.reference, str):
            yield InvalidField("reference", f"expected a string, got {shown(self.reference)}")
        if self.apart and self.inventory is not None:
            yield InvalidField("apart", "expected no value with a cluster, got true")

    @property
    def place(self) -> str:
        """Description of the servers for users."""
        if self.inventory is not None:
            return self.cluster
        return f"{self.gpus} GPUs{', parameter servers apart' if self.apart else ''}"

    def servers(self) -> Inventory:
        """Return the inventory on which jobs run."""
        if self.inventory is not None:
            return self.inventory
        return gpu_cluster(cast(int, self.gpus), apart=self.apart)

    @property
    def architecture(self) -> Architecture:
        """Architecture of all jobs."""
        return Architecture.RING if self.ring else Architecture.PS

    def check(self, jobs: Sequence[TraceJob]) -> None:
        """Raise InvalidField if the additional data concern none of the trace's jobs."""
        jobs, known, steps = jobs[: self.jobs], self.step_times.by_model(self.reference), self.step_times.steps
        if self.step_times.throughputs and not any(job.model in known for job in jobs):
            raise InvalidField("step_times", "expected step times of a model that the trace names, got none")
        if steps and not any(job.duration_s is not None and not is_measured(job) for job in jobs):
            problem = "expected no step times unless jobs state a run time and no number of steps, got some"
            raise InvalidField("step_times", problem)
        if self.shares and any(job.tenant for job in jobs):
            raise InvalidField("quotas", "expected no quotas with a trace that names tenants, got some")

    def draw(self, trace: Trace[TraceJob], seed: int) -> Workload:
        """Draw values and targets of the trace's jobs; the same seed gives the same workload."""
        inventory = self.servers()
        rules = Rules(
            slot_s=self.slot_s,
            architecture=self.architecture,
            elastic=self.elastic,
            profiles=self.step_times.by_model(self.reference),
            by_gpus=self.step_times.by_gpus(),
            shares=self.shares,
            delay=self.delay,
        )
        traced = to_bids(trace.rows[: self.jobs], inventory, rules, np.random.default_rng(seed))
        plan = ReplayParameters(self.slot_s, self.horizon or horizon_for(traced, slot_s=self.slot_s))
        _check_size(inventory, plan)
        return Workload(traced, inventory, plan, f"{note_of(traced.synthetic)} (seed {seed})", trace.malformed)

    def to_json(self) -> Json:
        """Return a document that `from_json` can read."""
        document: Json = {name: getattr(self, name) for name in DOCUMENTED}
        if self.inventory is not None:
            document["inventory"] = self.inventory.to_json()
            document["delay"] = list(self.delay)
        if self.step_times != StepTimes():
            document["step_times"] = self.step_times.to_json()
        if self.shares:
            document["shares"] = dict(self.shares)
        return document

    @classmethod
    def from_json(cls, document: Json) -> "TraceSource":
        """Read the output of `to_json`."""
        more: dict[str, Any] = {}
        if "inventory" in document:
            more = {"inventory": Inventory.from_json(document["inventory"]), "delay": tuple(document["delay"])}
        if "step_times" in document:
            more["step_times"] = StepTimes.from_json(document["step_times"])
        more |= {name: document[name] for name in (*DOCUMENTED, "shares") if name in document}
        return cls(**more)


def _check_size(inventory: Inventory, plan: ReplayParameters) -> None:
    """Raise InvalidField, with a slot length that would work, if tables of prices would fill the memory."""
    servers, resources = inventory.capacity.shape
    cells = plan.horizon * servers * resources
    if cells > MOST_CELLS:
        longer = math.ceil(plan.slot_s * cells / MOST_CELLS)
        raise InvalidField(
            "horizon",
            f"expected tables of at most {MOST_CELLS:,} numbers, got {cells:,} for {plan.horizon:,} slots, {servers:,}"
            f" servers and {resources} resources; choose slots of at least {longer:,} s, or a shorter horizon",
        )


DOCUMENTED: Final = tuple(
    one.name for one in fields(TraceSource) if one.name not in ("inventory", "delay", "step_times", "shares")
)
