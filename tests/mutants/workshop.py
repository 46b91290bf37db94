"""A copy of the project in which mutants are tried."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from pathlib import Path
from threading import Timer
from typing import Final

from tests.mutants.areas import AREAS
from tests.mutants.changes import Mutant, mutants_of, sources_of
from tests.processes import ROOT

LEFT_OUT: Final = (".git", ".venv", "var", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis")
SLOWER: Final = 3
"""A mutant that takes this multiple of the processor time of the unchanged code counts as killed."""
LEAST_S: Final = 5
"""Processor time that each mutant may take beside that."""
WAITING: Final = 10
"""Largest waiting time of a mutant, as a multiple of its processor time."""
PYTEST: Final = (
    *("-m", "pytest", "-x", "-q", "-m", "not slow"),
    *("-p", "pytest_django.plugin", "-p", "no:cacheprovider", "--nomigrations"),
)
TIMED_OUT: Final = (-signal.SIGKILL, -signal.SIGXCPU)


class Fate(StrEnum):
    """What became of a mutant."""

    KILLED = "killed"
    TIMED_OUT = "timed out"
    SURVIVED = "survived"


@dataclass(frozen=True)
class Run:
    """What became of a run of tests."""

    status: int | None
    """Exit status of pytest; None if it did not end in time."""
    processor_s: float
    printed: str
    """The last of it."""


class Workshop:
    """A copy of the project in which one mutant at a time is tried."""

    def __init__(self, folder: Path, *, seed: int) -> None:
        self.root = folder / "copy"
        self._seed = seed
        self._changes = 0
        shutil.copytree(ROOT, self.root, ignore=shutil.ignore_patterns(*LEFT_OUT))

    def run(self, tests: Sequence[str], *, most_s: float) -> Run:
        """Run these tests in a process with this limit of processor time."""
        env = {
            **os.environ,
            "SHADOWPRICE_VAR": str(self.root / "var"),
            "SHADOWPRICE_SEED": str(self._seed),  # random tests draw the same for every mutant
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # plugins that these tests do not need take half a second
        }
        # With bytecode a process starts two seconds earlier.
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        with (
            tempfile.TemporaryFile() as printed,
            subprocess.Popen(
                [sys.executable, *PYTEST, *tests],
                cwd=self.root,
                env=env,
                stdout=printed,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            ) as process,
        ):
            # Processor time is the same however busy the machine is; a loop without an end uses it up.
            resource.prlimit(process.pid, resource.RLIMIT_CPU, (ceil(most_s), ceil(most_s)))
            timer = Timer(WAITING * most_s, _kill_group, [process.pid])
            timer.start()
            _, ended, used = os.wait4(process.pid, 0)
            timer.cancel()
            _kill_group(process.pid)  # what a test has started and left behind
            process.returncode = os.waitstatus_to_exitcode(ended)
            printed.seek(0)
            text = printed.read().decode(errors="replace")[-3000:]
        status = None if process.returncode in TIMED_OUT else process.returncode
        return Run(status, used.ru_utime + used.ru_stime, text)

    def with_change(self, path: Path, changed: bytes, tests: Sequence[str], *, most_s: float) -> Run:
        """Run these tests with another text of one file; the copy is then as it was."""
        place = self.root / path
        source, times = place.read_bytes(), place.stat()
        self._changes += 1
        try:
            place.write_bytes(changed)
            # Bytecode is found by the second and the size of its source: no two texts may have the same second.
            os.utime(place, (times.st_atime, int(times.st_mtime) + 1 + self._changes))
            return self.run(tests, most_s=most_s)
        finally:
            place.write_bytes(source)
            os.utime(place, ns=(times.st_atime_ns, times.st_mtime_ns))

    def fate(self, mutant: Mutant, *, most_s: float) -> Fate:
        """What the area's tests make of a mutant."""
        changed = mutant.apply((self.root / mutant.path).read_bytes())
        run = self.with_change(mutant.path, changed, AREAS[mutant.area].tests, most_s=most_s)
        if run.status is None:
            return Fate.TIMED_OUT
        return Fate.KILLED if run.status else Fate.SURVIVED


def _kill_group(leader: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def baseline(workshop: Workshop, names: Sequence[str]) -> dict[str, float]:
    """Processor seconds that each area's tests take on code that does the same; raises if one of them fails.

    A line is added to one file, so that kernels are compiled as for every mutant.
    """
    took: dict[str, float] = {}
    for name in names:
        path, _ = sources_of(name)[0]
        changed = (workshop.root / path).read_bytes() + b"# The same.\n"
        run = workshop.with_change(path, changed, AREAS[name].tests, most_s=600)
        if run.status != 0:
            raise RuntimeError(f"the tests of {name} fail on the unchanged code:\n{run.printed}")
        took[name] = run.processor_s
        print(f"{name}: {len(mutants_of(name))} mutants, tests take {took[name]:.0f} s", flush=True)
    return took
