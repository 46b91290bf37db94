"""Run a plan of split learning: clients and helpers as processes, in the plan's order, with measured times."""

import itertools
import json
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean
from typing import Any, Final

from cluster import clock
from execution.engines.base import Engine, Limits, Phase, Seen, Start
from execution.places import text_of
from scheduling.model.errors import InvalidField, SchedulingError
from scheduling.model.types import Json
from scheduling.model.validation import shown
from scheduling.split_learning.plan import Plan

PROGRAM: Final = Path(__file__).resolve().parents[2] / "examples/split_learning.py"
START_S: Final = 30.0
"""Time for all processes to start, seconds."""
BETWEEN_S: Final = 1.0
"""Time from the end of a batch to the next, seconds."""
FACTOR: Final = 5
"""Batches that take this many times as long as planned end the run."""
POLL_S: Final = 0.02
LOG_BYTES: Final = 2_000
MOST_PROCESSES: Final = 64
MOST_TASKS_BYTES: Final = 20_000_000
"""Largest file of measured tasks of a process."""


PASSES: Final = ("forward", "backward")
"""Kinds of tasks of helpers."""
PARTS: Final = ("release", "gap", "tail")
"""Kinds of tasks of clients."""
LOSSES: Final = "gap"
"""The part in which a client computes its loss."""


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


@dataclass(frozen=True)
class Conditions:
    """Conditions under which the processes of a run are started, and the number of their batches."""

    slot_s: float
    """Length of a slot, seconds."""
    batches: int
    user: int | None = None
    """Number (uid) of the user that they run as; None for the user of the engine."""
    limits: Limits = field(default_factory=Limits)


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


Watch = Callable[[int], None]
"""Is called again and again with the number of batches that have begun; what it raises ends the run."""


def run(
    plan: Plan, engine: Engine, folder: Path, conditions: Conditions, watch: Watch = lambda begun: None
) -> list[Task]:
    """Run the batches on the engine's server `local`; raises RunFailed, and leaves no process behind in any case.

    Processes may read `folder` and write only in `folder/written`, which belongs to their user: so no link of theirs
    can lead what is written here elsewhere.
    """
    setting = setting_of(plan, conditions.slot_s, conditions.batches)
    folder.mkdir(parents=True)
    written = folder / "written"
    written.mkdir(mode=0o700)
    if conditions.user is not None:
        os.chown(written, conditions.user, conditions.user)
        os.chown(folder, -1, conditions.user)
    folder.chmod(0o750)
    _publish(folder / "setting.json", json.dumps(setting))
    longest = longest_s(plan.makespan, conditions.slot_s, conditions.batches)
    running = _Processes(engine, folder, watch, until=clock.now().timestamp() + longest)
    names = [f"helper-{i}" for i, row in enumerate(setting["helpers"]) if row]
    names += [f"client-{j}" for j in range(len(setting["clients"]))]
    running.keys = {name: f"{folder.name}-{name}" for name in names}
    try:
        for name in names:
            running.launch(name, conditions)
        for batch in range(conditions.batches):
            running.begin(batch)
        while not running.all_ended():
            time.sleep(POLL_S)
    finally:
        running.end()
    tasks = _read(written, names, running.begun, len(setting["clients"]))
    check_parts(setting, tasks)
    check_order(setting, tasks)
    return tasks


def longest_s(makespan: int, slot_s: float, batches: int) -> float:
    """Return the longest time of a run of a plan with this makespan in slots, seconds: then its processes end."""
    return START_S + FACTOR * batches * (makespan * slot_s + BETWEEN_S)


def end_all(engine: Engine, keys: Sequence[str]) -> None:
    """End processes, also the others if one of them cannot be ended."""
    with ExitStack() as ends:
        for key in keys:
            ends.callback(engine.retire, key)
            ends.callback(engine.kill, key)


def check_order(setting: Json, tasks: Sequence[Task]) -> None:
    """Raise RunFailed if a helper ran other pieces than planned, in another order, or two at once."""
    for batch in range(setting["batches"]):
        for i, row in enumerate(setting["helpers"]):
            planned = [(client, kind, part) for client, kind, part, *_ in row]
            members = {client for client, *_ in planned}
            there = [t for t in tasks if t.batch == batch and t.client in members and t.kind in PASSES]
            there.sort(key=lambda task: task.start_s)
            measured = [(t.client, t.kind, t.part) for t in there]
            if measured != planned:
                raise RunFailed(f"helper {i}, batch {batch}: expected the order {planned}, got {measured}")
            if any(b.start_s < a.end_s for a, b in itertools.pairwise(there)):
                raise RunFailed(f"helper {i}, batch {batch}: expected one pass at a time, got two")


def check_parts(setting: Json, tasks: Sequence[Task]) -> None:
    """Raise RunFailed if a client did not run each of its parts once in each batch."""
    ran = Counter((t.batch, t.client, t.kind) for t in tasks if t.kind in PARTS)
    for batch, client, kind in itertools.product(range(setting["batches"]), range(len(setting["clients"])), PARTS):
        times = ran[batch, client, kind]
        if times != 1:
            raise RunFailed(f"client {client}, batch {batch}: expected to run {kind} once, got {times} times")


