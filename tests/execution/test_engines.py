"""What every engine does. The root directory of each has a space in its path."""

import json
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from execution.engines import shim
from execution.engines.base import EngineError, Limits, Phase
from tests.conftest import missing
from tests.execution.benches import LIVES, WAIT_S, Bench
from tests.processes import ROOT, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.clocked]
TRAP = "trap 'echo checkpoint; exit 143' TERM; echo ready; while :; do sleep 0.05; done"
DEAF = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
FAMILY = "setsid sleep 1000 & setsid sh -c 'trap \"\" TERM HUP; sleep 1001 & echo ready; wait' & "
"""Descendants in sessions of their own, one of which ignores signals."""


def outer(bench: Bench, key: str) -> int:
    """Process number of its shim."""
    return int(json.loads(bench.files(key)[shim.LOCK].read_text())["pid"])


def inner(bench: Bench, key: str) -> int:
    """Process number of the parent of its program."""
    return int(json.loads(bench.files(key)[shim.STARTED].read_text())["inner"]["pid"])


def program(bench: Bench, key: str) -> int:
    """Process number of its program: the first child of the inner shim."""
    pid = inner(bench, key)
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


@pytest.mark.parametrize("code", [0, 7])
def test_a_process_ends_with_its_exit_code(bench: Bench, code: int) -> None:
    before = time.time()
    bench.shell("one", f"echo out; echo error >&2; exit {code}")
    seen = bench.ended("one")
    assert (seen.phase, seen.code, seen.reason) == (Phase.EXITED, code, "")
    assert seen.started_s is not None
    assert seen.ended_s is not None
    assert before <= seen.started_s <= seen.ended_s <= time.time()
    assert bench.output("one") == b"out\nerror\n"


def test_a_process_that_a_signal_ends_has_the_code_of_a_shell(bench: Bench) -> None:
    bench.shell("one", "kill -SEGV $$")
    assert (bench.ended("one").code, bench.seen("one").reason) == (128 + signal.SIGSEGV, "")


def test_stopped_it_may_write_a_checkpoint(bench: Bench) -> None:
    bench.shell("one", TRAP)
    bench.ready("one")
    assert bench.seen("one").phase == Phase.RUNNING
    bench.engine.stop("one")
    bench.engine.stop("one")
    seen = bench.ended("one")
    assert (seen.code, seen.reason) == (143, shim.STOPPED)
    assert bench.output("one").endswith(b"checkpoint\n")


def test_stopped_all_of_it_gets_the_signal(bench: Bench) -> None:
    child = TRAP.replace("echo checkpoint", "echo child")
    bench.shell("one", f"trap 'wait; exit 143' TERM; setsid sh -c \"{child}\" & wait")
    bench.ready("one")
    bench.engine.stop("one")
    assert bench.ended("one").code == 143
    assert bench.output("one").endswith(b"child\n")


def test_deaf_to_the_signal_it_is_killed_when_its_grace_is_over(bench: Bench) -> None:
    bench.shell("one", DEAF, grace_s=0.5)
    bench.ready("one")
    bench.engine.stop("one")
    time.sleep(0.3)
    assert bench.seen("one").phase == Phase.RUNNING
    seen = bench.ended("one")
    assert (seen.code, seen.reason) == (137, shim.STOPPED_LATE)


def test_it_is_killed_when_its_machines_are_no_longer_held(bench: Bench) -> None:
    until = bench.shell("one", DEAF, until=time.time() + 1.5, grace_s=0.5).until
    seen = bench.ended("one")
    assert (seen.code, seen.reason) == (137, shim.TIME_OVER)
    assert seen.ended_s is not None
    assert until <= seen.ended_s < until + 1


def test_it_is_stopped_its_grace_before_its_machines_are_no_longer_held(bench: Bench) -> None:
    until = bench.shell(
        "one", "trap 'exit 143' TERM; echo ready; while :; do sleep 0.05; done", until=time.time() + 6, grace_s=3.0
    )
    seen = bench.ended("one")
    assert (seen.code, seen.reason) == (143, shim.STOPPED)
    assert seen.ended_s is not None
    assert seen.ended_s < until.until


def test_what_was_killed_before_it_was_launched_never_starts(bench: Bench) -> None:
    bench.engine.kill("one")
    bench.shell("one", "echo ready")
    assert "one" not in bench.engine.list()
    assert bench.output("one") == b""


def test_its_machines_may_be_held_longer_and_shorter(bench: Bench) -> None:
    until = bench.shell("one", DEAF, until=time.time() + 1.5, grace_s=0.5).until
    bench.engine.hold("one", until + 60)
    time.sleep(until + 0.5 - time.time())
    assert bench.seen("one").phase == Phase.RUNNING
    bench.engine.hold("one", time.time())
    assert bench.ended("one").reason == shim.TIME_OVER


