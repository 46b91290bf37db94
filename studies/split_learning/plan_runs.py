"""Run a plan of split learning: clients and helpers as processes, in the plan's order, with measured times."""

import itertools
import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cluster import clock
from execution.engines.base import Engine, Phase, Start
from scheduling.model.errors import InvalidField, SchedulingError
from scheduling.model.types import Json
from scheduling.split_learning.plan import Plan

PROGRAM: Final = Path(__file__).resolve().parents[2] / "examples/split_learning.py"
START_S: Final = 30.0
"""Time for all processes to start, seconds."""
BETWEEN_S: Final = 1.0
"""Time from the end of a batch to the next, seconds."""
FACTOR: Final = 5
"""Batches that take this many times as long as planned end the run."""
POLL_S: Final = 0.005
LOG_BYTES: Final = 2_000
MOST_PROCESSES: Final = 64


class RunFailed(SchedulingError):
    """A run ended early, or did not keep the plan's order."""


@dataclass(frozen=True)
class Task:
    """One measured task: a client's part, or a piece of a pass on its helper. Seconds since its batch began."""

    batch: int
    client: int
    kind: str
    part: int
    start_s: float
    end_s: float
    loss: float | None = None


def setting_of(plan: Plan, slot_s: float, batches: int) -> Json:
    """Return what the processes read; costs of switching are added to the client's next task, as the plan has them.

    Raises
    ------
    InvalidField
        If the plan has too many processes, or a pass that takes no slot.
    """
    instance = plan.instance
    total = len(instance.clients) + len(instance.helpers)
    if total > MOST_PROCESSES:
        raise InvalidField("plan", f"expected at most {MOST_PROCESSES} clients and helpers together, got {total}")
    helpers: list[list[tuple[int, list[Any]]]] = [[] for _ in instance.helpers]
    clients = []
    for j, i in enumerate(plan.assignment.tolist()):
        switches = []
        for kind, pieces in (("forward", plan.forward[j]), ("backward", plan.backward[j])):
            if not pieces:
                raise InvalidField(
                    "plan", f"expected passes of a slot or more, got none: {kind}, {instance.clients[j]}"
                )
            switches.append(2 * int(instance.switch[i]) * len(pieces))
            helpers[i] += [(s, [j, kind, part, len(pieces), e - s]) for part, (s, e) in enumerate(pieces)]
        clients.append(
            {
                "helper": i,
                "release": int(instance.release[i, j]),
                "gap": int(instance.gap[i, j]) + switches[0],
                "tail": int(instance.tail[i, j]) + switches[1],
            }
        )
    order = [[piece for _, piece in sorted(row, key=lambda one: one[0])] for row in helpers]
    return {"slot_s": slot_s, "batches": batches, "helpers": order, "clients": clients}


def run(plan: Plan, engine: Engine, folder: Path, *, slot_s: float, batches: int) -> list[Task]:
    """Run the batches on the engine's server `local`; raises RunFailed, and leaves no process behind in any case."""
    setting = setting_of(plan, slot_s, batches)
    folder.mkdir(parents=True)
    (folder / "setting.json").write_text(json.dumps(setting))
    limit = clock.now().timestamp() + START_S + FACTOR * batches * (plan.makespan * slot_s + BETWEEN_S)
    names = [f"helper-{i}" for i, row in enumerate(setting["helpers"]) if row]
    names += [f"client-{j}" for j in range(len(setting["clients"]))]
    keys = {name: f"{folder.name}-{name}" for name in names}
    try:
        for name, key in keys.items():
            command = (sys.executable, str(PROGRAM), str(folder), *name.split("-"))
            environment = {"PATH": os.environ.get("PATH", ""), "OPENBLAS_NUM_THREADS": "1"}
            engine.launch(Start(key, "local", command, environment, folder, until=limit, grace_s=0.5))
        begun = [_begin(engine, keys, folder, batch, limit) for batch in range(batches)]
        while not _all_ended(engine, keys, limit):
            time.sleep(POLL_S)
    finally:
        with ExitStack() as ends:  # also the others, if one cannot be ended
            for key in keys.values():
                ends.callback(engine.retire, key)
                ends.callback(engine.kill, key)
    tasks = _read(folder, names, begun)
    check_order(setting, tasks)
    return tasks


def check_order(setting: Json, tasks: Sequence[Task]) -> None:
    """Raise RunFailed if a helper ran other pieces than planned, in another order, or two at once."""
    for batch in range(setting["batches"]):
        for i, row in enumerate(setting["helpers"]):
            planned = [(client, kind, part) for client, kind, part, *_ in row]
            members = {client for client, *_ in planned}
            there = [t for t in tasks if t.batch == batch and t.client in members and t.kind in ("forward", "backward")]
            there.sort(key=lambda task: task.start_s)
            measured = [(t.client, t.kind, t.part) for t in there]
            if measured != planned:
                raise RunFailed(f"helper {i}, batch {batch}: expected the order {planned}, got {measured}")
            if any(b.start_s < a.end_s for a, b in itertools.pairwise(there)):
                raise RunFailed(f"helper {i}, batch {batch}: expected one pass at a time, got two")


def makespans(tasks: Sequence[Task]) -> list[float]:
    """Return the measured makespan of each batch, seconds."""
    return [max(t.end_s for t in tasks if t.batch == n) for n in range(1 + max(t.batch for t in tasks))]


def _begin(engine: Engine, keys: dict[str, str], folder: Path, batch: int, limit: float) -> float:
    while not all((folder / f"ready-{batch}-{name}").exists() for name in keys):
        _all_ended(engine, keys, limit)
        time.sleep(POLL_S)
    # Processes look for the file every few milliseconds: all of them have seen it by then.
    begin = clock.now().timestamp() + 0.05
    aside = folder / f".begin-{batch}"
    aside.write_text(repr(begin))
    aside.rename(folder / f"begin-{batch}")
    return begin


def _all_ended(engine: Engine, keys: dict[str, str], limit: float) -> bool:
    """Return whether all processes ended well; raises RunFailed once one did not, or the time is over."""
    seen = engine.list()
    # Those that lost their peer fail after it: the one that ended first is the reason.
    failed = [
        (seen[key].ended_s or 0.0, name) for name, key in keys.items() if _has_failed(seen[key].phase, seen[key].code)
    ]
    if failed:
        name = min(failed)[1]
        found, key = seen[keys[name]], keys[name]
        first, end = engine.log_size(key)
        log = engine.log(key, max(first, end - LOG_BYTES), LOG_BYTES).decode(errors="replace").strip()
        raise RunFailed(f"{name} ended with exit code {found.code} {found.reason}: {log or 'it wrote nothing'}")
    if clock.now().timestamp() > limit:
        raise RunFailed(f"expected each batch to take at most {FACTOR} times as long as planned, but the run goes on")
    return all(seen[key].phase == Phase.EXITED for key in keys.values())


def _has_failed(phase: Phase, code: int | None) -> bool:
    return phase == Phase.LOST or (phase == Phase.EXITED and code != 0)


def _read(folder: Path, names: Sequence[str], begun: Sequence[float]) -> list[Task]:
    tasks = []
    for name in names:
        for line in (folder / f"tasks-{name}.jsonl").read_text().splitlines():
            row = json.loads(line)
            zero = begun[row["batch"]]
            times = row["start"] - zero, row["end"] - zero
            tasks.append(Task(row["batch"], row["client"], row["kind"], row.get("part", 0), *times, row.get("loss")))
    return sorted(tasks, key=lambda task: (task.batch, task.start_s))
