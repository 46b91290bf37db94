"""Python processes of tests that begin with everything imported: each is forked from a process that has imported it.

Importing takes two seconds of a core, more than most of what tests ask of a process. The parent `libraries()` has
imported what reads no settings; where Python reads other variables when it starts, another one has. `project(env)`
begins there, and imports the rest under the settings of an environment: once for all processes of an installation. A
forked child has a session, an environment and files of its own, and runs its command to its end as a new interpreter
does.

A parent answers requests on the socket that is its standard input (`main`).
"""

import atexit
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from selectors import EVENT_READ, PollSelector
from types import ModuleType
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
SETTINGS: Final = "DJANGO_SETTINGS_MODULE"
UNBUFFERED: Final = {"PYTHONUNBUFFERED": "1"}
LIBRARIES: Final = (
    "celery.apps.beat",
    "celery.apps.worker",
    "celery.bin.celery",
    "celery.concurrency.prefork",
    "celery.concurrency.thread",
    "django.contrib.admin",
    "django.core.management",
    "django.db.backends.postgresql.base",
    "django.db.backends.sqlite3.base",
    "django.forms",
    "django.template.defaulttags",
    "drf_spectacular.utils",
    "kombu.transport.redis",
    "requests",
    "rest_framework.serializers",
    "scheduling.kernels",
    "scheduling.registry",
    "uvicorn.main",
)
"""These and all that they import: none reads settings."""
PROJECT: Final = ("config.urls", "config.asgi", "config.celery")
LARGEST: Final = 200_000
"""Bytes of a request."""
MOST: Final = 2
"""Environments that have a parent at a time: those that were used last."""
_status: int | None = None
"""The exit status of a child, once its work is done."""
_libraries: dict[tuple[tuple[str, str], ...], "Parent"] = {}
_projects: dict[tuple[tuple[str, str], ...], "Parent"] = {}


