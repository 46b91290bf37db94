"""Algorithm 2 of the paper as printed: the recursion over blocks, against which Jackson's rule is compared."""

from collections.abc import Iterator, Sequence

from scheduling.model.types import Ints
from scheduling.split_learning.backward import Free, Pass, Way, by_helper, timed
from scheduling.split_learning.instance import Instance
from scheduling.split_learning.plan import Pieces


def backward_passes(instance: Instance, assignment: Ints, forward: tuple[Pieces, ...], way: Way) -> tuple[Pieces, ...]:
    """Return the pieces of each client's backward pass, J; all helpers use this way."""
    found: list[Pieces] = [()] * len(assignment)
    for passes, free in by_helper(instance, assignment, forward):
        for client, pieces in timed(way, passes, free).items():
            found[client] = pieces
    return tuple(found)


def by_blocks(passes: Sequence[Pass], free: Free) -> Iterator[tuple[int, int, int]]:
    """Algorithm 2, the recursion over blocks of Baker, Lawler, Lenstra and Rinnooy Kan (1983). O(n^2).

    In each block the pass with the least cost at its end (26) runs only when no other of the block is there; of equals
    the one that came last. The others decompose into smaller blocks. Optimal for P_b (Theorem 2).
    """
    order = sorted(passes)
    stack = list(_blocks(order))
    while stack:
        members, start, end = stack.pop()
        last = min(members, key=lambda job: (job.tail, -job.ready, -job.client))
        now = start
        for inner, begins, ends in _blocks([job for job in members if job is not last]):
            if now < begins:
                yield last.client, now, begins
            stack.append((inner, begins, ends))
            now = ends
        if now < end:
            yield last.client, now, end


def _blocks(order: Sequence[Pass]) -> Iterator[tuple[list[Pass], int, int]]:
    """Stretches without idle slots of passes in the order of arrival, with their members."""
    members: list[Pass] = []
    start = end = 0
    for job in order:
        if members and job.ready >= end:
            yield members, start, end
            members = []
        if not members:
            start = end = job.ready
        members.append(job)
        end += job.slots
    if members:
        yield members, start, end
