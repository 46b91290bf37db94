"""Assignment of parameter servers to running jobs (A_ps), so that none is shared."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby
from operator import itemgetter

from scheduling.preemptive.record import Segment


class Host(StrEnum):
    """The place of a parameter server, and the reason of the choice."""

    EDGE = "edge"
    CLOUD = "cloud"
    """The whole job is in the cloud."""
    FALLBACK = "fallback"
    """No server of the edge had one free."""
    NONE = "none"
    """No server of the edge had one free, and there is no cloud: it runs without, which is a fault."""


@dataclass(frozen=True, order=True)
class PsAssignment:
    """A job keeps one parameter server from tick `start` to tick `end`, through which it runs without a break."""

    start: int
    end: int
    job: str
    host: Host
    server: int | None
    """Server of the edge; None for the cloud."""


def runs(segments: Iterable[Segment]) -> dict[str, list[tuple[int, int]]]:
    """Return the maximal intervals (ticks) in which at least one worker processes each job, sorted."""
    by_job: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for segment in sorted(segments):
        stretches = by_job[segment.job]
        if stretches and segment.start <= stretches[-1][1]:
            stretches[-1] = (stretches[-1][0], max(stretches[-1][1], segment.end))
        else:
            stretches.append((segment.start, segment.end))
    return by_job


def first_excess(segments: Iterable[Segment], *, pss: int) -> set[str]:
    """Return the jobs that run at the first tick at which more than `pss` do; nothing if there is none.

    Examples
    --------
    >>> from scheduling.preemptive.parameter_servers import first_excess
    >>> from scheduling.preemptive.record import Segment
    >>> ran = [Segment(0, 2, 0, 0, 0, "a"), Segment(2, 4, 0, 0, 0, "b"), Segment(3, 5, 0, 0, 1, "c")]
    >>> sorted(first_excess(ran, pss=1)), first_excess(ran, pss=2)
    (['b', 'c'], set())
    """
    steps = [
        step for job, rows in runs(segments).items() for start, end in rows for step in ((start, 1, job), (end, 0, job))
    ]
    going: set[str] = set()
    for _, now in groupby(sorted(steps), key=itemgetter(0)):
        for _, begins, job in now:
            (going.add if begins else going.discard)(job)
        if len(going) > pss:
            return going
    return set()


def assign(
    segments: Sequence[Segment],
    *,
    pss: Mapping[int, int],
    clouds: frozenset[int],
    order: Sequence[str],
    kept: Iterable[PsAssignment] = (),
) -> tuple[PsAssignment, ...]:
    """Give every job a parameter server for each stretch in which it runs.

    Parameters
    ----------
    segments
        Segments of all workers.
    pss
        Number of parameter servers of the jobs' type on each server of the edge.
    clouds
        Servers that are clouds, which always have one more.
    order
        Jobs that begin in the same tick are served in this order.
    kept
        Assignments that end where the first segments begin: a job that continues there keeps its parameter server,
        unless its server has fewer now than jobs that would keep one (those that began to use theirs first keep it), or
        it is in a cloud and there is none now. A job that loses its own, or had none, takes one as if it began here.

    Returns
    -------
    tuple of PsAssignment
        In order of time. A job keeps its parameter server while it runs; else it has a free one of the edge, where
        most of its chunks are processed (the first of equals), else one of the cloud, else none.

    References
    ----------
    Preemptive edge-cloud paper, Algorithm 5. As printed it may give a job a parameter server that is in use; here
    it cannot.
    """
    places: dict[str, Counter[int]] = defaultdict(Counter)
    for segment in segments:
        places[segment.job][segment.server] += (segment.end - segment.start) * segment.count
    free, rank = dict(pss), {job: i for i, job in enumerate(order)}
    going = {assignment.job: assignment for assignment in kept}
    stretches = sorted(
        (start, rank[job], end, job) for job, all_runs in runs(segments).items() for start, end in all_runs
    )
    # A job that continues keeps its own, so a job that begins in the same tick cannot have it.
    firsts = {job: (start, end) for start, _, end, job in reversed(stretches)}
    busy: list[PsAssignment] = []
    for before in sorted(going.values()):
        if before.job not in firsts or firsts[before.job][0] != before.end:
            continue
        if before.server is not None and free.get(before.server, 0) > 0:
            free[before.server] -= 1
            busy.append(replace(before, end=firsts[before.job][1]))
        elif before.server is not None or before.host is Host.NONE or not clouds:
            del going[before.job]
    found: list[PsAssignment] = []
    for start, _, end, job in stretches:
        last = going.get(job)
        if last is not None and last.end == start:
            assignment = PsAssignment(last.start, end, job, last.host, last.server)
            busy = [t for t in busy if t.job != job] + [assignment] * (assignment.server is not None)
        else:
            for over in [t for t in busy if t.end <= start]:
                free[over.server or 0] += 1
            busy = [t for t in busy if t.end > start]
            host, server = _host(places[job], free, clouds)
            assignment = PsAssignment(start, end, job, host, server)
            if server is not None:
                free[server] -= 1
                busy.append(assignment)
        going.pop(job, None)
        found.append(assignment)
    return tuple(sorted(found))


def _host(places: Counter[int], free: Mapping[int, int], clouds: frozenset[int]) -> tuple[Host, int | None]:
    if places and set(places) <= clouds:
        return Host.CLOUD, None
    near = [server for server, number in free.items() if number > 0]
    if near:
        return Host.EDGE, max(near, key=lambda server: (places[server], -server))
    return (Host.FALLBACK if clouds else Host.NONE), None
