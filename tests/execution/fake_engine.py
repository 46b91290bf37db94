"""An engine in memory, for tests of the executor: its processes live on a wall clock that the test moves."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from execution.engines.base import EngineError, Phase, Seen, Start


@dataclass
class FakeProcess:
    """One process: what a shim and its program would do."""

    start: Start
    until: float
    started: float
    seen: Seen
    stop_at: float | None = None
    frozen: bool = False
    output: bytes = b""

    @property
    def alive(self) -> bool:
        return self.seen.phase in (Phase.STARTING, Phase.RUNNING)


@dataclass
class FakeEngine:
    """Programs that are asked to stop exit with 143 after `stop_s`; a frozen one is killed after its grace."""

    now: Callable[[], float]
    stop_s: float = 1.0
    processes: dict[str, FakeProcess] = field(default_factory=dict)
    retired: set[str] = field(default_factory=set)
    launches: list[str] = field(default_factory=list)
    never: set[str] = field(default_factory=set)
    """Keys that were killed before they were launched."""
    refuses: set[str] = field(default_factory=set)
    """Servers that cannot be reached."""
    history: list[tuple[float, str, str]] = field(default_factory=list)
    """Time, key and what happened: started or ended."""

    def launch(self, start: Start) -> None:
        if start.server in self.refuses:
            raise EngineError(f"server: expected one that answers, got {start.server!r}")
        if start.key in self.processes or start.key in self.never:
            return
        now = self.now()
        seen = Seen(start.key, Phase.RUNNING, started_s=now)
        self.processes[start.key] = FakeProcess(start, start.until, now, seen)
        self.launches.append(start.key)
        self.history.append((now, start.key, "started"))

    def list(self) -> dict[str, Seen]:
        self.pass_time()
        return {key: one.seen for key, one in self.processes.items() if key not in self.retired}

    def stop(self, key: str) -> None:
        if key in self.processes and self.processes[key].stop_at is None:
            self.processes[key].stop_at = self.now()

    def kill(self, key: str) -> None:
        if key in self.processes:
            self.exit(key, 137)
        else:
            self.never.add(key)

    def hold(self, key: str, until: float) -> None:
        if key in self.processes:
            self.processes[key].until = until

    def log(self, key: str, offset: int, size: int) -> bytes:
        return self.processes[key].output[offset : offset + size]

    def log_size(self, key: str) -> tuple[int, int]:
        return 0, len(self.processes[key].output)

    def retire(self, key: str) -> None:
        assert not self.processes[key].alive
        self.retired.add(key)

    def pass_time(self) -> None:
        """Let shims do what is due by now."""
        now = self.now()
        for key, one in self.processes.items():
            if not one.alive:
                continue
            grace = one.start.grace_s
            asked = min([one.until - grace] + ([one.stop_at] if one.stop_at is not None else []))
            if now >= min(one.until, asked + grace):
                self.exit(key, 137, at=min(one.until, asked + grace))
            elif now >= asked + self.stop_s and not one.frozen:
                self.exit(key, 143, at=asked + self.stop_s)

    def exit(self, key: str, code: int, *, at: float | None = None, output: bytes = b"") -> None:
        """Let a process exit."""
        one = self.processes[key]
        if one.alive:
            one.output += output
            ended = self.now() if at is None else at
            one.seen = replace(one.seen, phase=Phase.EXITED, code=code, ended_s=ended)
            self.history.append((ended, key, "ended"))

    def lose(self, key: str) -> None:
        """Let a process vanish without a word."""
        one = self.processes[key]
        if one.alive:
            one.seen = replace(one.seen, phase=Phase.LOST, ended_s=self.now())
            self.history.append((self.now(), key, "ended"))

    def alive(self) -> Sequence[str]:
        """Return the keys of the processes that live."""
        return sorted(key for key, one in self.processes.items() if one.alive)