def test_it_does_not_start_after_that_time(bench: Bench) -> None:
    bench.shell("one", "echo ready", until=time.time() - 1)
    seen = bench.ended("one")
    assert (seen.phase, seen.code, seen.started_s, seen.reason) == (Phase.EXITED, 137, None, shim.TIME_OVER)
    assert bench.output("one") == b""


def test_launched_twice_it_starts_once(bench: Bench) -> None:
    for _ in range(3):
        bench.shell("one", "echo start >> starts; sleep 0.5")
    bench.ended("one")
    bench.shell("one", "echo start >> starts")
    bench.make(bench.root).launch(bench.shell("two", "echo start >> starts"))
    bench.ended("two")
    bench.engine.retire("one")
    bench.shell("one", "echo start >> starts")
    time.sleep(0.3)
    assert (bench.work / "starts").read_text() == "start\n" * 2
    assert bench.engine.list().keys() == {"two"}


def test_a_second_shim_does_nothing(bench: Bench) -> None:
    bench.shell("one", "echo ready; sleep 1000")
    bench.ready("one")
    command = [sys.executable, "-m", "execution.engines.shim", str(bench.root / "live" / "one")]
    for _ in range(2):
        assert os.spawnve(os.P_WAIT, sys.executable, command, {"PYTHONPATH": str(ROOT)}) == 0
        bench.engine.kill("one")
    assert bench.output("one") == b"ready\n"


def test_an_unknown_server_is_refused(bench: Bench) -> None:
    with pytest.raises(EngineError, match="edge-7"):
        bench.shell("one", "echo", server="edge-7")
    assert bench.engine.list() == {}
    bench.shell("one", "exit 3")
    assert bench.ended("one").code == 3


@pytest.mark.parametrize("key", ["", "a/b", "..", "a b", ".a", "ä"])
def test_a_key_that_is_no_name_of_a_file_is_refused(bench: Bench, key: str) -> None:
    with pytest.raises(EngineError, match="expected letters, digits and dashes"):
        bench.shell(key, "echo")


def test_a_process_that_nobody_knows_is_left_alone(bench: Bench) -> None:
    bench.engine.stop("one")
    bench.engine.kill("one")
    bench.engine.hold("one", 0.0)
    bench.engine.retire("one")
    assert (bench.engine.log("one", 0, 10), bench.engine.log_size("one")) == (b"", (0, 0))
    assert bench.engine.list() == {}


def test_a_program_that_does_not_exist_is_named(bench: Bench) -> None:
    bench.start("one", "/no/such program")
    seen = bench.ended("one")
    assert (seen.phase, seen.code) == (Phase.EXITED, 127)
    assert "'/no/such program'" in seen.reason
    bench.shell("two", "echo", working_directory=bench.work / "missing")
    assert (bench.ended("two").code, "missing" in bench.seen("two").reason) == (127, True)
    bench.start("three", str(bench.work))
    assert (bench.ended("three").code, "denied" in bench.seen("three").reason) == (126, True)


def test_a_program_whose_name_is_very_long_is_said_not_to_exist(bench: Bench) -> None:
    for key, name in (("one", "/" + "\N{GRINNING FACE}" * 1000), ("two", "no/" * 330)):
        bench.start(key, name)
        seen = bench.ended(key)
        assert seen.code in (shim.NOT_FOUND, shim.NOT_RUN)
        assert seen.reason.startswith("expected "), seen.reason


def test_it_gets_what_it_was_given_and_nothing_else(bench: Bench) -> None:
    given = {"RANK": "0", "a": "x y\n", "HOME": "", "Ä": "ü$HOME'\""}
    bench.start("one", "/usr/bin/env", "-0", environment=given)
    bench.ended("one")
    assert sorted(bench.output("one").decode().split("\0")[:-1]) == sorted(f"{k}={v}" for k, v in given.items())
    bench.start("two", "/bin/sh", "-c", "printf '%s|' \"$@\"; pwd; ls /proc/self/fd", "sh", "x y", "", "$HOME; 'ä'")
    bench.ended("two")
    said, *files = bench.output("two").decode().splitlines()
    assert said == f"x y||$HOME; 'ä'|{bench.work}"
    assert files == ["0", "1", "2", "3"]  # 3 is what reads the directory


def test_it_has_a_session_and_no_more_rights(bench: Bench) -> None:
    bench.shell("one", "grep NoNewPrivs /proc/self/status; cut -d' ' -f5,6 /proc/$$/stat; echo $$; cat", grace_s=0)
    bench.ended("one")
    rights, groups, pid = bench.output("one").decode().splitlines()
    assert (rights.split()[1], groups.split()) == ("1", [pid, pid])


