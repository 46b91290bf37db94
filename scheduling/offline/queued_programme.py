"""The least total time of jobs whose chunks never move, as an integer programme over whole slots."""

from collections.abc import Sequence

import numpy as np

from scheduling.bid import Bid
from scheduling.errors import InvalidField
from scheduling.offline.programme import Solved, TooLarge
from scheduling.offline.question import Question
from scheduling.preemptive.crew import Crew
from scheduling.rows import Rows


class QueuedProgramme:
    """Chunks of a job are dealt to workers of the edge and to the cloud, where none waits; raises TooLarge.

    Raises
    ------
    InvalidField
        If some chunk does not take whole slots: then no schedule of whole slots need be the best. If a job has nowhere
        to run.

    Notes
    -----
    A worker does one job in a slot: given all completions, that worker by worker they can be kept is a matter of whole
    numbers, so preemption at whole slots is enough. Job j has x_jw chunks on worker w: sum_t u_jwt = p0 x_jw, and its
    end is at least t + 1 where u_jwt = 1. In the cloud chunks take p0, or p1 where the whole job is there.
    """

    def __init__(self, question: Question, most: int) -> None:
        self.question, self._most = question, most
        self._rows = Rows()
        self._ends: list[int] = []
        crew = Crew(question.inventory, 1)
        self._busy: dict[tuple[int, int], list[int]] = {}
        for i, bid in enumerate(question.bids):
            each, alone = _whole(i, bid, crew)
            self._add(bid, crew, each, alone)
        for columns in self._busy.values():
            if len(columns) > 1:
                self._rows.row([(column, 1.0) for column in columns], high=1.0)

    def solve(self, seconds: float) -> Solved:
        """To the optimum, or for so many seconds."""
        if not self._ends:
            return Solved(0.0, 0.0, optimal=True)
        since = sum(bid.arrival - self.question.start for bid in self.question.bids)
        solution = self._rows.solve(seconds)
        found = (
            None if solution.values is None else float(sum(round(solution.values[end]) for end in self._ends)) - since
        )
        if found is not None and solution.optimal:
            return Solved(found, found, optimal=True)
        bound = solution.bound - since if np.isfinite(solution.bound) else None
        return Solved(bound, found, optimal=False)

    def _column(self, high: float = 1.0, *, cost: float = 0.0, whole: bool = True) -> int:
        if self._rows.columns >= self._most:
            raise TooLarge(f"more than {self._most} columns")
        return self._rows.column(0.0, high, cost=cost, whole=whole)

    def _add(self, bid: Bid, crew: Crew, each: int, alone: int) -> None:
        question, rows, slots = self.question, self._rows, self.question.slots
        end = self._column(slots + 1.0, cost=1.0, whole=False)
        self._ends.append(end)
        chunks, arrival = float(bid.chunks), bid.arrival - question.start
        placed: list[tuple[int, float]] = []
        if question.open_end:
            late = self._column()
            placed.append((late, chunks))
            rows.row([(end, 1.0), (late, -(slots + 1.0))], low=0.0)
        kind = _task(bid, crew)
        for w in crew.of_type[kind].tolist():
            count = self._column(chunks)
            placed.append((count, 1.0))
            work = [(count, -float(each))]
            for t in range(max(0, arrival + bid.delay[crew.server[w]]), slots):
                slot = self._column()
                work.append((slot, 1.0))
                self._busy.setdefault((w, t), []).append(slot)
                rows.row([(end, 1.0), (slot, -(t + 1.0))], low=0.0)
            rows.row(work, low=0.0, high=0.0)
        placed += self._in_cloud(end, [arrival + d for d in _clouds(bid, crew, kind)], chunks, each, alone)
        rows.row(placed, low=chunks, high=chunks)

    def _in_cloud(
        self, end: int, ready: Sequence[int], chunks: float, each: int, alone: int
    ) -> list[tuple[int, float]]:
        if not ready:
            return []
        some, away, whole = self._column(), self._column(chunks), self._column()
        self._rows.row([(away, 1.0), (some, -chunks)], high=0.0)
        self._rows.row([(end, 1.0), (some, -float(min(ready) + each))], low=0.0)
        self._rows.row([(end, 1.0), (whole, -float(min(ready) + alone))], low=0.0)
        return [(away, 1.0), (whole, chunks)]


def _task(bid: Bid, crew: Crew) -> int:
    task = crew.task(bid)
    if task is None:
        raise InvalidField("bids", f"job {bid.id} has nowhere to run")
    return task.worker


def _whole(i: int, bid: Bid, crew: Crew) -> tuple[int, int]:
    """Slots of a chunk, with communication and without (the crew counts in slots)."""
    kind = _task(bid, crew)
    batches = bid.epochs * bid.minibatches
    alone = batches * (bid.worker_time[kind] + bid.ps_time[crew.ps_type(bid)])
    each = alone + batches * bid.transfer_time[kind]
    if each.denominator != 1 or alone.denominator != 1:
        raise InvalidField(f"bids[{i}]", f"expected chunks of whole slots, got {each} and {alone}")
    return int(each), int(alone)


def _clouds(bid: Bid, crew: Crew, kind: int) -> list[int]:
    """Transfer times to the clouds that have such workers."""
    return [bid.delay[s] for s in np.flatnonzero(crew.inventory.cloud).tolist() if crew.count[s, kind]]
