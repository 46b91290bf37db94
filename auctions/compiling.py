"""Compile kernels in processes of their own, each kernel once for all processes that share a cache.

`python -m auctions.compiling rigid.search rigid.tables` writes a line of JSON for each part that is kept on disk, and
`{"ready": true}` when all are. Of several such processes each takes a part that nobody else compiles at the moment, and
waits for the others at the end. A process that waits has not loaded the compiler.
"""

import fcntl
import gc
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

SELDOM = (100_000, 50, 1000)
"""When garbage is looked for (`gc.set_threshold`): as often as usual, that takes a tenth of a compiler's time."""

SOURCES = Path(__file__).resolve().parent.parent / "scheduling"


def command(parts: Iterable[str]) -> tuple[str, ...]:
    """What starts a process that compiles these parts (`scheduling.kernels.parts_of`) in their order."""
    return (sys.executable, "-m", "auctions.compiling", *parts)


def cache_folder() -> Path:
    """Where all processes keep machine code: beside the sources, or where the settings say."""
    return Path(os.environ.get("NUMBA_CACHE_DIR") or SOURCES / "__pycache__")


@contextmanager
def turn(part: str, *, wait: bool) -> Iterator[bool]:
    """Hold a part that no other process may compile meanwhile; False if another one holds it and `wait` is not set."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    # Open for reading: a file that another user made can be locked, too.
    held = os.open(folder / f"{part}.lock", os.O_RDONLY | os.O_CREAT, 0o666)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        yield False
    else:
        yield True
    finally:
        os.close(held)


def compile_part(part: str, *, wait: bool = True) -> bool:
    """Compile a part, or load it from disk; False if another process compiles it and `wait` is not set."""
    with turn(part, wait=wait) as mine:
        if mine:
            from scheduling import kernels  # noqa: PLC0415 (a process that only waits need not load the compiler)

            kernels.compile_part(part)
        return mine


def compile_each(parts: Iterable[str]) -> Iterator[str]:
    """Compile these parts and name each one that is done: first those that no other process is compiling."""
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


def main(parts: Sequence[str]) -> None:
    """Tell of each part when it is done."""
    gc.set_threshold(*SELDOM)
    for part in compile_each(parts):
        _tell({"part": part})
    _tell({"ready": True})


def _tell(row: dict[str, object]) -> None:
    # In one piece: another process may write to the same pipe.
    os.write(sys.stdout.fileno(), f"{json.dumps(row)}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1:])
