"""The demo's markets whose jobs train on this machine: how they execute, their program, and the executor."""

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cluster.models import Cluster
from demo.clusters.this_machine import WORKER_STEP_S
from execution.executor import Executor, engine_of
from execution.models import Execution, Program

PROGRAM: Final = "train"
BATCH: Final = 96
"""Samples of a step."""
STOP_S: Final = 10.0


def let_execute(cluster: Cluster, *, root: Path) -> None:
    """Let the jobs of a cluster run on this machine, with the example trainer as their program."""
    # If the demo is started as root, so are its trainings: they are the example of this project and nothing else.
    Execution.objects.get_or_create(cluster=cluster, defaults={"grace_s": 1.0, "allow_root": True, "runs_plans": True})
    command = [sys.executable, str(root / "examples" / "train.py"), "--batch", str(BATCH), "--hidden", "32"]
    arguments = [*command, "--sample-s", str(WORKER_STEP_S / BATCH), "--checkpoint-every", "5", "--rate", "0.1"]
    program = {"arguments": arguments, "working_directory": str(root), "environment": {"OMP_NUM_THREADS": "1"}}
    Program.objects.update_or_create(cluster=cluster, name=PROGRAM, defaults=program)


@contextmanager
def executor(clusters: Sequence[Cluster], *, root: Path) -> Iterator[None]:
    """Run `manage.py execute` during the block, if there are clusters that execute; afterwards nothing of it runs."""
    if not clusters:
        yield
        return
    # In a session of its own: Ctrl-C reaches this process alone, which then ends the child in good order.
    child = subprocess.Popen([sys.executable, "manage.py", "execute", "--quiet"], cwd=root, start_new_session=True)
    try:
        yield
    finally:
        child.terminate()
        try:
            child.wait(STOP_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        stop_all(clusters)


def stop_all(clusters: Sequence[Cluster]) -> None:
    """Stop what runs, with checkpoints from which a later demo goes on."""
    executions = Execution.objects.select_related("cluster").filter(cluster__in=clusters)
    engines = [engine_of(execution) for execution in executions]
    last = Executor("end of the demo", engine_of)
    executions.update(is_on=False)
    deadline = time.monotonic() + STOP_S
    while (last.once() is False or any(engine.list() for engine in engines)) and time.monotonic() < deadline:
        time.sleep(0.2)
    for engine in engines:
        for key in engine.list():
            engine.kill(key)
    executions.update(is_on=True)
    last.close()
