"""Files of jobs: what programs write, and where.

Everything lies below `EXECUTION_DIR`, which all servers of a cluster must see under the same path:
`CLUSTER/processes/KEY/` belongs to the engine, `CLUSTER/jobs/TOKEN/gN/` to generation N of a job. The archives of
programs are in `CLUSTER/archives/SHA256`, and unpacked for system user N in `CLUSTER/programs/SHA256-N/`.
"""

import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final
from uuid import UUID

from django.conf import settings

CHECKPOINT: Final = re.compile(r"step-([0-9]{1,15})\Z")
"""Name of a whole checkpoint: a program writes it aside and renames it."""
LARGEST_READ: Final = 1_000_000
"""Bytes of a progress file that are read at a time."""
COMPARED: Final = 200
"""Bytes before those that are read next: if they changed, the file was written again. A line has fewer."""
MOST_PARTS: Final = 20
"""Such parts that may be left to read; of more only the newest is read, so that what is known is not old."""
LARGEST_STEP: Final = 2**53
"""Largest number of a step that is recorded, which all readers of JSON read exactly."""
LARGEST_LOSS: Final = 1e300
LONGEST_STEP_S: Final = 1e9
"""Longest duration of a step that is recorded, seconds: sums of them are finite."""
MOST_CHECKPOINTS: Final = 100
"""Checkpoints of a generation that are looked at: those of the greatest steps."""
MOST_ENTRIES: Final = 10_000
"""Entries of a directory of checkpoints that are read: of more than these, any."""


def engine_root(cluster: str) -> Path:
    """Return the directory in which an engine keeps the processes of a cluster."""
    return Path(settings.EXECUTION_DIR) / cluster / "processes"


def jobs_root(cluster: str) -> Path:
    """Return the directory with the directories of jobs."""
    return Path(settings.EXECUTION_DIR) / cluster / "jobs"


def archives_root(cluster: str) -> Path:
    """Return the directory with the archives of programs."""
    return Path(settings.EXECUTION_DIR) / cluster / "archives"


def programs_root(cluster: str) -> Path:
    """Return the directory with unpacked programs."""
    return Path(settings.EXECUTION_DIR) / cluster / "programs"


def archive_file(cluster: str, sha256: str) -> Path:
    """Return the file in which an archive is stored."""
    return archives_root(cluster) / sha256


def unpacked(cluster: str, sha256: str, user: int | None) -> Path:
    """Return the directory to which an archive is unpacked for a system user; None is the executor's own."""
    return programs_root(cluster) / f"{sha256}-{'own' if user is None else user}"


@dataclass(frozen=True)
class JobFiles:
    """Directories of one job."""

    cluster: str
    token: UUID

    @property
    def root(self) -> Path:
        """The directory of the job."""
        return jobs_root(self.cluster) / self.token.hex

    def generation(self, number: int) -> Path:
        """Return the directory of a generation."""
        return self.root / f"g{number}"

    def checkpoints(self, number: int) -> Path:
        """Return the directory to which a generation writes checkpoints."""
        return self.generation(number) / "checkpoints"

    def progress(self, number: int) -> Path:
        """Return the file to which a generation appends its progress."""
        return self.generation(number) / "progress.jsonl"

    def make(self, number: int, *, user: int | None) -> None:
        """Make the directories of a generation, for its user if it has one of its own.

        The parent of a generation's directory belongs to the executor, so that no program can put a link in its place.
        What is in the directory belongs to the program once it may have started, and is left as it is then.
        """
        self.generation(number).mkdir(mode=0o700, parents=True, exist_ok=True)
        if user is not None and os.lstat(self.generation(number)).st_uid == user:
            return
        with suppress(FileExistsError):
            self.checkpoints(number).mkdir(mode=0o700)
        if user is not None:
            for path in (self.checkpoints(number), self.generation(number)):
                os.chown(path, user, user, follow_symlinks=False)


def checkpoints_in(directory: Path) -> list[tuple[int, Path]]:
    """Return the whole checkpoints in a directory with their steps, in order; of many, those of the greatest steps.

    Of more than `MOST_ENTRIES` entries the others are not read, so that a full directory does not stop the executor.

    The program owns the directory. If it put a file or a link in its place, there are none.
    """
    try:
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return []
    try:
        with os.scandir(handle) as entries:
            names = [entry.name for entry in islice(entries, MOST_ENTRIES)]
    finally:
        os.close(handle)
    steps = [(int(match[1]), directory / name) for name in names if (match := CHECKPOINT.match(name))]
    return sorted(steps)[-MOST_CHECKPOINTS:]


@dataclass(frozen=True)
class Point:
    """A line of a progress file."""

    step: int
    loss: float | None
    seconds: float | None


@dataclass
class ProgressFile:
    """The progress file of a generation, and how far it was read."""

    path: str
    known: int = -1
    """Step up to which steps were recorded before; they are passed over."""
    offset: int = 0
    """Bytes up to the last whole line that was read."""
    _last: bytes = b""
    """The last of these bytes."""
    _changed: int = 0
    """Time of the file's last change, ns, when it was read last."""

    def read(self) -> list[Point]:
        """Return the lines that were added since; of many only the first ones.

        Lines of another form are passed over: a program may write anything. A link or a pipe in its place is not read.
        A file that was written again is read from its begin.
        """
        try:
            found = os.lstat(self.path)
            if (found.st_size, found.st_mtime_ns) == (self.offset, self._changed):  # as most are since the last loop
                return []
            with open(self.path, "rb", opener=_plain) as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    return []
                data = self._part(file, found.st_size)
        except OSError:
            return []
        self._changed = found.st_mtime_ns
        end = data.rfind(b"\n") + 1
        if not end and len(data) == LARGEST_READ:  # a line that never ends
            end = len(data)
        self.offset += end
        self._last = (self._last + data[:end])[-COMPARED:]
        return [point for point in _points(data[:end]) if point.step > self.known]

    def _part(self, file: BinaryIO, size: int) -> bytes:
        """Return the next bytes that are read, which begin at `offset`."""
        file.seek(self.offset - len(self._last))
        if size < self.offset or file.read(len(self._last)) != self._last:  # written again
            self.offset, self._last = 0, b""
        if size - self.offset > MOST_PARTS * LARGEST_READ:
            self.offset, self._last = size - LARGEST_READ, b""
        file.seek(self.offset)
        return file.read(LARGEST_READ)


def text_of(path: Path, *, most: int) -> str:
    """Return a text that a program wrote.

    Raises
    ------
    OSError
        If there is no such file, or a link or a pipe in its place.
    ValueError
        If it has more than `most` bytes, or is not in UTF-8.
    """
    with open(path, "rb", opener=_plain) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(f"expected a file, got something else: {path.name}")
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"expected at most {most:,} bytes in {path.name}, got more")
    return data.decode()


def _plain(path: str, flags: int) -> int:
    """Open a file that a program wrote: its link would lead elsewhere, and its pipe would let the executor wait."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _points(data: bytes) -> Iterator[Point]:
    for line in data.splitlines():
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(said, dict):
            continue
        step = _number(said.get("step"), 0, LARGEST_STEP)
        if step is not None:
            loss = _number(said.get("loss"), -LARGEST_LOSS, LARGEST_LOSS)
            yield Point(int(step), loss, _number(said.get("seconds"), 0, LONGEST_STEP_S))


def _number(value: object, low: float, high: float) -> float | None:
    """Return a number from `low` to `high` as it is; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if low <= value <= high else None