def test_it_runs_as_its_user_within_its_limits(bench: Bench) -> None:
    if os.geteuid() != 0:
        missing("right of root to use users and namespaces", install="run the tests as root")
    bench.work.chmod(0o777)
    limits = Limits(memory_mb=300, open_files=77, file_mb=2, processes=99, niceness=7)
    said = "grep -E '^Max (file size|processes)' /proc/self/limits"
    script = f"id -u; id -g; id -G; ulimit -v; ulimit -n; ulimit -c; umask; {said}; cat {shim.SESSION}; nice"
    bench.shell("one", script, user=4321, limits=limits)
    assert bench.ended("one").code == 0, bench.seen("one")
    lines = bench.output("one").decode().split()
    assert (lines[10:12], lines[15:17]) == (["2000000"] * 2, ["99"] * 2)
    assert lines[-1] == str(min(19, os.nice(0) + 7))
    if os.path.exists(shim.SESSION):
        assert lines[-3:-1] == ["nice", "7"]
    assert lines[:7] == ["4321", "4321", "4321", str(300 * 10**6 // 1024), "77", "0", "0077"]
    script = f"cat '{bench.root}/live/two/start.json' || kill -KILL {os.getpid()} {outer(bench, 'one')} || exit 5"
    bench.shell("two", script, user=4321)
    assert bench.ended("two").code == 5


def test_what_it_left_behind_ends_with_it(bench: Bench) -> None:
    bench.shell("one", FAMILY + "while ! [ -e go ]; do sleep 0.01; done; exit 4")
    bench.ready("one")
    assert len(bench.left()) >= 5
    (bench.work / "go").touch()
    assert bench.ended("one").code == 4
    bench.assert_nothing_is_left()


def test_killed_all_of_it_is_gone(bench: Bench) -> None:
    bench.shell("one", FAMILY + "wait")
    bench.ready("one")
    bench.engine.kill("one")
    bench.engine.kill("one")
    seen = bench.ended("one")
    assert (seen.phase, seen.code, seen.reason) == (Phase.EXITED, 137, shim.KILLED_BY_ENGINE)
    bench.assert_nothing_is_left()


def test_without_its_shim_all_of_it_is_gone_and_lost(bench: Bench) -> None:
    bench.shell("one", FAMILY + "wait")
    bench.ready("one")
    os.kill(outer(bench, "one"), signal.SIGKILL)
    seen = bench.ended("one")
    assert (seen.phase, seen.code) == (Phase.LOST, None)
    assert seen.reason
    bench.assert_nothing_is_left()


def test_without_its_inner_shim_all_of_it_is_gone(bench: Bench) -> None:
    bench.shell("one", FAMILY + "wait")
    bench.ready("one")
    os.kill(inner(bench, "one"), signal.SIGKILL)
    seen = bench.ended("one")
    assert (seen.phase, seen.code, seen.reason) == (Phase.EXITED, 137, shim.INIT_GONE)
    bench.assert_nothing_is_left()


@pytest.mark.parametrize("frozen", [[program], [inner], [outer], [outer, inner, program]])
def test_frozen_it_can_be_killed(bench: Bench, frozen: list) -> None:  # type: ignore[type-arg]
    bench.shell("one", FAMILY + "wait")
    bench.ready("one")
    for which in frozen:
        os.kill(which(bench, "one"), signal.SIGSTOP)
    bench.engine.kill("one")
    assert bench.ended("one").phase in (Phase.EXITED, Phase.LOST)
    bench.assert_nothing_is_left()


def test_with_a_frozen_shim_it_ends_when_its_machines_are_no_longer_held(bench: Bench) -> None:
    bench.shell("one", FAMILY + "wait")
    bench.ready("one")
    os.kill(outer(bench, "one"), signal.SIGSTOP)
    names = [shim.name_of(which(bench, "one")) for which in (inner, program)]
    bench.engine.hold("one", time.time())
    wait_until(lambda: not any(map(shim.lives, names)), what="end of the program", seconds=WAIT_S, every=0.02)
    os.kill(outer(bench, "one"), signal.SIGCONT)
    assert (bench.ended("one").code, bench.seen("one").reason) == (137, shim.TIME_OVER)
    bench.assert_nothing_is_left()


def test_frozen_it_can_be_stopped(bench: Bench) -> None:
    bench.shell("one", TRAP)
    bench.ready("one")
    os.kill(program(bench, "one"), signal.SIGSTOP)
    bench.engine.stop("one")
    assert bench.ended("one").code == 143


def test_of_its_output_the_newest_is_kept(bench: Bench) -> None:
    code = "import os\nfor n in range(20000): os.write(1, b'%09d\\n' % n)"
    bench.start("one", sys.executable, "-I", "-S", "-c", code, limits=Limits(log_bytes=10_000))
    bench.ended("one")
    begin, end = bench.engine.log_size("one")
    assert end == 200_000
    assert 10_000 <= end - begin <= 12_500
    kept = bench.output("one")
    assert kept == b"".join(b"%09d\n" % n for n in range(20000))[begin:]
    assert bench.engine.log("one", begin + 15, 10) == kept[15:25]
    assert bench.engine.log("one", 0, 10) == kept[:10]
    assert bench.engine.log("one", end - 5, 10) == kept[-5:]
    assert bench.engine.log("one", end, 10) == bench.engine.log("one", end + 10, 10) == b""
    assert sum(path.stat().st_size for name, path in bench.files("one").items() if name.startswith(shim.LOG)) < 12_501


def test_much_output_is_kept_and_can_be_followed(bench: Bench) -> None:
    bench.start("one", sys.executable, "-c", "import sys; sys.stdout.write('0123456789' * 3_000_000)", environment={})
    read = b""
    while bench.seen("one").phase in LIVES:
        read += bench.engine.log("one", len(read), 1_000_000)
        assert bench.engine.log_size("one")[0] >= 0
        if bench.engine.log_size("one")[0] > len(read):
            break
    bench.ended("one")
    begin, end = bench.engine.log_size("one")
    assert end == 30_000_000
    assert 10_000_000 <= end - begin <= 12_500_000
    assert bench.output("one").endswith(b"0123456789")


def test_its_output_is_there_while_it_runs(bench: Bench) -> None:
    bench.shell("one", "echo ready; cat > /dev/null; sleep 1000")
    assert bench.ready("one") == b"ready\n"
    assert bench.seen("one").phase == Phase.RUNNING
    assert bench.engine.log_size("one") == (0, 6)


def test_retired_it_is_listed_no_longer(bench: Bench) -> None:
    bench.shell("one", "echo ready; sleep 1000")
    bench.ready("one")
    bench.engine.retire("one")
    assert bench.seen("one").phase == Phase.RUNNING
    bench.engine.kill("one")
    bench.ended("one")
    bench.engine.retire("one")
    bench.engine.retire("one")
    assert bench.engine.list() == {}
    assert bench.output("one") == b"ready\n"
    assert bench.make(bench.root).log_size("one") == (0, 6)


def test_a_second_executor_sees_and_ends_all(bench: Bench) -> None:
    bench.shell("one", TRAP)
    bench.shell("two", "exit 3")
    bench.ready("one")
    bench.ended("two")
    bench.engine = bench.make(bench.root)
    assert bench.seen("one").phase == Phase.RUNNING
    assert bench.seen("two").code == 3
    bench.engine.stop("one")
    assert bench.ended("one").code == 143


def test_stopped_before_it_starts_it_never_starts(bench: Bench) -> None:
    bench.engine.launch(start := bench.shell("zero", "exit 0"))
    bench.ended("zero")
    assert bench.make(bench.root).files.create(  # type: ignore[attr-defined]
        type(start)(**vars(start) | {"key": "one", "arguments": ("/bin/sh", "-c", "echo ready")})
    )
    assert bench.seen("one").phase == Phase.STARTING
    bench.engine.stop("one")
    bench.shell("one", "echo ready")
    assert (bench.ended("one").code, bench.seen("one").reason, bench.output("one")) == (137, shim.STOPPED, b"")


def test_a_shim_that_is_killed_at_any_time_leaves_nothing(bench: Bench) -> None:
    keys = [f"one-{n}" for n in range(16)]
    for key in keys:
        bench.shell(key, FAMILY + "wait")
    born: dict[str, float] = {}

    def killed() -> bool:
        now = time.monotonic()
        for n, key in enumerate(keys):
            lock = bench.root / "live" / key / shim.LOCK
            if lock.exists() and lock.stat().st_size > 0 and now >= born.setdefault(key, now) + n * 0.006:
                with suppress(ProcessLookupError):
                    os.kill(outer(bench, key), signal.SIGKILL)
                lock.rename(lock.with_suffix(".killed"))
        return not any((bench.root / "live" / key / shim.LOCK).exists() for key in keys) and len(born) == len(keys)

    wait_until(killed, what="death of all shims", seconds=WAIT_S, every=0.001)
    bench.assert_nothing_is_left()
    wait_until(lambda: not {bench.seen(key).phase for key in keys} & {Phase.RUNNING}, what="loss", seconds=WAIT_S)
    assert {bench.seen(key).phase for key in keys} <= {Phase.LOST, Phase.STARTING}
