"""The next steps of each job, as a pure function of what is wanted, what was recorded and what an engine sees.

Wanted is what the market's commitments say for the present; the executor calls `next_steps` about once a second, and
does what it returns. Nothing else is remembered: a step that was not done, because the executor was killed, is returned
again. What follows when a process dies is in `execution/dead_processes.py`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from execution.dead_processes import waits
from execution.engines.base import Phase
from execution.models import Ending, GenerationState, ProcessRole

LEAST_RUN_S: Final = 1.0
"""A generation is not started if its machines are held for less than its grace and this time, seconds."""
PATIENCE_S: Final = 3.0
"""Seconds after the grace until a process that was stopped is killed by the executor, if its shim has not done it."""
HOLD_S: Final = 0.05
"""Least change of the time until which machines are held that is passed on, seconds. The time of a slot's beginning is
computed from the present, and so differs a little in each loop."""


class Machines(NamedTuple):
    """Machines of one type on one server, by keys of rows."""

    role: str
    server: int
    type: int
    number: int


Allocation = tuple[Machines, ...]
"""The machines of a job at one time, sorted."""


@dataclass(frozen=True)
class Wanted:
    """The machines that a job holds now."""

    allocation: Allocation
    until: float
    """Time at which it holds other machines or none, seconds since 1970."""
    last: bool
    """Whether it holds nothing afterwards, as far as it is known."""


@dataclass(frozen=True)
class Observed:
    """One process of a live generation."""

    key: str
    role: str
    phase: Phase | None
    """None if the engine does not know it yet."""
    code: int | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing of it is left."""
        return self.phase in (Phase.EXITED, Phase.LOST)


@dataclass(frozen=True)
class Live:
    """The generation of a job that has not ended."""

    allocation: Allocation
    state: str
    until: float
    """Time until which the shims keep its processes, seconds since 1970."""
    processes: tuple[Observed, ...]
    ending: str = ""
    stopped: float = 0.0
    """Time at which it was asked to stop, seconds since 1970."""


@dataclass(frozen=True)
class Job:
    """One job: `over` if its training is over, so that nothing is started any more."""

    name: int
    wanted: Wanted | None
    live: Live | None = None
    wait_until: float = 0.0
    """Time before which it is not started again, seconds since 1970."""
    over: bool = False
    cancelled: bool = False
    """Whether its bid was cancelled or failed."""
    switched_off: bool = False
    """Whether its cluster runs no jobs any more."""


@dataclass(frozen=True)
class Begin:
    """Create the next generation with these machines and start its processes."""

    wanted: Wanted


@dataclass(frozen=True)
class Launch:
    """Start the processes that the engine does not know."""

    keys: tuple[str, ...]


@dataclass(frozen=True)
class Hold:
    """Change the time until which the processes may run."""

    until: float


@dataclass(frozen=True)
class Stop:
    """Send SIGTERM to the processes that run."""

    ending: Ending


@dataclass(frozen=True)
class Kill:
    """Kill the processes that run."""


@dataclass(frozen=True)
class End:
    """Record that nothing of the generation is left."""


Step = Begin | Launch | Hold | Stop | Kill | End
Demands = Mapping[tuple[str, int], Sequence[int]]
"""Units of each resource that a machine takes, by role and key of its type."""


def next_steps(
    jobs: Iterable[Job],
    *,
    now: float,
    grace_s: float,
    capacity: Mapping[int, Sequence[int]],
    demands: Demands,
    taken: Iterable[Allocation] = (),
) -> dict[int, list[Step]]:
    """Return the steps of each job that has any, by name.

    A generation begins only if its machines are free: what runs there, and what was started before it in this call,
    leaves room by every resource of every server. So a job's machines are given to another one when its processes are
    gone, even if that is late.

    Parameters
    ----------
    jobs
        All jobs that have a live generation or hold machines.
    now
        Seconds since 1970.
    grace_s
        Seconds between SIGTERM and SIGKILL.
    capacity
        Units of each resource of a server, by the server's key.
    demands
        Units that machines take.
    taken
        Machines on which something runs that belongs to none of these jobs.
    """
    jobs = list(jobs)
    free = {server: list(units) for server, units in capacity.items()}
    for machines in taken:
        take(free, machines, demands)
    for job in jobs:
        if job.live is not None:
            take(free, job.live.allocation, demands)
    steps: dict[int, list[Step]] = {}
    for job in jobs:
        mine = steps_of(job, now=now, grace_s=grace_s)
        for begin in (step for step in mine if isinstance(step, Begin)):
            if not fits(free, begin.wanted.allocation, demands):
                mine = []
            else:
                take(free, begin.wanted.allocation, demands)
        if mine:
            steps[job.name] = mine
    return steps


