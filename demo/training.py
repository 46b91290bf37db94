"""The demo's market whose jobs train on this machine: how it executes, its program, and its executor."""

import subprocess
import sys
import time
from collections.abc import Iterator
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
    Execution.objects.get_or_create(cluster=cluster, defaults={"grace_s": 1.0})
    command = [sys.executable, str(root / "examples" / "train.py"), "--batch", str(BATCH), "--hidden", "32"]
    arguments = [*command, "--sample-s", str(WORKER_STEP_S / BATCH), "--checkpoint-every", "5", "--rate", "0.1"]
    program = {"arguments": arguments, "working_directory": str(root), "environment": {"OMP_NUM_THREADS": "1"}}
    Program.objects.update_or_create(cluster=cluster, name=PROGRAM, defaults=program)


@contextmanager
def executor(cluster: Cluster | None, *, root: Path) -> Iterator[None]:
    """Run `manage.py execute` during the block, if there is a cluster that executes; afterwards nothing of it runs."""
    if cluster is None:
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
        stop_all(cluster)


def stop_all(cluster: Cluster) -> None:
    """Stop what runs, with checkpoints from which a later demo goes on."""
    execution = Execution.objects.select_related("cluster").get(cluster=cluster)
    engine, last = engine_of(execution), Executor("end of the demo", engine_of)
    Execution.objects.filter(pk=execution.pk).update(is_on=False)
    deadline = time.monotonic() + STOP_S
    while (last.once() is False or engine.list()) and time.monotonic() < deadline:
        time.sleep(0.2)
    for key in engine.list():
        engine.kill(key)
    Execution.objects.filter(pk=execution.pk).update(is_on=True)
    last.close()
