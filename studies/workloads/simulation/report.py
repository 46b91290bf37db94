"""A replay as a document and as a table; both say which data are synthetic."""

from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass

from cluster.traces.formats import Trace
from cluster.traces.records import TraceJob
from scheduling.model.types import Json
from scheduling.policies.base import Policy
from scheduling.policies.standing import StandingRule
from studies.workloads.simulation.reach import Reach
from studies.workloads.simulation.replay import Replayed, ReplayParameters
from studies.workloads.traces.mapping import TENANT, TracedBids


def note_of(synthetic: Collection[str]) -> str:
    """Return a sentence on the synthetic data of a trace's jobs."""
    return f"{'values and tenants' if TENANT in synthetic else 'values'} synthetic, arrivals/sizes real"


@dataclass(frozen=True)
class Report:
    """All inputs of a replay, and its outcome."""

    trace: Trace[TraceJob]
    traced: TracedBids
    seed: int
    policy: Policy
    cluster: str
    """Description of the servers."""
    plan: ReplayParameters
    replayed: Replayed

    def to_json(self) -> Json:
        """Return a document of finite numbers, strings and nulls; only `timing` differs for the same input."""
        trace, traced = self.trace, self.traced
        return {
            "trace": {"format": trace.format, "source": trace.source, "sha256": trace.sha256},
            "malformed": [asdict(row) for row in trace.malformed],
            "refused": [asdict(row) for row in traced.refused],
            "note": note_of(traced.synthetic),
            "seed": self.seed,
            "synthetic": list(traced.synthetic),
            "declared": list(traced.declared),
            "policy": {"name": self.policy.name, "parameters": self.policy.to_json()},
            "cluster": self.cluster,
            "plan": asdict(self.plan),
            "reach": Reach.of(traced, self.plan).to_json(),
            "standing": None if self.replayed.standing is None else self.replayed.standing.to_json(),
            "outcome": self.replayed.outcome.to_json(),
            "timing": self.replayed.timing.to_json(),
        }

    def lines(self) -> Iterator[str]:
        """Return a table with two columns."""
        note = note_of(self.traced.synthetic)
        jobs, out, timing = self.replayed.outcome.jobs, self.replayed.outcome, self.replayed.timing
        yield f"{self.trace.source} under {self.policy.name} on {self.cluster}; {note} (seed {self.seed})"
        yield _row("submitted", f"{jobs.submitted} = {jobs.completed} completed + {jobs.rejected} rejected"
                   f" + {jobs.running} running + {jobs.planned} planned")  # fmt: skip
        yield _row(
            "lines that are no job", f"{len(self.trace.malformed)} malformed, {len(self.traced.refused)} refused"
        )
        warning = Reach.of(self.traced, self.plan).warning
        if warning:
            yield _row("WARNING", warning)
        yield _row("rejected bids", _rejections(self.replayed.standing))
        yield _row("welfare", f"{out.welfare:,.2f} (synthetic)")
        yield _row("revenue", f"{out.revenue:,.2f} (synthetic)")
        yield _row("bidders' payoff", f"{out.payoff:,.2f} (synthetic)")
        yield _row("acceptance", _share(out.acceptance))
        yield _row("JCT, mean", _hours(out.mean_jct_s))
        yield _row("JCT, weighted", _hours(out.weighted_jct_s) + " (weights synthetic)")
        yield _row("JCT, p95", _hours(out.p95_jct_s))
        yield _row("makespan", _hours(out.makespan_s))
        for name, share in out.utilisation.items():
            yield _row(f"utilisation, {name}", _share(share))
        yield _row("preemptions, rescalings", f"{out.preemptions}, {out.rescalings}")
        yield _row("completion - target", _hours(out.timeliness_s) + " (targets synthetic)")
        yield _row("on time", _share(out.on_time) + " (targets synthetic)")
        fair = "none" if out.fairness is None else f"{out.fairness:.3f}"
        yield _row("fairness (Jain)", f"{fair}; {out.starved} of {len(out.tenants)} tenants have no completed job"
                   + (" (tenants synthetic)" if TENANT in self.traced.synthetic else ""))  # fmt: skip
        p50, p95, p99 = ("none" if ms is None else f"{ms:.2f}" for ms in timing.decisions_ms)
        yield _row("decision, ms", f"p50 {p50}, p95 {p95}, p99 {p99}")
        rate = "none" if timing.jobs_per_cpu_s is None else f"{timing.jobs_per_cpu_s:,.0f}"
        yield _row("jobs per CPU-second", f"{rate} ({timing.cpu_s:.1f} CPU-s)")


def _row(label: str, value: str) -> str:
    return f"  {label:<24} {value}"


def _rejections(rule: StandingRule | None) -> str:
    if rule is None:
        return "are not tried again"
    return f"stand: tried again every {rule.every} slots, old ones less often, for {rule.longest:g} horizons at most"


def _share(share: float | None) -> str:
    return "none" if share is None else f"{share:.1%}"


def _hours(seconds: float | None) -> str:
    return "none" if seconds is None else f"{seconds / 3600:,.2f} h"
