"""`python -m studies.split_learning.plans.child`: one plan in a process of its own, which can be ended at any step.

Standard input has the order as one line of JSON, with the plan `before` if its assignments are to be kept; its end, or
any further line, asks for the best so far. Standard output has a line of JSON for each thing to tell: `ready` when
kernels are loaded, `step`s, `best` with the plan by then in case that nobody waits for the answer, and `plan` or
`error`.
"""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event, Thread
from time import monotonic, sleep
from typing import Final, TextIO

import numpy as np

from scheduling.model.errors import SchedulingError
from scheduling.model.types import Json
from scheduling.split_learning.document import read_split_learning
from scheduling.split_learning.method import Step
from scheduling.split_learning.methods import answer_of, last_of
from scheduling.split_learning.plan import Plan
from scheduling.split_learning.warming import warm_up
from studies.background.progress import own_output
from studies.split_learning.plans.replanned import again
from studies.split_learning.plans.results import plan_of, result_of

LONGEST_ORPHAN_S: Final = 30.0
"""How long a step may go on when the answer is wanted; a step of an integer program would go on for minutes."""
LEAST_PAUSE_S: Final = 0.2
MOST_SHARE: Final = 0.02
"""Of the time, which telling plans may take: 20 ms for 1,000 clients and 50 helpers."""
Tell = Callable[[Json], None]


@dataclass(frozen=True)
class Budget:
    """What is left of a number of seconds that began just now, or of nothing once somebody wants the answer."""

    seconds: float
    wanted: Event
    began: float

    @property
    def elapsed(self) -> float:
        """Seconds."""
        return monotonic() - self.began

    def left(self) -> float:
        """Seconds."""
        return 0.0 if self.wanted.is_set() else self.seconds - self.elapsed


@dataclass
class Better:
    """Tells plans as they become better, each before the next step, but never for more than a share of the time."""

    tell: Tell
    more: Callable[[], Json] = dict
    """What is told beside each plan."""
    makespan: int | None = None
    """Of the last that was told."""
    not_before: float = 0.0
    """By the monotonic clock."""

    def look(self, plan: Plan, lower_bound: int) -> None:
        """Tell this plan, if it is better than the last and that was not just now."""
        began = monotonic()
        if began < self.not_before or (self.makespan is not None and plan.makespan >= self.makespan):
            return
        self.tell({"best": result_of(plan, lower_bound) | self.more()})
        self.makespan, ended = plan.makespan, monotonic()
        self.not_before = ended + max(LEAST_PAUSE_S, (ended - began) / MOST_SHARE)


def answer(order: Json, wanted: Event, tell: Tell) -> None:
    """Compute what was ordered and tell of it."""
    try:
        instance = read_split_learning(order["instance"])
        warm_up()
        tell({"ready": True})
        budget = Budget(order["seconds"], wanted, monotonic())

        before = order.get("before")
        replanned = None if before is None else again(plan_of(before["instance"], before["result"]), instance)
        more: Callable[[], Json] = dict if replanned is None else replanned.document
        better = Better(tell, more)

        def seen(step: Step) -> None:
            makespan = None if step.plan is None else step.plan.makespan
            tell({"step": [round(budget.elapsed, 3), step.lower_bound, makespan, step.note[:200]]})
            if step.plan is not None:
                better.look(step.plan, step.lower_bound)

        if replanned is None:
            found = answer_of(instance, order["method"], left=budget.left, seed=order["seed"], seen=seen)
        else:
            rng = np.random.default_rng(order["seed"])
            found = last_of(replanned.steps(instance, left=budget.left, rng=rng), order["method"], seen)
        tell({"plan": result_of(found.plan, found.lower_bound) | more()})
    except SchedulingError as error:
        tell({"error": str(error)})


def main(source: TextIO, sink: TextIO) -> None:
    """Read an order and answer it."""
    wanted = Event()
    order = json.loads(source.readline())

    def listen() -> None:
        source.readline()
        wanted.set()
        sleep(LONGEST_ORPHAN_S)  # whoever ordered it would have ended this process by now, but may be dead
        os._exit(1)

    Thread(target=listen, daemon=True).start()

    def tell(row: Json) -> None:
        sink.write(json.dumps(row, allow_nan=False) + "\n")
        sink.flush()

    answer(order, wanted, tell)


if __name__ == "__main__":
    main(sys.stdin, own_output())