class Child:
    """A process that a parent has forked; as `subprocess.Popen`."""

    def __init__(self, command: Sequence[str], status: socket.socket) -> None:
        self.args = list(command)
        self.returncode: int | None = None
        self._status = status
        self.pid = self._read()

    def _read(self) -> int:
        """What the parent says next: the number of the process, then its exit status."""
        row = self._status.recv(32)
        assert row, f"{self.args}: the process that forks has ended"
        return int(row)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status, negative for a signal; raises TimeoutExpired."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            self.returncode = self._read()
            self._status.close()
        return self.returncode

    def poll(self) -> int | None:
        """Return the exit status, None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)


class Parent:
    """A process that runs no thread of Python; its children begin with all that it has imported."""

    def __init__(self, env: Mapping[str, str], *, project: bool = False, of: "Parent | None" = None) -> None:
        self.env = dict(env)
        command = [sys.executable, "-c", f"from tests import forks; forks.main(project={project})"]
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process: Child | subprocess.Popen[bytes]
        with theirs:
            if of is None:
                self._process = subprocess.Popen(
                    command, env=env, cwd=ROOT, stdin=theirs.fileno(), start_new_session=True
                )
            else:
                self._process = of.start(command, env=env, stdin=theirs.fileno())

    def start(
        self, command: Sequence[str], *, env: Mapping[str, str], stdin: int | None = None, out: int = 1, err: int = 2
    ) -> Child:
        """Begin a command of Python with these files, in the project's folder."""
        assert _of_python(env) == _of_python(self.env), "Python has read these variables when it started"
        status, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request = json.dumps([list(command), dict(env)]).encode()
        assert len(request) < LARGEST, f"a request of {len(request)} bytes"
        with theirs, open(os.devnull, "rb") as nothing:
            files = [theirs.fileno(), nothing.fileno() if stdin is None else stdin, out, err]
            socket.send_fds(self._socket, [request], files)
        return Child(command, status)

    def complete(
        self, command: Sequence[str], *, env: Mapping[str, str], seconds: float
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, or kill it after these seconds; its status, and what it printed."""
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            child = self.start(command, env=env, out=out.fileno(), err=err.fileno())
            try:
                child.wait(seconds)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
            status = child.wait()
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(list(command), status, out.read(), err.read())

    def run(self, command: Sequence[str], *, env: Mapping[str, str], seconds: float) -> str:
        """What a command prints, or an error that shows it."""
        done = self.complete(command, env=env, seconds=seconds)
        assert done.returncode == 0, f"{done.args}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def end(self) -> None:
        """Let it end once its children have."""
        self._socket.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(10)


def libraries(env: Mapping[str, str] | None = None) -> Parent:
    """The parent that has imported what reads no settings: one for all environments in which Python starts the same.

    By default it starts as in this process.
    """
    ours = os.environ | UNBUFFERED
    of_python = _of_python(ours if env is None else env)
    key = tuple(sorted(of_python.items()))
    if key not in _libraries:
        _libraries[key] = Parent({name: ours[name] for name in ours.keys() - _of_python(ours)} | of_python)
    return _libraries[key]


def project(env: Mapping[str, str]) -> Parent:
    """The parent that has imported everything under the settings of an environment."""
    key = tuple(sorted(env.items()))
    parent = _projects.pop(key, None)
    if parent is None:
        while len(_projects) >= MOST:
            _projects.pop(next(iter(_projects))).end()
        parent = Parent(env, project=True, of=libraries(env))
    _projects[key] = parent
    return parent


def _of_python(env: Mapping[str, str]) -> dict[str, str]:
    """Variables that Python reads when it starts, such as PYTHONHASHSEED."""
    return {name: value for name, value in env.items() if name.startswith("PYTHON")}


@atexit.register
def _leave() -> None:
    """End a child that has done its work without freeing what is imported, which would copy all of it first.

    The first registered, so that everything else is done: threads have ended, and other such functions are called.
    """
    if _status is not None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_status)


@atexit.register
def end_all() -> None:
    """End all parents, once their children have ended."""
    for parents in (_projects, _libraries):
        while parents:
            parents.popitem()[1].end()


def _serve(requests: socket.socket) -> list[str]:
    """Fork a child for each request; return its command in each child, none in this process, once all have ended."""
    statuses: dict[int, tuple[int, int]] = {}  # by the handle of a child: its number, and where its status is awaited
    with PollSelector() as waiting:
        waiting.register(requests, EVENT_READ)
        while waiting.get_map():
            for key, _ in waiting.select():
                if key.fd in statuses:
                    waiting.unregister(key.fd)
                    _report(key.fd, *statuses.pop(key.fd))
                    continue
                request, files, _, _ = socket.recv_fds(requests, LARGEST, 4)
                if not request:  # nobody can ask any more
                    waiting.unregister(requests)
                    continue
                status, *files = files
                child = os.fork()
                if not child:
                    for handle, (_, other) in statuses.items():
                        os.close(handle)
                        os.close(other)
                    os.close(status)
                    requests.detach()
                    command, env = json.loads(request)
                    return _become(command, env, files)
                for file in files:
                    os.close(file)
                os.write(status, str(child).encode())
                handle = os.pidfd_open(child)
                statuses[handle] = child, status
                waiting.register(handle, EVENT_READ)
    return []


def _report(handle: int, child: int, status: int) -> None:
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with suppress(BrokenPipeError):  # nobody waits for it
        os.write(status, str(ended).encode())
    os.close(status)
    os.close(handle)


def _become(command: list[str], env: Mapping[str, str], files: Sequence[int]) -> list[str]:
    """Give this child its session, files and environment; return its command."""
    os.setsid()
    # A shell starts what it runs in the background with this signal ignored; the code under test is not to inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(env)
    return command


def _run(command: Sequence[str]) -> None:
    """Run a command of Python, or a program that is a script of Python, in this process."""
    match command:
        case [_, "-c", code, *arguments]:
            main = ModuleType("__main__")
            sys.modules["__main__"], sys.argv = main, ["-c", *arguments]
            exec(compile(code, "<string>", "exec"), main.__dict__)
        case [_, "-m", module, *arguments]:
            sys.argv = [module, *arguments]
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case ["python" | sys.executable, script, *arguments]:
            sys.argv = [script, *arguments]
            runpy.run_path(script, run_name="__main__")
        case [program, *arguments]:
            script = str(Path(sys.executable).parent / program)
            sys.argv = [script, *arguments]
            runpy.run_path(script, run_name="__main__")


def _run_to_its_end(command: Sequence[str]) -> None:
    global _status
    try:
        _run(command)
        _status = 0
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            _status = ended.code or 0
        raise


def _load_kernels() -> None:
    """Load those that are compiled: children that ask for them, as every process does, find them loaded."""
    from auctions.kernels import compiling
    from scheduling import kernels

    for group in kernels.GROUPS.values():
        if all(map(compiling.is_kept, group.parts)):
            group.warm_up()


def main(*, project: bool) -> None:
    """Be a parent; in each of its children, run a command."""
    gc.disable()
    if not project:
        os.environ.pop(SETTINGS, None)  # reading one now is an error
        for name in LIBRARIES:
            import_module(name)
        _load_kernels()
    else:
        import django

        os.environ.setdefault(SETTINGS, "config.settings")
        django.setup()
        for name in PROJECT:
            import_module(name)
    gc.freeze()  # what is imported stays shared with children
    gc.enable()
    if command := _serve(socket.socket(fileno=0)):
        _run_to_its_end(command)
