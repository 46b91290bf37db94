"""An engine under test, with a directory of its own and what the tests say to it."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from execution.engines.base import Engine, Phase, Seen, Start
from tests.execution.leftovers import below
from tests.processes import wait_until

LIVES = (Phase.STARTING, Phase.RUNNING)
WAIT_S = 20.0


@dataclass
class Bench:
    """One engine, made again as often as a test wants."""

    make: Callable[[Path], Engine]
    """An engine on a directory; the servers are edge-0 to edge-2."""
    root: Path
    work: Path
    """A directory for what the programs write."""
    before: frozenset[int] = field(default_factory=below)
    """Processes that were there before the test."""

    def __post_init__(self) -> None:
        self.engine = self.make(self.root)

    def start(self, key: str, *arguments: str, **changes: Any) -> Start:
        """Launch a program."""
        given: dict[str, Any] = {
            "server": "edge-1",
            "environment": {"PATH": "/usr/bin:/bin"},
            "working_directory": self.work,
            "until": time.time() + 60,
            "grace_s": 5.0,
        }
        start = Start(key=key, arguments=arguments, **given | changes)
        self.engine.launch(start)
        return start

    def shell(self, key: str, script: str, **changes: Any) -> Start:
        """Launch a shell with a script."""
        return self.start(key, "/bin/sh", "-c", script, **changes)

    def seen(self, key: str) -> Seen:
        """What the engine says of a process."""
        return self.engine.list()[key]

    def ended(self, key: str) -> Seen:
        """What it says when the process has ended."""
        wait_until(lambda: self.seen(key).phase not in LIVES, what=f"end of {key}", seconds=WAIT_S, every=0.02)
        return self.seen(key)

    def ready(self, key: str, text: bytes = b"ready") -> bytes:
        """Its output, when this text is in it."""
        wait_until(lambda: text in self.output(key), what=f"{text!r} of {key}", seconds=WAIT_S, every=0.02)
        return self.output(key)

    def output(self, key: str) -> bytes:
        """All of its output that is kept."""
        return self.engine.log(key, 0, 10**9)

    def left(self) -> frozenset[int]:
        """Processes that are there and were not before."""
        return below(leave=self.before) - self.before

    def assert_nothing_is_left(self) -> None:
        """Wait a little for shims and parts of engines that end by themselves; a program would stay."""
        wait_until(lambda: not self.left(), what="end of all processes", seconds=5, every=0.02)

    def files(self, key: str) -> Mapping[str, Path]:
        """The files of a process that is not retired."""
        return {path.name: path for path in (self.root / "live" / key).iterdir()}
