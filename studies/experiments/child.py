"""`python -m studies.experiments.child`: compute runs in a separate process, one after another.

Standard input has one order on each line, as JSON; the end of the input ends the process at once. Standard output has
lines of JSON for each order: `stage` before a workload is drawn, `ready` when it is drawn, `decided` from time to
time, and at the end `outcome` or `error`.
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
from scheduling.registry import recorded_policy
from studies.background.child import DRAWING, LOADING, Report, own_output, reports_to
from studies.experiments.bounds import bound_of
from studies.experiments.version import version
from studies.workloads.generated.generators import read_generator
from studies.workloads.traces.profiles import StepTimes
from studies.workloads.traces.reading import read_text
from studies.workloads.traces.source import TraceSource
from studies.workloads.workload import Workload, run

EVERY_S: Final = 0.5
"""Seconds between two reports of progress."""
NICENESS: Final = 10
"""Niceness of the process: decisions of live markets on the same machine come first."""


class Workloads:
    """Cache of the last workload, because the policies of an experiment run on the same one."""

    def __init__(self) -> None:
        self._key, self._drawn = "", None

    def drawn(self, order: Json, report: Report) -> Workload:
        """Return the workload of an order; reports the stage before drawing it."""
        key = canonical([order["workload"], order["seed"]])
        if self._drawn is None or key != self._key:
            report({"stage": DRAWING})
            self._key, self._drawn = key, _draw(order)
        return self._drawn

    _drawn: Workload | None


def _draw(order: Json) -> Workload:
    spec, seed = order["workload"], order["seed"]
    if "trace" not in spec:
        return read_generator(spec["source"], "workload").draw(seed)
    trace = read_text(order["text"], sha256=spec["sha256"])
    source, throughputs = TraceSource.from_json(spec["source"]), order["throughputs"]
    if throughputs is not None and "step_times" not in spec["source"]:  # stored with the trace
        source = replace(source, step_times=StepTimes(throughputs))
    return source.draw(trace, seed)


def _load_kernels(order: Json, report: Report) -> None:
    """Load the kernels of an order before anything is measured; reports the stage before a slow load."""
    policy = order["policy"]
    needed = kernels.needed_by(recorded_policy(**policy)) if policy is not None else (kernels.BOUNDS,)
    new = [group for group in needed if not kernels.is_warm(group)]
    if new:
        report({"stage": LOADING})
        compiling.compile_all(kernels.parts_of(new))
        kernels.warm_up(*new)


def answer(order: Json, workloads: Workloads, report: Report) -> None:
    """Compute an order and report the outcome."""
    try:
        _load_kernels(order, report)
        workload = workloads.drawn(order, report)
        workload.check()
        total = len(workload.jobs.bids)
        report({"ready": True, "jobs": total})
        reported_at = monotonic()

        def progress(done: int, _total: int) -> None:
            nonlocal reported_at
            if monotonic() - reported_at >= EVERY_S:
                reported_at = monotonic()
                report({"decided": done})

        result, timing = _result(order, workload, progress)
    except SchedulingError as error:
        report({"error": str(error)})
        return
    text = canonical({"workload": workload.facts(), "seed": order["seed"], **result})
    known = version()
    report(
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
    """Return the reproducible outcome and its timing."""
    if order["policy"] is None:
        began = process_time()
        bound = bound_of(workload, progress)
        return {"bound": bound}, {"cpu_s": process_time() - began}
    policy = recorded_policy(order["policy"]["name"], order["policy"]["parameters"])
    replayed = run(workload, policy, final=not order["standing"], progress=progress)
    result: Json = {
        "policy": {"name": policy.name, "parameters": policy.to_json()},
        "outcome": replayed.outcome.to_json(),
    }
    if replayed.standing is not None:
        result["standing"] = replayed.standing.to_json()
    return result, replayed.timing.to_json()


def main(source: TextIO, sink: TextIO) -> None:
    """Answer orders until there are no more."""
    os.nice(NICENESS)
    orders: SimpleQueue[Json] = SimpleQueue()

    def listen() -> None:
        for line in source:
            orders.put(json.loads(line))
        os._exit(0)  # the reader has ended or has closed the output

    Thread(target=listen, daemon=True).start()
    workloads, report = Workloads(), reports_to(sink)
    while True:
        answer(orders.get(), workloads, report)


if __name__ == "__main__":
    main(sys.stdin, own_output())
