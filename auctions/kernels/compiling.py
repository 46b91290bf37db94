"""Compile kernels in separate processes, each kernel once for all processes that share a cache.

`python -m auctions.kernels.compiling rigid.search rigid.tables` writes a line of JSON for each part that is stored on
disk, and `{"ready": true}` when all are. If several such processes run, each takes a part that no other process
compiles at the moment, and waits for the others at the end. With `--follow` as the first argument it comes last: it
compiles only what no other process compiles. A process that only waits, or finds its parts on disk, does not load the
compiler.
"""

import fcntl
import gc
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from time import sleep

SELDOM = (100_000, 50, 1000)
"""Thresholds of the garbage collector (`gc.set_threshold`): with the default ones it takes 10% of compile time."""

SOURCES = Path(__file__).resolve().parents[2] / "scheduling"
PROCESSORS = Path("/proc/cpuinfo")
OF_A_PROCESSOR = ("vendor_id", "cpu family", "model", "flags", "CPU implementer", "CPU part", "Features")
"""Lines of that file that identify the processor for which machine code is compiled."""


FOLLOW = "--follow"
"""The first argument of a process that waits for others that compile the same parts."""
LOOK_S = 0.1
"""Seconds between two looks of that process at the disk."""
_gives_way = False


def command(arguments: Iterable[str]) -> tuple[str, ...]:
    """Return the command of a process that compiles these parts (`scheduling.kernels.parts_of`) in their order."""
    return (sys.executable, "-m", "auctions.kernels.compiling", *arguments)


def cache_folder() -> Path:
    """Return the folder in which all processes store machine code: that of the sources, or the one in the settings."""
    return Path(os.environ.get("NUMBA_CACHE_DIR") or SOURCES / "__pycache__")


@cache
def made_of() -> str:
    """Return a digest of what machine code depends on: sources (by dates and sizes), compiler and processor."""
    digest = sha256(f"{sys.version} {version('numba')} {version('llvmlite')} {sorted(_processor())}".encode())
    for path in sorted(SOURCES.rglob("*.py")):
        about = path.stat()
        digest.update(f"{path} {about.st_mtime_ns} {about.st_size}\n".encode())
    return digest.hexdigest()


def _processor() -> set[str]:
    """Return what the system says of the processor, or only its architecture on systems without `/proc`."""
    if not PROCESSORS.exists():
        return {os.uname().machine}
    lines = PROCESSORS.read_text().splitlines()
    return {line for line in lines if line.partition("\t")[0].strip() in OF_A_PROCESSOR}


def is_kept(part: str) -> bool:
    """Return whether the machine code of a part is on disk, for these sources, compiler and processor."""
    mark = _mark(part)
    return mark.exists() and mark.read_text() == made_of()


def _mark(part: str) -> Path:
    return cache_folder() / f"{part}.kept"


def give_way() -> None:
    """Let no process wait for what this one compiles, nor for what it loads.

    It lets others go first, so on a busy machine a part may take it minutes. Another process compiles it once more.
    """
    global _gives_way
    _gives_way = True


@contextmanager
def turn(part: str, *, wait: bool) -> Iterator[bool]:
    """Lock a part against compilation by other processes; False if another one holds it and `wait` is not set.

    `part` may also be another name, which is then locked in the same way.
    A process that gives way waits for others, and locks nothing.
    """
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    # Open for reading: a file that another user made can be locked, too.
    held = os.open(folder / f"{part}.lock", os.O_RDONLY | os.O_CREAT, 0o666)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        yield False
    else:
        if _gives_way:
            fcntl.flock(held, fcntl.LOCK_UN)
        yield True
    finally:
        os.close(held)


def compile_part(part: str, *, wait: bool = True, load: bool = True) -> bool:
    """Compile a part, or load it from disk if `load` is set; False if another process compiles it without `wait`."""
    with turn(part, wait=wait) as mine:
        if mine and (load or not is_kept(part)):
            from scheduling import kernels  # noqa: PLC0415 (a process that only waits need not load the compiler)

            made = made_of()
            kernels.compile_part(part)
            with suppress(PermissionError):  # owned by another user: the next process checks the disk again
                _mark(part).write_text(made)
        return mine


def compile_each(parts: Iterable[str]) -> Iterator[str]:
    """Compile these parts, first those that no other process is compiling; yield the name of each finished part."""
    left = list(parts)
    while left:
        free = next((part for part in left if compile_part(part, wait=False)), None)
        if free is None:
            free = left[0]
            compile_part(free)
        left.remove(free)
        yield free


def compile_all(parts: Iterable[str]) -> None:
    """Compile these parts, or load them from disk."""
    for _ in compile_each(parts):
        pass


def follow(parts: Iterable[str]) -> Iterator[str]:
    """Wait for each of these parts, and compile the first one that is missing if no other process does; yield its name.

    Other processes take parts in the same order, so the first that is missing is one that they compile.
    """
    left = list(parts)
    while left:
        done = [part for part in left if is_kept(part)]
        # The other process may end after that look, so the disk is looked at again in the turn.
        done = done or [part for part in left[:1] if compile_part(part, wait=False, load=False)]
        yield from done
        left = [part for part in left if part not in done]
        if left and not done:
            sleep(LOOK_S)


def main(arguments: Sequence[str]) -> None:
    """Print a line for each part when it is done."""
    gc.set_threshold(*SELDOM)
    parts = [part for part in arguments if part != FOLLOW]
    kept = [part for part in parts if is_kept(part)]
    missing = [part for part in parts if part not in kept]
    for part in chain(kept, follow(missing) if FOLLOW in arguments else compile_each(missing)):
        _report({"part": part})
    _report({"ready": True})


def _report(row: dict[str, object]) -> None:
    # In one piece: another process may write to the same pipe.
    os.write(sys.stdout.fileno(), f"{json.dumps(row)}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1:])
