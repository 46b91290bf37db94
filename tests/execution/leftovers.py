"""What processes leave behind, counted by descent: no name and no process number that they could change."""

import ctypes
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36


@contextmanager
def adopted() -> Iterator[None]:
    """In the block, all processes that lose their parents below this one stay below it."""
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def below(*, leave: frozenset[int] = frozenset()) -> frozenset[int]:
    """All processes below this one that have not ended; of `leave`, those that have are not waited for."""
    parents, ended = {}, []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{name}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
            parents[int(name)] = int(fields[1])
            if fields[0] == "Z":
                ended.append(int(name))
    for pid in ended:
        if parents.pop(pid) == os.getpid() and pid not in leave:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return frozenset(found - {os.getpid()})


def program_of(root: Path, key: str) -> int:
    """The process of a program on this machine, by its key in an engine: the first child of its inner shim."""
    inner = json.loads((root / "live" / key / "started.json").read_text())["inner"]["pid"]
    return int(Path(f"/proc/{inner}/task/{inner}/children").read_text().split()[0])
