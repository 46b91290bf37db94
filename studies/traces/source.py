"""A public trace on servers of one's choice: with a seed for what no trace has, a workload."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, cast

import numpy as np

from cluster.traces.formats import Trace
from cluster.traces.gavel import Throughputs
from cluster.traces.records import TraceJob
from scheduling.arrays import Json
from scheduling.bid import Architecture
from scheduling.errors import InvalidField
from scheduling.fields import LARGEST_INTEGER, check_integer, shown
from scheduling.inventory import Inventory
from studies.replays.replay import LONGEST_HORIZON, Plan, horizon_for
from studies.replays.report import NOTE
from studies.traces.machines import gpu_cluster
from studies.traces.mapping import Rules, to_bids
from studies.traces.profiles import Profile, measured_profiles
from studies.workloads.documents import inventory_document, inventory_of_document
from studies.workloads.workload import Workload

SLOT_S: Final = 600
"""The longest jobs of Philly take weeks: shorter slots make horizons too long."""
MOST_GPUS: Final = 10_000


@dataclass(frozen=True)
class TraceSource:
    """How a trace is read as jobs, and on which servers: GPUs that are alike, or those of a cluster."""

    gpus: int | None = None
    """So many, eight a server."""
    apart: bool = False
    """Parameter servers on servers of their own, as OASiS wants it."""
    inventory: Inventory | None = None
    """Other servers instead."""
    cluster: str = ""
    """Their name."""
    delay: tuple[int, ...] = ()
    """Slots until each of them can be used after arrival."""
    slot_s: int = SLOT_S
    horizon: int | None = None
    """Slots; None: twice the longest run."""
    jobs: int | None = None
    """Only the first so many rows."""
    ring: bool = False
    """Jobs exchange gradients in rings."""
    elastic: bool = False
    """Jobs can use twice the GPUs they had."""
    reference: str = "v100"
    """The GPU of worker types that were not measured, where step times were."""
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    """Measured step times by model; not part of the document."""

    def __post_init__(self) -> None:
        if (self.gpus is None) == (self.inventory is None):
            raise InvalidField("gpus", "expected a number of GPUs, or a cluster, and not both")
        for name, high in (
            ("gpus", MOST_GPUS), ("slot_s", LARGEST_INTEGER), ("horizon", LONGEST_HORIZON), ("jobs", LARGEST_INTEGER)
        ):  # fmt: skip
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), low=1, high=high)
        for name in ("apart", "ring", "elastic"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidField(name, f"expected true or false, got {shown(getattr(self, name))}")
        if not isinstance(self.reference, str):
            raise InvalidField("reference", f"expected a text, got {shown(self.reference)}")
        if self.apart and self.inventory is not None:
            raise InvalidField("apart", "the servers of a cluster are what they are")

    @property
    def place(self) -> str:
        """The servers, for people."""
        if self.inventory is not None:
            return self.cluster
        return f"{self.gpus} GPUs{', parameter servers apart' if self.apart else ''}"

    def servers(self) -> Inventory:
        """Where jobs run."""
        if self.inventory is not None:
            return self.inventory
        return gpu_cluster(cast(int, self.gpus), apart=self.apart)

    @property
    def architecture(self) -> Architecture:
        """Of all jobs."""
        return Architecture.RING if self.ring else Architecture.PS

    def measured(self, throughputs: Throughputs) -> "TraceSource":
        """The same with step times of this table; raises InvalidField if the reference is not in it."""
        return replace(self, profiles=measured_profiles(throughputs, reference=self.reference))

    def draw(self, trace: Trace[TraceJob], seed: int) -> Workload:
        """The trace's jobs with values and targets of a seed; the same each time."""
        inventory = self.servers()
        rules = Rules(
            slot_s=self.slot_s,
            architecture=self.architecture,
            elastic=self.elastic,
            profiles=self.profiles,
            delay=self.delay,
        )
        traced = to_bids(trace.rows[: self.jobs], inventory, rules, np.random.default_rng(seed))
        plan = Plan(self.slot_s, self.horizon or horizon_for(traced, slot_s=self.slot_s))
        return Workload(traced, inventory, plan, f"{NOTE} (seed {seed})", trace.malformed)

    def to_json(self) -> Json:
        """A document that `from_json` reads back; profiles are left out."""
        document: Json = {name: getattr(self, name) for name in DOCUMENTED}
        if self.inventory is not None:
            document["inventory"] = inventory_document(self.inventory)
            document["delay"] = list(self.delay)
        return document

    @classmethod
    def from_json(cls, document: Json) -> "TraceSource":
        """What `to_json` wrote."""
        more: dict[str, Any] = {}
        if "inventory" in document:
            more = {"inventory": inventory_of_document(document["inventory"]), "delay": tuple(document["delay"])}
        return cls(**{name: document[name] for name in DOCUMENTED if name in document}, **more)


DOCUMENTED: Final = tuple(one.name for one in fields(TraceSource) if one.name not in ("inventory", "delay", "profiles"))
