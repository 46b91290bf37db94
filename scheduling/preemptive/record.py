"""Records of queues: what workers did, when jobs end, and the data needed to restore queues."""

from collections.abc import Mapping
from dataclasses import dataclass

from scheduling.model.bid import Bid
from scheduling.model.schedule import Chunks


@dataclass(frozen=True, order=True)
class Segment:
    """A worker processes chunks of one job from tick `start` to tick `end`; in the cloud `count` workers do."""

    start: int
    end: int
    server: int
    type: int
    index: int
    job: str
    count: int = 1


@dataclass(frozen=True, order=True)
class Preemption:
    """At tick `at` a worker interrupted a chunk of `job` for a chunk of `by`."""

    at: int
    server: int
    type: int
    index: int
    job: str
    by: str


@dataclass(frozen=True)
class Ran:
    """The work of workers while slots passed."""

    segments: tuple[Segment, ...]
    preemptions: tuple[Preemption, ...]
    completed: Mapping[str, int]
    """Tick of completion of each job that was completed."""


@dataclass(frozen=True)
class Window:
    """First and last tick of a job, past or forecast."""

    start: int
    completion: int


@dataclass(frozen=True)
class Part:
    """Recorded chunks that joined one queue."""

    chunks: Chunks
    each: int
    """Ticks of each."""
    worked: int
    """Ticks done of them."""
    release: int
    """Slot at which they are uploaded."""
    last: bool
    """The worker did nothing else since it last worked on them."""


@dataclass(frozen=True)
class Restored:
    """A recorded queued job."""

    bid: Bid
    order: int
    type: int | None
    """Type of its workers; None if the type no longer exists."""
    each: int
    """Ticks of a chunk with communication."""
    handicap: int
    """Handicap when it joined, ticks."""
    complete: int
    """Chunks complete of those that were taken out of queues again."""
    start: int | None
    """Tick in which its first chunk was begun."""
    completed_at: int
    """Last tick in which anything of it was done, 0 if nothing was."""
    parts: tuple[Part, ...]
    stored: tuple[tuple[int, int], ...] = ()
    """Servers, and how many of its chunks each stores: those in queues and the complete ones."""
