"""Plans that are run with processes: one real run, and what ends a run."""

import csv
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from django.core.management import CommandError, call_command

from execution.engines.base import EngineError
from execution.engines.local import LocalEngine
from scheduling.model.errors import InvalidField
from scheduling.split_learning.document import read_split_learning
from scheduling.split_learning.plan import Plan as CorePlan
from scheduling.split_learning.plan import largest_path_first
from studies.management.commands import run_plan
from studies.models import Plan
from studies.split_learning import plan_runs
from studies.split_learning.plan_runs import Conditions, RunFailed, Task, check_order, setting_of
from tests.conftest import missing
from tests.processes import wait_until


@pytest.fixture
def interrupted() -> CorePlan:
    """Client 1 comes while client 0 runs, and has a longer way to go: it interrupts."""
    times = {"release": [1, 3, 2], "forward": [6, 2, 3], "gap": [2, 2, 2], "backward": [3, 3, 3], "tail": [1, 9, 1]}
    document = {
        "helpers": [{"memory_gb": 9}, {"memory_gb": 9}],
        "clients": [{"demand_gb": 1}] * 3,
        **{name: [row, row] for name, row in times.items()},
    }
    plan = largest_path_first(read_split_learning(document), np.array([0, 0, 1]))
    assert plan.interruptions
    return plan