def steps_of(job: Job, *, now: float, grace_s: float) -> list[Step]:
    """Return the steps of one job, if the machines that it holds are free."""
    if job.live is not None:
        return _of_live(job, job.live, now=now, grace_s=grace_s)
    if job.over or job.wanted is None or waits(job.wait_until, now=now):
        return []
    if job.wanted.until - now <= grace_s + LEAST_RUN_S:
        return []
    return [Begin(job.wanted)]


def _of_live(job: Job, live: Live, *, now: float, grace_s: float) -> list[Step]:
    left = [process for process in live.processes if not process.is_over]
    if live.state == GenerationState.STOPPING:
        if all(process.phase is None for process in left):  # these were never started, and cannot be any more
            return [End()]
        late = now > live.stopped + grace_s + PATIENCE_S
        return [Kill()] if late else [Stop(Ending(live.ending))]
    ending = ending_of(job, live, now=now, grace_s=grace_s)
    if ending is not None:
        return [Stop(ending)]
    steps: list[Step] = []
    if unknown := tuple(process.key for process in left if process.phase is None):
        steps.append(Launch(unknown))
    if job.wanted is not None and abs(job.wanted.until - live.until) > HOLD_S:
        steps.append(Hold(job.wanted.until))
    return steps


def ending_of(job: Job, live: Live, *, now: float, grace_s: float) -> Ending | None:
    """Return why a generation has to end now; None if it goes on.

    Processes are stopped by their shims `grace_s` before their machines change, so exits near that time are no faults.
    """
    over = [process for process in live.processes if process.is_over]
    workers = [process for process in live.processes if process.role == ProcessRole.WORKER]
    if all(process.phase is Phase.EXITED and process.code == 0 for process in workers):
        return Ending.FINISHED
    if job.over or job.cancelled:
        return Ending.CANCELLED
    if job.switched_off:
        return Ending.SWITCHED_OFF
    if job.wanted is None:
        return Ending.PROMISE_OVER
    if job.wanted.allocation != live.allocation:
        return Ending.CHANGED
    # A parameter server that ended well saw its workers leave, which end in a moment.
    if all(process.code == 0 for process in over):
        return None
    if now >= live.until - grace_s:
        return Ending.PROMISE_OVER if job.wanted.last else Ending.CHANGED
    return Ending.LOST if any(process.phase is Phase.LOST for process in over) else Ending.FAULT


def fits(free: Mapping[int, Sequence[int]], allocation: Allocation, demands: Demands) -> bool:
    """Return whether these machines are free."""
    left = {server: list(units) for server, units in free.items()}
    take(left, allocation, demands)
    return all(unit >= 0 for machines in allocation for unit in left.get(machines.server, (-1,)))


def take(free: dict[int, list[int]], allocation: Allocation, demands: Demands) -> None:
    """Subtract machines from what is free; a server that is no longer in the inventory has nothing."""
    for machines in allocation:
        units = free.get(machines.server)
        demand = demands.get((machines.role, machines.type))
        if units is None or demand is None:
            continue
        for resource, amount in enumerate(demand):
            units[resource] -= machines.number * amount


def merged(machines: Iterable[Machines]) -> Allocation:
    """Return machines of the same kind on the same server as one, sorted."""
    counts: dict[tuple[str, int, int], int] = {}
    for one in machines:
        place = one.role, one.server, one.type
        counts[place] = counts.get(place, 0) + one.number
    return tuple(Machines(*place, count) for place, count in sorted(counts.items()))
