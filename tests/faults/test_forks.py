"""Processes that are forked from one that has imported everything behave as those that start from nothing."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from tests.forks import Child, libraries, project
from tests.processes import Process, python_env

pytestmark = pytest.mark.slow

IMPORTED = """
import os, sys
print(os.environ["SHADOWPRICE_VAR"], "numba" in sys.modules, "config.settings" in sys.modules, hasattr(sys, "left"))
sys.left = 1
"""
SHOW = """
import os, sys
print(sys.argv, sys.executable, __name__, os.getcwd(), os.getpgrp() == os.getsid(0) == os.getpid())
print(sorted(os.environ.items()), sorted(os.listdir("/proc/self/fd")))
print("an error", file=sys.stderr)
"""
ENDS = (
    "print('done')",
    "raise SystemExit(3)",
    "raise SystemExit('in words')",
    "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "raise KeyboardInterrupt",
    "import atexit; atexit.register(print, 'at the end'); raise ValueError('no number')",
    "import threading, time; threading.Thread(target=lambda: (time.sleep(0.3), print('a thread'))).start()",
)
SLEEP = "import time; print('sleeps', flush=True); time.sleep(60)"


def begin(command: list[str], *, env: dict[str, str], out: IO[bytes], fork: bool) -> Child | subprocess.Popen[bytes]:
    """The same command in a forked process, and in a new one."""
    if fork:
        return libraries().start(command, env=env, out=out.fileno(), err=out.fileno())
    return subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)


def ended(command: list[str], tmp_path: Path, *, fork: bool) -> tuple[int, list[str]]:
    """The exit status, and what was printed but for the lines of calls in a traceback."""
    with (tmp_path / f"out-{fork}").open("w+b") as out:
        status = begin(command, env=python_env(tmp_path), out=out, fork=fork).wait(60)
        out.seek(0)
        return status, [line for line in out.read().decode().splitlines() if not line.startswith("  ")]


def test_a_child_begins_with_what_is_imported_and_leaves_nothing_to_the_next(tmp_path: Path) -> None:
    env = python_env(tmp_path)
    for parent, has_settings in ((libraries(), False), (project(env), True)):
        found = [parent.run(["python", "-c", IMPORTED], env=env, seconds=60) for _ in range(2)]
        assert found == [f"{tmp_path} True {has_settings} False\n"] * 2


def test_a_child_has_the_arguments_environment_files_and_session_of_a_new_process(tmp_path: Path) -> None:
    (tmp_path / "shown.py").write_text(SHOW)
    for words in (["-c", SHOW, "a", "--b"], [str(tmp_path / "shown.py"), "a", "--b"]):
        assert ended([sys.executable, *words], tmp_path, fork=True) == ended(
            [sys.executable, *words], tmp_path, fork=False
        )


@pytest.mark.parametrize("code", ENDS)
def test_a_child_ends_as_a_new_process_does(code: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", code]
    assert ended(command, tmp_path, fork=True) == ended(command, tmp_path, fork=False)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_a_signal_ends_a_child(number: signal.Signals, tmp_path: Path) -> None:
    env = python_env(tmp_path)
    process = Process(["python", "-c", SLEEP], log=tmp_path / "log", env=env, parent=libraries())
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            process.popen.wait(0.05)
        assert process.alive
        process.signal_group(number)
        assert process.popen.wait(60) == -number
        assert not process.alive
    finally:
        process.end()


def test_a_module_and_a_script_run_under_their_own_settings(tmp_path: Path) -> None:
    here, there = (python_env(tmp_path / name) for name in ("here", "there"))
    code = "from django.conf import settings; print(settings.VAR_DIR)"
    command = ["python", "manage.py", "shell", "--no-imports", "-c", code]
    assert libraries().run(command, env=here, seconds=60) == f"{tmp_path / 'here'}\n"
    assert project(there).run(command, env=there, seconds=60) == f"{tmp_path / 'there'}\n"
    assert "Usage: celery" in libraries().run(["celery", "--help"], env=here, seconds=60)
    assert libraries().run(["python", "-m", "json.tool", "--help"], env=here, seconds=60).startswith("usage: ")


def test_a_variable_that_python_reads_when_it_starts_is_that_of_the_child(tmp_path: Path) -> None:
    env = python_env(tmp_path, PYTHONHASHSEED="7")
    command = [sys.executable, "-c", "print(hash('a word'))"]
    expected = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    assert project(env).run(command, env=env, seconds=60) == expected


def test_a_command_that_fails_or_takes_too_long_is_an_error_with_what_it_printed(tmp_path: Path) -> None:
    env = python_env(tmp_path)
    with pytest.raises(AssertionError, match=r"a word(.|\n)*ValueError: no number"):
        libraries().run(["python", "-c", "print('a word'); raise ValueError('no number')"], env=env, seconds=60)
    with pytest.raises(AssertionError, match=r"-9(.|\n)*sleeps"):
        libraries().run(["python", "-c", SLEEP], env=env, seconds=1)
    assert libraries().run(["python", "-c", "print('goes on')"], env=env, seconds=60) == "goes on\n"
