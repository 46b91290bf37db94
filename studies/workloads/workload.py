"""Workloads: jobs, servers and time, from a trace or a generator, identified by a hash of all data."""

import hashlib
from dataclasses import asdict, dataclass
from functools import cached_property

from cluster.traces.records import Malformed
from scheduling.model.decision import canonical
from scheduling.model.errors import InvalidField
from scheduling.model.inventory import Inventory
from scheduling.model.types import Json
from scheduling.policies.base import Policy
from studies.workloads.simulation.reach import Reach
from studies.workloads.simulation.replay import Progress, Replayed, ReplayParameters, live_rule, replay
from studies.workloads.traces.mapping import TracedBids

MOST_LINES = 1000
"""Largest number of malformed and refused lines that are listed; the count covers all."""


@dataclass(frozen=True)
class Workload:
    """All inputs of a run except the policy."""

    jobs: TracedBids
    inventory: Inventory
    plan: ReplayParameters
    note: str
    """A sentence on the synthetic data."""
    malformed: tuple[Malformed, ...] = ()
    """Malformed lines of the trace."""

    @cached_property
    def sha256(self) -> str:
        """SHA-256, hex, of all data that can change decisions or figures, as canonical JSON.

        Bid by bid, as `bids` is the first of the document's keys: as one text, 2,000 jobs of OASiS with a machine type
        each take a gigabyte.
        """
        jobs, total = self.jobs, hashlib.sha256(b'{"bids":[')
        for number, bid in enumerate(jobs.bids):
            total.update(("," * (number > 0) + canonical(bid.to_json())).encode())
        rest = {
            "inventory": self.inventory.to_json(),
            "plan": asdict(self.plan),
            **{name: dict(getattr(jobs, name)) for name in ("submitted_s", "tenants", "runs_s", "targets_s")},
        }
        total.update(("]," + canonical(rest).removeprefix("{")).encode())
        return total.hexdigest()

    def check(self) -> None:
        """Raise InvalidField if there are no jobs: figures without jobs would look like those of a bad policy."""
        if not self.jobs.bids:
            first = min([*self.jobs.refused, *self.malformed], key=lambda row: row.line, default=None)
            raise InvalidField(
                "trace", f"expected a line that can become a job, got none{'' if first is None else f'; {first}'}"
            )

    @cached_property
    def reach(self) -> Reach:
        """The horizon compared with the need of the jobs."""
        return Reach.of(self.jobs, self.plan)

    def facts(self) -> Json:
        """Return facts to report with the figures of a run."""
        inventory, refused = self.inventory, self.jobs.refused
        taken = inventory.worker_demand.sum(axis=0) > 0
        return {
            "sha256": self.sha256,
            "jobs": len(self.jobs.bids),
            "servers": len(inventory.servers),
            "worker_resources": [name for r, name in enumerate(inventory.resources) if taken[r]],
            "plan": asdict(self.plan),
            "reach": self.reach.to_json(),
            "note": self.note,
            "synthetic": list(self.jobs.synthetic),
            "declared": list(self.jobs.declared),
            "malformed": [asdict(row) for row in self.malformed[:MOST_LINES]],
            "malformed_lines": len(self.malformed),
            "refused": [asdict(row) for row in refused[:MOST_LINES]],
            "refused_lines": len(refused),
        }


def run(workload: Workload, policy: Policy, *, final: bool = False, progress: Progress | None = None) -> Replayed:
    """Run the workload under a policy; raises as `replay` does.

    If the policy posts prices, rejected bids stand by the rule of live markets, unless rejections are `final`.
    """
    rule = None if final else live_rule(policy)
    return replay(workload.jobs, policy, workload.inventory, workload.plan, progress=progress, standing=rule)
