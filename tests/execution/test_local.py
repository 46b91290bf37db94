"""What the engine `local` promises beyond what every engine does."""

import builtins
import errno
import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from execution.engines import local, shim
from execution.engines.base import Confinement, Phase
from execution.engines.local import LocalEngine
from tests.conftest import missing
from tests.execution.benches import Bench
from tests.execution.conftest import SERVERS
from tests.execution.conftest import local as make
from tests.execution.leftovers import adopted
from tests.processes import ROOT, wait_until

LIVE = 1000
LAUNCH = """
import os, sys, time
from pathlib import Path
from execution.engines.base import Start
from execution.engines.local import LocalEngine
engine = LocalEngine(Path(sys.argv[1]), ["edge-1"])
start = Start("one", "edge-1", ("/bin/sh", "-c", "echo ready; sleep 0.6; exit 9"), {}, Path("/"), time.time() + 60, 1.0)
engine.launch(start)
os.kill(os.getpid(), 9)
"""


@pytest.mark.slow
def test_a_process_lives_on_when_its_executor_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LAUNCH, str(tmp_path / "root")]
    assert subprocess.run(command, cwd=ROOT).returncode == -9
    with adopted():
        bench = Bench(make, tmp_path / "root", tmp_path)
        bench.ready("one")
        assert bench.seen("one").phase == Phase.RUNNING
        assert bench.ended("one").code == 9
        bench.assert_nothing_is_left()


@pytest.mark.slow
def test_it_enters_its_control_groups_and_its_network_first(tmp_path: Path) -> None:
    group = tmp_path / "group"
    group.mkdir()
    (group / "cgroup.procs").write_text("")
    with adopted():
        bench = Bench(make, tmp_path / "root", tmp_path)
        bench.shell("one", f"cat '{group}/cgroup.procs'", confinement=Confinement(groups=(group,)))
        bench.shell("two", "echo", confinement=Confinement(groups=(tmp_path / "missing",)))
        bench.shell("three", "echo", confinement=Confinement(network=tmp_path / "none"))
        assert (bench.ended("one").code, bench.output("one")) == (0, b"0")  # which means the process that writes it
        assert (bench.ended("two").code, "missing" in bench.seen("two").reason) == (126, True)
        assert (bench.ended("three").code, "none" in bench.seen("three").reason) == (126, True)
        bench.assert_nothing_is_left()


@pytest.mark.slow
def test_a_shim_that_died_before_it_started_anything_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with adopted():
        bench = Bench(lambda root: LocalEngine(root, SERVERS, python=("/bin/false",)), tmp_path / "root", tmp_path)
        start = bench.shell("one", "echo ready")
        assert bench.seen("one").phase == Phase.STARTING
        monkeypatch.setattr(local, "START_S", 0.0)
        wait_until(lambda: bench.seen("one").phase == Phase.LOST, what="loss", seconds=5)
        assert "did not start" in bench.seen("one").reason
        engine = make(bench.root)
        engine.launch(start)
        time.sleep(0.2)
        assert (engine.list()["one"].phase, engine.log_size("one")) == (Phase.LOST, (0, 0))


@pytest.mark.slow
def test_a_launch_whose_shim_died_may_be_repeated(tmp_path: Path) -> None:
    with adopted():
        bench = Bench(lambda root: LocalEngine(root, SERVERS, python=("/bin/false",)), tmp_path / "root", tmp_path)
        start = bench.shell("one", "exit 6")
        bench.engine = make(bench.root)
        bench.engine.launch(start)
        assert bench.ended("one").code == 6


@pytest.mark.slow
def test_killed_before_it_starts_it_never_starts(tmp_path: Path) -> None:
    with adopted():
        bench = Bench(lambda root: LocalEngine(root, SERVERS, python=("/bin/false",)), tmp_path / "root", tmp_path)
        start = bench.shell("one", "echo ready")
        bench.engine.kill("one")
        assert (bench.seen("one").phase, bench.seen("one").code) == (Phase.EXITED, 137)
        bench.engine = make(bench.root)
        bench.engine.launch(start)
        time.sleep(0.2)
        assert bench.output("one") == b""


@pytest.mark.thorough
def test_a_thousand_processes_that_run_are_listed_by_their_locks_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = LocalEngine(tmp_path, SERVERS)
    with ExitStack() as locks:
        for n in range(LIVE):
            directory = tmp_path / "live" / f"one-{n}"
            directory.mkdir()
            shim.write_aside(str(directory / shim.START), {})
            started = {"inner": shim.name_of(os.getpid()), "namespace": True, "started_s": 1.0}
            shim.write_aside(str(directory / shim.STARTED), started)
            lock = os.open(directory / shim.LOCK, os.O_RDWR | os.O_CREAT)
            locks.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_EX)
        first = engine.list()
        read = Counter[str]()
        opened = os.open
        monkeypatch.setattr(builtins, "open", lambda path, *_, **__: pytest.fail(f"{path} was read again"))
        monkeypatch.setattr(os, "open", lambda path, *rest: read.update([str(path)]) or opened(path, *rest))
        seen = engine.list()
        monkeypatch.undo()
        assert {one.phase for one in seen.values()} == {Phase.RUNNING}
        assert (len(seen), seen) == (LIVE, first)
    assert read == {f"{tmp_path}/live/one-{n}/{shim.LOCK}": 1 for n in range(LIVE)}


@pytest.mark.slow
@pytest.mark.parametrize("code", [0, 5])
def test_a_program_that_fills_the_disk_has_its_own_exit_code(tmp_path: Path, code: int) -> None:
    if os.geteuid() != 0:
        missing("right to mount a small disk", install="run the tests as root")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", tmp_path], check=True)
    try:
        with adopted():
            bench = Bench(make, tmp_path / "root", tmp_path)
            bench.shell("one", f"cat /dev/zero > '{tmp_path}/full'; exit {code}")
            seen = bench.ended("one")
            assert os.statvfs(tmp_path).f_bavail == 0
            assert (seen.phase, seen.code, seen.reason) == (Phase.EXITED, code, "")
            bench.assert_nothing_is_left()
    finally:
        subprocess.run(["umount", "--lazy", tmp_path], check=True)


def full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_launch_on_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with adopted():
        bench = Bench(make, tmp_path / "root", tmp_path)
        with monkeypatch.context() as full:
            full.setattr(json, "dump", full_disk)  # the file is there, and the disk does not take its content
            with pytest.raises(OSError, match="No space left"):
                bench.shell("one", "echo ready")
        assert list((tmp_path / "root" / "live").iterdir()) == []
        bench.shell("one", "echo ready")
        bench.ready("one")
        bench.ended("one")
        bench.assert_nothing_is_left()


def test_an_engine_that_cannot_be_made_on_a_full_disk_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        full.setattr(shutil, "copyfile", full_disk)
        with pytest.raises(OSError, match="No space left"):
            LocalEngine(tmp_path, SERVERS)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ended", "live"]


def test_half_an_exit_file_is_a_lost_process(tmp_path: Path) -> None:
    engine = LocalEngine(tmp_path, SERVERS)
    (tmp_path / "live" / "one").mkdir()
    started = {"inner": shim.name_of(1) | {"boot": "another"}, "started_s": 1.0}
    (tmp_path / "live" / "one" / shim.STARTED).write_text(json.dumps(started))
    (tmp_path / "live" / "one" / shim.EXIT).write_text('{"code": 0, "rea')
    assert engine.list()["one"].phase == Phase.LOST
