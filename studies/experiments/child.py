"""`python -m studies.experiments.child`: runs in a process of their own, one after another.

Standard input has an order on each line, as JSON; its end ends the process at once, whatever it is doing. Standard
output has lines of JSON for each order: `stage` before it draws a workload, `ready` when that is drawn, `decided` now
and then, and at the end `outcome` or `error`.
"""

import hashlib
import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from queue import SimpleQueue
from threading import Thread
from time import monotonic, process_time
from typing import Final, TextIO

from auctions.kernels import compiling
from scheduling import kernels
from scheduling.model.decision import canonical
from scheduling.model.errors import SchedulingError
from scheduling.model.types import Json
from scheduling.registry import make_policy
from studies.background.progress import own_output
from studies.background.stages import DRAWING, LOADING
from studies.experiments.bounds import bound_of
from studies.experiments.version import version
from studies.workloads.generated.generators import read_generator
from studies.workloads.traces.profiles import StepTimes
from studies.workloads.traces.reading import read_text
from studies.workloads.traces.source import TraceSource
from studies.workloads.workload import Workload, run

EVERY_S: Final = 0.5
"""Between two words of progress."""
NICENESS: Final = 10
"""Decisions of live markets on the same machine come first."""
Tell = Callable[[Json], None]


class Workloads:
    """The workload that was asked for last is kept: the policies of an experiment are run on the same one."""

    def __init__(self) -> None:
        self._key, self._drawn = "", None

    def drawn(self, order: Json, tell: Tell) -> Workload:
        """The workload of an order; tells before it is drawn."""
        key = canonical([order["workload"], order["seed"]])
        if self._drawn is None or key != self._key:
            tell({"stage": DRAWING})
            self._key, self._drawn = key, _draw(order)
        return self._drawn

    _drawn: Workload | None


def _draw(order: Json) -> Workload:
    spec, seed = order["workload"], order["seed"]
    if "trace" not in spec:
        return read_generator(spec["source"], "workload").draw(seed)
    trace = read_text(order["text"], sha256=spec["sha256"])
    source, throughputs = TraceSource.from_json(spec["source"]), order["throughputs"]
    if throughputs is not None and "step_times" not in spec["source"]:  # what came with the trace
        source = replace(source, step_times=StepTimes(throughputs))
    return source.draw(trace, seed)


def _load_kernels(order: Json, tell: Tell) -> None:
    """Load the kernels that an order needs, before anything is measured; tells before that takes a while."""
    asked = order["policy"]
    needed = kernels.needed_by(make_policy(**asked)) if asked is not None else (kernels.BOUNDS,)
    new = [group for group in needed if not kernels.is_warm(group)]
    if new:
        tell({"stage": LOADING})
        compiling.compile_all(kernels.parts_of(new))
        kernels.warm_up(*new)


def answer(order: Json, workloads: Workloads, tell: Tell) -> None:
    """Do what was ordered and tell of it."""
    try:
        _load_kernels(order, tell)
        workload = workloads.drawn(order, tell)
        workload.check()
        total = len(workload.jobs.bids)
        tell({"ready": True, "jobs": total})
        said = monotonic()

        def progress(done: int, _total: int) -> None:
            nonlocal said
            if monotonic() - said >= EVERY_S:
                said = monotonic()
                tell({"decided": done})

        result, timing = _result(order, workload, progress)
    except SchedulingError as error:
        tell({"error": str(error)})
        return
    text = canonical({"workload": workload.facts(), "seed": order["seed"], **result})
    known = version()
    tell(
        {
            "outcome": text,
            "outcome_sha256": hashlib.sha256(text.encode()).hexdigest(),
            "workload_sha256": workload.sha256,
            "timing": timing,
            "commit": known.commit,
            "sources": known.sources,
            "decided": total,
            "jobs": total,
        }
    )


def _result(order: Json, workload: Workload, progress: Callable[[int, int], None]) -> tuple[Json, Json]:
    """What is the same each time, and how long it took."""
    if order["policy"] is None:
        began = process_time()
        bound = bound_of(workload, progress)
        return {"bound": bound}, {"cpu_s": process_time() - began}
    policy = make_policy(order["policy"]["name"], order["policy"]["parameters"])
    replayed = run(workload, policy, progress=progress)
    told = {"name": policy.name, "parameters": policy.to_json()}
    return {"policy": told, "outcome": replayed.outcome.to_json()}, replayed.timing.to_json()


def main(source: TextIO, sink: TextIO) -> None:
    """Answer orders until there are no more."""
    os.nice(NICENESS)
    orders: SimpleQueue[Json] = SimpleQueue()

    def listen() -> None:
        for line in source:
            orders.put(json.loads(line))
        os._exit(0)  # nobody is left to be told, or nobody wants to be

    def tell(row: Json) -> None:
        sink.write(json.dumps(row, allow_nan=False) + "\n")
        sink.flush()

    Thread(target=listen, daemon=True).start()
    workloads = Workloads()
    while True:
        answer(orders.get(), workloads, tell)


if __name__ == "__main__":
    main(sys.stdin, own_output())
