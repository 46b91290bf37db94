"""What the engine `slurm` does when Slurm does not, in a Slurm of its own."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from execution.engines import shim, slurm, small_slurm
from execution.engines.base import EngineError, Phase
from execution.engines.slurm import SlurmEngine
from tests.conftest import missing
from tests.execution.benches import LIVES, Bench
from tests.execution.leftovers import adopted
from tests.execution.test_engines import TRAP
from tests.processes import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def configuration(tmp_path: Path) -> Iterator[Path]:
    if small_slurm.lacking():
        missing(f"Slurm ({small_slurm.lacking()})", install=f"{small_slurm.INSTALL}, as root")
    with small_slurm.running(tmp_path / "slurm") as found:
        yield found


@pytest.fixture
def bench(configuration: Path, tmp_path: Path) -> Iterator[Bench]:
    with adopted():
        bench = Bench(partial(SlurmEngine, configuration=configuration, prefix="test-"), tmp_path / "engine", tmp_path)
        yield bench
        for key, seen in bench.engine.list().items():
            if seen.phase in LIVES:
                bench.engine.kill(key)
        # What watches a job waits for ever for a daemon that was killed; shims end by themselves.
        wait_until(lambda: all(map(watches_a_job, bench.left())), what="end of the shims", seconds=5, every=0.02)
        for pid in bench.left():
            os.kill(pid, signal.SIGKILL)
        bench.assert_nothing_is_left()


def watches_a_job(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text() == "slurmstepd\n"
    except OSError:  # it has ended
        return False


def ask(configuration: Path, *command: str) -> str:
    environment = {"PATH": small_slurm.SYSTEM, "SLURM_CONF": str(configuration)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def daemon(configuration: Path, name: str) -> int:
    return int((configuration.parent / f"{name}.pid").read_text())


def test_processes_run_on_stop_and_end_while_no_daemon_of_slurm_lives(configuration: Path, bench: Bench) -> None:
    bench.shell("one", TRAP)
    bench.shell("two", "trap '' TERM; echo ready; while :; do sleep 0.05; done")
    bench.ready("one")
    bench.ready("two")
    for name in ("slurmctld", "edge-1"):
        os.kill(daemon(configuration, name), signal.SIGKILL)
    with pytest.raises(EngineError, match="three on edge-1: expected sbatch to "):
        bench.shell("three", "echo")
    assert {key: seen.phase for key, seen in bench.engine.list().items()} == dict.fromkeys(
        ("one", "two"), Phase.RUNNING
    )
    bench.engine.stop("one")
    assert bench.ended("one").code == 143
    bench.engine.kill("two")
    assert bench.ended("two").reason == shim.KILLED_BY_ENGINE


def test_what_slurm_cancels_may_write_a_checkpoint(configuration: Path, bench: Bench) -> None:
    bench.shell("one", TRAP)
    bench.ready("one")
    ask(configuration, "scancel", "--name=test-one")
    assert bench.ended("one").code == 143
    # Slurm signals the program and its shim in any order: a program may end before its shim has seen a signal.
    assert bench.seen("one").reason in (shim.STOPPED, "")
    assert bench.output("one").endswith(b"checkpoint\n")


def test_what_waits_for_its_server_can_be_killed(configuration: Path, bench: Bench) -> None:
    ask(configuration, "scontrol", "update", "NodeName=edge-2", "State=DRAIN", "Reason=test")
    bench.shell("one", "echo ready", server="edge-2")
    bench.shell("one", "echo ready", server="edge-2")
    time.sleep(1)
    assert bench.seen("one").phase == Phase.STARTING
    assert ask(configuration, "squeue", "--noheader", "--format=%j").split() == ["test-one"]
    bench.engine.kill("one")
    assert (bench.seen("one").code, bench.seen("one").reason) == (137, shim.KILLED_BY_ENGINE)
    assert ask(configuration, "squeue", "--noheader", "--format=%j") == ""


def test_a_job_that_slurm_forgot_is_lost(configuration: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "START_S", 0.0)
    ask(configuration, "scontrol", "update", "NodeName=edge-2", "State=DRAIN", "Reason=test")
    bench.shell("one", "echo ready", server="edge-2")
    assert bench.seen("one").phase == Phase.STARTING
    ask(configuration, "scancel", "--name=test-one")
    assert bench.ended("one").phase == Phase.LOST
    assert bench.seen("one").reason == "Slurm does not know its job"