@pytest.mark.thorough
@pytest.mark.django_db
def test_a_plan_is_run_in_its_order_and_really_trains(
    done: Plan, interrupted: CorePlan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(run_plan, "core_plan", lambda row: interrupted)
    out, path = StringIO(), tmp_path / "tasks.csv"
    call_command("run_plan", done.pk, slot_seconds=0.01, batches=4, csv=path, stdout=out)
    assert b"\r" not in path.read_bytes()
    rows = list(csv.DictReader(path.read_text().splitlines()))
    pieces = sum(map(len, (*interrupted.forward, *interrupted.backward)))
    assert len(rows) == 4 * (3 * 3 + pieces)
    losses = [np.mean([float(r["loss"]) for r in rows if r["batch"] == n and r["loss"]]) for n in ("0", "3")]
    assert losses[1] < losses[0]
    table = [line.split() for line in out.getvalue().splitlines()[1:]]
    assert [float(row[1]) for row in table] == [round(interrupted.makespan * 0.01, 3)] * 4
    # Tasks take at least their slots, and the order is the plan's, so no batch is shorter than planned.
    assert all(float(row[2]) >= float(row[1]) - 0.002 for row in table)


def test_a_process_that_dies_ends_the_run_with_its_last_words(
    interrupted: CorePlan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text("import sys, time\nif sys.argv[2:] == ['client', '1']: sys.exit('no data')\ntime.sleep(60)")
    monkeypatch.setattr(plan_runs, "PROGRAM", program)
    engine = LocalEngine(tmp_path / "engine", ["local"])
    with pytest.raises(RunFailed, match=r"client-1 ended with exit code 1.*no data"):
        plan_runs.run(interrupted, engine, tmp_path / "run", Conditions(slot_s=0.01, batches=1))
    assert not engine.list()
    exits = [json.loads(path.read_text()) for path in (tmp_path / "engine/ended").glob("*/exit.json")]
    assert len(exits) == 5


def test_what_cannot_be_ended_keeps_no_other_process_running(
    interrupted: CorePlan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Failing(LocalEngine):
        def kill(self, key: str) -> None:
            super().kill(key)
            if key.endswith("client-1"):
                raise EngineError(f"{key} cannot be ended")

    program = tmp_path / "program.py"
    program.write_text("import sys, time\nif sys.argv[2:] == ['client', '1']: sys.exit('no data')\ntime.sleep(60)")
    monkeypatch.setattr(plan_runs, "PROGRAM", program)
    engine = Failing(tmp_path / "engine", ["local"])
    with pytest.raises(EngineError, match="client-1 cannot be ended"):
        plan_runs.run(interrupted, engine, tmp_path / "run", Conditions(slot_s=0.01, batches=1))
    assert not engine.list()


def test_another_order_than_the_plans_is_refused(interrupted: CorePlan) -> None:
    setting = setting_of(interrupted, 0.01, 1)
    tasks = []
    for row in setting["helpers"]:
        for n, (client, kind, part, *_) in enumerate(row):
            tasks.append(Task(0, client, kind, part, start_s=float(n), end_s=n + 1.0))
    check_order(setting, tasks)
    with pytest.raises(RunFailed, match="one pass at a time"):
        check_order(setting, [replace(tasks[0], end_s=1.5), *tasks[1:]])
    late = [replace(tasks[0], start_s=99.0, end_s=100.0), *tasks[1:]]
    with pytest.raises(RunFailed, match="helper 0, batch 0: expected the order"):
        check_order(setting, late)
    with pytest.raises(RunFailed, match="expected the order"):
        check_order(setting, tasks[1:])


def test_a_pass_without_slots_is_refused_by_name(interrupted: CorePlan) -> None:
    with pytest.raises(InvalidField, match="forward, "):
        setting_of(replace(interrupted, forward=((), *interrupted.forward[1:])), 0.01, 1)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("more", "words"),
    [({}, "plan: expected"), ({"slot_seconds": 0.0}, "--slot-seconds: expected"), ({"batches": 0}, "--batches: expe")],
)
def test_what_cannot_be_run_is_refused(more: dict[str, float], words: str) -> None:
    with pytest.raises(CommandError, match=words):
        call_command("run_plan", 10**6, **more)


@pytest.mark.django_db
def test_a_file_that_cannot_be_written_is_refused_before_the_run(done: Plan, tmp_path: Path) -> None:
    with patch.object(plan_runs, "run") as run, pytest.raises(CommandError, match="--csv: expected a file"):
        call_command("run_plan", done.pk, csv=tmp_path / "none" / "tasks.csv")
    run.assert_not_called()


@pytest.mark.django_db
def test_sigterm_ends_the_command_and_its_processes(done: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    roots: list[str] = []

    def begin(running: Any, batch: int) -> None:
        roots.append(str(running.engine.files.live))
        assert running_below(roots[0])
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)

    monkeypatch.setattr(plan_runs._Processes, "begin", begin)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as ended:
        call_command("run_plan", done.pk, slot_seconds=0.01)
    assert ended.value.code == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before
    wait_until(lambda: not running_below(roots[0]), what="the end of its processes")


def running_below(root: str) -> list[str]:
    """Command lines of processes that name this directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(path.read_text(errors="replace"))
    return [line for line in found if root in line]


WRITTEN: dict[str, tuple[Any, str]] = {
    "nothing": (None, "No such file"),
    "no JSON": ("{", "Expecting"),
    "another kind": ({"kind": "sleep"}, "no batch, client or kind"),
    "another batch": ({"batch": 7}, "no batch, client or kind"),
    "another client": ({"client": -1}, "no batch, client or kind"),
    "no number": ({"end": float("nan")}, "not finite"),
    "a large number": ({"end": 1e999}, "not finite"),
    "no loss": ({"loss": None}, "a loss of another task"),
    "a list": ([], "list"),
    "a part twice": ({"twice": True}, "expected to run gap once, got 2"),
    "a link": ("link", "symbolic link"),
    "a pipe": ("pipe", "something else"),
    "too much": ("much", "expected at most"),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_measured_times_of_another_form_fail_the_run_in_words(
    interrupted: CorePlan, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path, (what, words) = tmp_path / "tasks-client-0.jsonl", WRITTEN[name]
    good = {"batch": 0, "client": 0, "kind": "gap", "start": 5.0, "end": 6.0, "loss": 1.5}
    monkeypatch.setattr(plan_runs, "MOST_TASKS_BYTES", 1_000)
    if what == "link":
        path.symlink_to("/etc/passwd")
    elif what == "pipe":
        os.mkfifo(path)
    elif what is not None:
        line = what if isinstance(what, str) else json.dumps(good | what if isinstance(what, dict) else what)
        path.write_text("x" * 1_001 if what == "much" else f"{line}\n" * (1 + ("twice" in name)))
    setting = setting_of(interrupted, 0.01, 1) | {"clients": [{}]}

    def check() -> None:
        tasks = plan_runs._read(tmp_path, ["client-0"], [4.0], 3)
        others = [Task(0, 0, kind, 0, 0.0, 1.0) for kind in ("release", "tail")]
        plan_runs.check_parts(setting, [*tasks, *others])

    with pytest.raises(RunFailed, match=words):
        check()


@pytest.fixture
def everyones() -> Iterator[Path]:
    """A directory that every user of the system can reach: pytest's are root's alone."""
    with TemporaryDirectory() as name:
        Path(name).chmod(0o711)
        yield Path(name)


def test_processes_run_as_the_user_that_they_are_given_and_write_only_where_they_may(
    interrupted: CorePlan, everyones: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        missing("right of root to choose the user of a process", install="run the tests as root")
    program = everyones / "program.py"
    program.write_text('echo "$(id -u) reads $(cat "$1/setting.json") writes $(touch "$1/mine" 2>&1)"; exit 1')
    monkeypatch.setattr(plan_runs, "PROGRAM", program)
    monkeypatch.setattr(sys, "executable", "/bin/sh")
    engine = LocalEngine(tmp_path / "engine", ["local"])
    with pytest.raises(RunFailed, match=r"54321 reads \{.*\} writes .*Permission denied"):
        plan_runs.run(interrupted, engine, everyones / "run", Conditions(0.01, 1, user=54321))
    assert (everyones / "run/written").stat().st_uid == 54321