def makespans(tasks: Sequence[Task]) -> list[float]:
    """Return the measured makespan of each batch, seconds."""
    return [max(t.end_s for t in tasks if t.batch == n) for n in range(1 + max(t.batch for t in tasks))]


def mean_losses(tasks: Sequence[Task]) -> list[float]:
    """Return the mean loss of all clients in each batch."""
    batches = range(1 + max(t.batch for t in tasks))
    return [mean(t.loss for t in tasks if t.batch == n and t.loss is not None) for n in batches]


@dataclass
class _Processes:
    """The processes of a run."""

    engine: Engine
    folder: Path
    watch: Watch
    until: float
    """Time at which all of them end, seconds since 1970."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Keys in the engine by name."""
    begun: list[float] = field(default_factory=list)
    """Beginning of each batch, seconds since 1970."""

    def launch(self, name: str, conditions: Conditions) -> None:
        command = (sys.executable, str(PROGRAM), str(self.folder), *name.split("-"))
        environment = {"PATH": os.environ.get("PATH", ""), "OPENBLAS_NUM_THREADS": "1"}
        start = Start(self.keys[name], "local", command, environment, self.folder, until=self.until, grace_s=0.5)
        self.engine.launch(replace(start, user=conditions.user, limits=conditions.limits))

    def begin(self, batch: int) -> None:
        """Let a batch begin as soon as all processes are ready; raises RunFailed if one ended badly before."""
        while not all((self.folder / f"written/ready-{batch}-{name}").exists() for name in self.keys):
            self.all_ended()
            time.sleep(POLL_S)
        # Processes look for the file every few milliseconds: all of them have seen it by then.
        begin = clock.now().timestamp() + 0.05
        _publish(self.folder / f"begin-{batch}", repr(begin))
        self.begun.append(begin)

    def all_ended(self) -> bool:
        """Return whether all processes ended well; raises RunFailed once one did not, or the time is over."""
        self.watch(len(self.begun))
        seen = self.engine.list()
        # Those that lost their peer fail after it: the one that ended first is the reason.
        failed = [(seen[key].ended_s or 0.0, name) for name, key in self.keys.items() if _has_failed(seen[key])]
        if failed:
            name = min(failed)[1]
            found, key = seen[self.keys[name]], self.keys[name]
            first, end = self.engine.log_size(key)
            log = self.engine.log(key, max(first, end - LOG_BYTES), LOG_BYTES).decode(errors="replace").strip()
            raise RunFailed(f"{name} ended with exit code {found.code} {found.reason}: {log or 'it wrote nothing'}")
        if clock.now().timestamp() > self.until:
            raise RunFailed(
                f"expected each batch to take at most {FACTOR} times as long as planned, but the run goes on"
            )
        return all(seen[key].phase == Phase.EXITED for key in self.keys.values())

    def end(self) -> None:
        """End all processes."""
        end_all(self.engine, list(self.keys.values()))


def _publish(path: Path, text: str) -> None:
    """Write a file that processes read; it is whole as soon as it is there."""
    aside = path.with_name(f".{path.name}")
    aside.write_text(text)
    aside.chmod(0o644)
    aside.rename(path)


def _has_failed(seen: Seen) -> bool:
    return seen.phase == Phase.LOST or (seen.phase == Phase.EXITED and seen.code != 0)


def _read(written: Path, names: Sequence[str], begun: Sequence[float], clients: int) -> list[Task]:
    """Return all measured tasks; raises RunFailed if a process wrote something else."""
    tasks = []
    for name in names:
        try:
            lines = text_of(written / f"tasks-{name}.jsonl", most=MOST_TASKS_BYTES).splitlines()
            tasks += [_task(json.loads(line), begun, clients) for line in lines]
        except (OSError, ValueError, LookupError, TypeError, ArithmeticError) as error:
            raise RunFailed(f"{name}: expected the measured times of its tasks, got: {error}") from None
    return sorted(tasks, key=lambda task: (task.batch, task.start_s))


def _task(row: Json, begun: Sequence[float], clients: int) -> Task:
    batch, client = int(row["batch"]), int(row["client"])
    if not (0 <= batch < len(begun) and 0 <= client < clients and row["kind"] in (*PARTS, *PASSES)):
        raise ValueError(f"a task of no batch, client or kind of this run: {shown(row)}")
    loss = None if row.get("loss") is None else float(row["loss"])
    start_s, end_s = (float(row[name]) - begun[batch] for name in ("start", "end"))
    if not all(math.isfinite(number) for number in (start_s, end_s, loss or 0.0)):
        raise ValueError(f"a number that is not finite: {shown(row)}")
    if (loss is None) == (row["kind"] == LOSSES):
        raise ValueError(f"a loss of another task than {LOSSES}, or none of that: {shown(row)}")
    part = int(row["part"]) if row["kind"] in PASSES else 0
    return Task(batch, client, row["kind"], part, start_s, end_s, loss)
