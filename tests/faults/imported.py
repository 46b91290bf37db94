"""Processes of an installation that have imported all there is: each piece of work runs in a child that begins there.

Importing takes longer than most of what tests ask for. The process itself opens no connection and keeps nothing.
`python -m tests.faults.imported` reads a line of JSON for each piece of work and answers with one.
"""

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from traceback import print_exc
from typing import Any, Final

from tests.processes import ROOT

MOST: Final = 2
"""Processes that a test process keeps: those of the environments it used last."""
_kept: dict[tuple[tuple[str, str], ...], "subprocess.Popen[str]"] = {}


def run(work: Mapping[str, Any], *, env: Mapping[str, str], seconds: float) -> str:
    """What a piece of work prints in this environment, or an error that shows it.

    Either `code`, or `module` and `arguments` of its `main`.
    """
    process = _process(env)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps({**work, "seconds": seconds}) + "\n")
    process.stdin.flush()
    answer = json.loads(process.stdout.readline())
    assert answer["status"] == 0, f"{work}: {answer['status']}\n{answer['out']}"
    return str(answer["out"])


def _process(env: Mapping[str, str]) -> "subprocess.Popen[str]":
    key = tuple(sorted(env.items()))
    process = _kept.pop(key, None)
    if process is None:
        while len(_kept) >= MOST:
            _end(_kept.pop(next(iter(_kept))))
        command = [sys.executable, "-m", "tests.faults.imported"]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, env=env, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)
    _kept[key] = process
    return process


def _end(process: "subprocess.Popen[str]") -> None:
    process.communicate()  # which closes its input


@atexit.register
def _end_all() -> None:
    while _kept:
        _end(_kept.popitem()[1])


def _do(work: Mapping[str, Any]) -> None:
    signal.alarm(int(work["seconds"]))  # ends this child
    if "code" in work:
        exec(work["code"], {"__name__": "__main__"})
    else:
        import_module(work["module"]).main(work["arguments"])


def _in_a_child(work: Mapping[str, Any], out: Any) -> int:
    """Its exit status."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = 1
    try:
        with redirect_stdout(out), redirect_stderr(out):
            try:
                _do(work)
                status = 0
            except BaseException:
                print_exc()
        out.flush()
    finally:
        os._exit(status)


def main() -> None:
    """Answer each line of the input."""
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    import_module("config.urls")
    for line in sys.stdin:
        with tempfile.TemporaryFile("w+") as out:
            status = _in_a_child(json.loads(line), out)
            out.seek(0)
            print(json.dumps({"status": status, "out": out.read()}), flush=True)


if __name__ == "__main__":
    main()
