"""Plans made again from a current plan: assigned clients stay on their helpers, and all changes are listed."""

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
"""Method name in rows; it is not one of METHODS, since it needs a plan to begin with."""


@dataclass
class Again:
    """A new plan for the changed instance, and a plan from scratch for comparison."""

    found: Replanned
    scratch: Plan | None = None
    """The best plan without kept assignments that was found within the budget."""

    def steps(self, instance: Instance, *, left: Left, rng: np.random.Generator) -> Iterator[Step]:
        """Yield the new plan at once, then the steps of the exact method without kept assignments, for the bound.

        The bound holds for every plan, so the gap limits the cost of keeping assignments.
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
        """Return data to store with the plan: a row for each client, a summary, and the makespan from scratch."""
        return {
            "summary": self.found.summary,
            "changes": [asdict(change) for change in self.found.changes],
            "from_scratch": None if self.scratch is None else self.scratch.makespan,
        }


def again(before: Plan, instance: Instance) -> Again:
    """Make a plan again and keep assignments; raises NoPlan naming the client or helper without enough memory."""
    return Again(replan(before, instance))
