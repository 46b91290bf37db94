"""`python -m studies.split_learning.plans.child`: compute one plan in a separate process that can be killed.

Standard input has the order as one line of JSON, with the plan `before` if its assignments are to be kept. The end of
the input, or any further line, asks for the best plan so far. Standard output has one line of JSON for each report:
`ready` when kernels are loaded, `step`s, `best` with the best plan so far in case the process is killed, and `plan`
or `error`.
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
from studies.background.child import Report, own_output, reports_to
from studies.split_learning.plans.replanned import again
from studies.split_learning.plans.results import plan_of, result_of

LONGEST_ORPHAN_S: Final = 30.0
"""Seconds a step may still take after the answer is requested; a step of an integer program could take minutes."""
LEAST_PAUSE_S: Final = 0.2
MOST_SHARE: Final = 0.02
"""Largest share of the time for reporting plans: one report takes 20 ms for 1,000 clients and 50 helpers."""


@dataclass(frozen=True)
class Budget:
    """Time budget in seconds that starts at creation; it is 0 as soon as the answer is requested."""

    seconds: float
    wanted: Event
    began: float

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return monotonic() - self.began

    def left(self) -> float:
        """Seconds."""
        return 0.0 if self.wanted.is_set() else self.seconds - self.elapsed


@dataclass
class Better:
    """Reports better plans before the next step, but never uses more than a share of the time for reports."""

    report: Report
    more: Callable[[], Json] = dict
    """Return further data to report with each plan."""
    makespan: int | None = None
    """Makespan of the last plan that was reported."""
    not_before: float = 0.0
    """Earliest time of the next report, by the monotonic clock."""

    def look(self, plan: Plan, lower_bound: int) -> None:
        """Report this plan if it is better than the last one and enough time has passed since then."""
        began = monotonic()
        if began < self.not_before or (self.makespan is not None and plan.makespan >= self.makespan):
            return
        self.report({"best": result_of(plan, lower_bound) | self.more()})
        self.makespan, ended = plan.makespan, monotonic()
        self.not_before = ended + max(LEAST_PAUSE_S, (ended - began) / MOST_SHARE)


def answer(order: Json, wanted: Event, report: Report) -> None:
    """Compute an order and report the result."""
    try:
        instance = read_split_learning(order["instance"])
        warm_up()
        report({"ready": True})
        budget = Budget(order["seconds"], wanted, monotonic())

        before = order.get("before")
        replanned = None if before is None else again(plan_of(before["instance"], before["result"]), instance)
        more: Callable[[], Json] = dict if replanned is None else replanned.document
        better = Better(report, more)

        def seen(step: Step) -> None:
            makespan = None if step.plan is None else step.plan.makespan
            report({"step": [round(budget.elapsed, 3), step.lower_bound, makespan, step.note[:200]]})
            if step.plan is not None:
                better.look(step.plan, step.lower_bound)

        if replanned is None:
            found = answer_of(instance, order["method"], left=budget.left, seed=order["seed"], seen=seen)
        else:
            rng = np.random.default_rng(order["seed"])
            found = last_of(replanned.steps(instance, left=budget.left, rng=rng), order["method"], seen)
        report({"plan": result_of(found.plan, found.lower_bound) | more()})
    except SchedulingError as error:
        report({"error": str(error)})


def main(source: TextIO, sink: TextIO) -> None:
    """Read an order and answer it."""
    wanted = Event()
    order = json.loads(source.readline())

    def listen() -> None:
        source.readline()
        wanted.set()
        sleep(LONGEST_ORPHAN_S)  # the worker would have killed this process by now, but it may be dead
        os._exit(1)

    Thread(target=listen, daemon=True).start()

    answer(order, wanted, reports_to(sink))


if __name__ == "__main__":
    main(sys.stdin, own_output())
