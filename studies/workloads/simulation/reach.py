"""Horizon of a replay, and the jobs that it is too short for: their rejections are always reported."""

import math
from dataclasses import dataclass

from scheduling.model.bid import Bid
from scheduling.model.types import Json
from studies.workloads.simulation.replay import LONGEST_HORIZON, ReplayParameters, horizon_for
from studies.workloads.traces.mapping import TracedBids

SECONDS_PER_HOUR = 3600


@dataclass(frozen=True)
class Reach:
    """The horizon of a plan compared with the need of a trace's jobs."""

    plan: ReplayParameters
    jobs: int
    beyond: int
    """Number of jobs longer than the horizon even alone with all workers they can use: all are rejected."""
    wanted: int
    """Twice the longest run, slots: the default horizon of a replay, if it is allowed."""

    @classmethod
    def of(cls, traced: TracedBids, plan: ReplayParameters) -> "Reach":
        """Compute it for a trace's jobs under a plan; generated jobs fit the horizon of their paper."""
        beyond = sum(_shortest(bid) > plan.horizon for bid in traced.bids if bid.id in traced.runs_s)
        return cls(plan, len(traced.bids), beyond, horizon_for(traced, slot_s=plan.slot_s, most=None))

    @property
    def is_cut(self) -> bool:
        """Whether the horizon is the longest allowed one and shorter than the default for these jobs."""
        return self.plan.horizon == LONGEST_HORIZON < self.wanted

    @property
    def warning(self) -> str:
        """Return a warning about these figures; empty if the horizon is long enough."""
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
        """Return a document of numbers and a string."""
        return {"beyond": self.beyond, "wanted_slots": self.wanted, "warning": self.warning}


def _shortest(bid: Bid) -> int:
    """Return a lower bound on the job's slots: all chunks at once on its fastest worker, without waiting.

    Rings also reduce their gradients, so a few more ring jobs may be too long than the count says.
    """
    batch = min(bid.worker_time, default=0) + min(bid.ps_time, default=0)
    return min(bid.delay, default=0) + math.ceil(bid.epochs * bid.minibatches * batch)
