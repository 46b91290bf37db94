"""Plans made again from one that is followed: who has memory on a helper stays there; what changes is said."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np

from scheduling.model.types import Json
from scheduling.solvers.time_limit import Left
from scheduling.split_learning.bounds import unavoidable
from scheduling.split_learning.exact import exact
from scheduling.split_learning.instance import Instance
from scheduling.split_learning.method import Step
from scheduling.split_learning.plan import Plan
from scheduling.split_learning.replanning import Replanned, replan

METHOD = "replan"
"""What rows say as their method; it is none of METHODS, since it needs a plan to begin with."""


@dataclass
class Again:
    """A new plan for what there is now, and what a plan from scratch would be worth."""

    found: Replanned
    scratch: Plan | None = None
    """The best plan that moves whom it likes, as far as the budget allowed to look for it."""

    def steps(self, instance: Instance, *, left: Left, rng: np.random.Generator) -> Iterator[Step]:
        """The new plan at once; then, for the bound, the exact method on the same instance without any assignment.

        The bound holds for every plan, so the gap is what keeping assignments may cost, and nothing is proven better
        than a plan that would move clients.
        """
        plan = self.found.plan
        bound = unavoidable(instance)
        yield Step(bound, plan, self.found.summary)
        if bound == plan.makespan:
            return
        for step in exact(instance, left=left, rng=rng):
            bound = max(bound, min(step.lower_bound, plan.makespan))
            self.scratch = step.plan or self.scratch
            yield Step(bound, plan, f"from scratch: {step.note}")
            if bound == plan.makespan:
                return

    def document(self) -> Json:
        """What is kept beside the plan: a row for each client, a summary, and the makespan of a plan from scratch."""
        return {
            "summary": self.found.summary,
            "changes": [asdict(change) for change in self.found.changes],
            "from_scratch": None if self.scratch is None else self.scratch.makespan,
        }


def again(before: Plan, instance: Instance) -> Again:
    """Plan again, keeping assignments; raises NoPlan naming the client or helper that lacks room."""
    return Again(replan(before, instance))
