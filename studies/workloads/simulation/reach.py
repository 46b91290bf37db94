"""How far a replay can plan ahead, and which jobs can never be complete in that: nobody is turned away unsaid."""

import math
from dataclasses import dataclass

from scheduling.model.bid import Bid
from scheduling.model.types import Json
from studies.workloads.simulation.replay import LONGEST_HORIZON, Plan, horizon_for
from studies.workloads.traces.mapping import TracedBids

SECONDS_PER_HOUR = 3600


@dataclass(frozen=True)
class Reach:
    """A plan's horizon beside what the jobs of a trace would need."""

    plan: Plan
    jobs: int
    beyond: int
    """Jobs that take longer than the horizon even alone, with all the workers they can use: all are rejected."""
    wanted: int
    """Slots of twice the longest run, the horizon that a replay takes if nothing else is said and it may."""

    @classmethod
    def of(cls, traced: TracedBids, plan: Plan) -> "Reach":
        """That of a trace's jobs under a plan; jobs that were drawn were drawn for the horizon of their paper."""
        beyond = sum(_shortest(bid) > plan.horizon for bid in traced.bids if bid.id in traced.runs_s)
        return cls(plan, len(traced.bids), beyond, horizon_for(traced, slot_s=plan.slot_s, most=None))

    @property
    def is_cut(self) -> bool:
        """Whether the horizon is the longest that may be, and too short for what a replay would take by itself."""
        return self.plan.horizon == LONGEST_HORIZON < self.wanted

    @property
    def warning(self) -> str:
        """What to know before these figures are trusted; empty if the horizon is long enough."""
        if not self.beyond and not self.is_cut:
            return ""
        slots, slot_s = self.plan.horizon, self.plan.slot_s
        hours = slots * slot_s / SECONDS_PER_HOUR
        most = ", as far as may be" if slots == LONGEST_HORIZON else ""
        advice = math.ceil(self.wanted * slot_s / LONGEST_HORIZON)
        longer = f" Slots of at least {advice:,} s reach twice the longest run." if self.is_cut else ""
        alone = (
            f"{self.beyond:,} of {self.jobs:,} jobs take longer even alone and are rejected; so is every other one"
            if self.beyond
            else f"None of {self.jobs:,} jobs takes longer alone, but every one is rejected"
        )
        return (
            f"Plans reach {slots:,} slots of {slot_s:,} s ahead ({hours:,.1f} h){most}. {alone} that would wait until"
            f" it cannot be complete by then.{longer}"
        )

    def to_json(self) -> Json:
        """A document of numbers and a text."""
        return {"beyond": self.beyond, "wanted_slots": self.wanted, "warning": self.warning}


def _shortest(bid: Bid) -> int:
    """Slots that no schedule of the job is shorter than: all chunks at once, on its fastest worker, nobody to wait for.

    Rings reduce their gradients on top of that, so that of them a few more may be beyond than are told.
    """
    batch = min(bid.worker_time, default=0) + min(bid.ps_time, default=0)
    return min(bid.delay, default=0) + math.ceil(bid.epochs * bid.minibatches * batch)
