"""Options of many jobs in shared arrays, so that a batch of jobs is a list of rows and nothing is copied."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduling.batch.capacity import FAR
from scheduling.batch.kernel import Batch
from scheduling.batch.options import Options
from scheduling.model.bid import Bid
from scheduling.model.types import Ints

T = TypeVar("T", np.int64, np.bool_)
SMALLEST = 64
"""Number of rows that the arrays have room for at first."""
SMALLEST_LIMIT = 1 << 18
"""Number of options up to which none is forgotten, 64 bytes each."""
OF_GROUPS, OF_OPTIONS = ("duration", "number", "worker", "apart", "ready"), ("ps", "spread", "least")


@dataclass(frozen=True)
class PoolRow:
    """Place of the options of one job in the arrays."""

    bid: Bid
    index: int
    """Row of `usable`."""
    begin: int
    end: int
    """Groups from `begin` to before `end`."""
    arrival: int
    soonest: int
    """First slot in which it can use any server, no earlier than its arrival."""
    most: int
    """Largest number of workers in an option."""
    shortest: int
    """Least number of slots of an option; `FAR` if there is none."""


class OptionPool:
    """Options of jobs, one after another. Arrays are replaced when they are full, so a batch keeps what it was given.

    Not safe for several threads at once.
    """

    def __init__(self, *, servers: int) -> None:
        self.servers = servers
        self._clear()
        self._limit = SMALLEST_LIMIT

    def _clear(self) -> None:
        self.rows: dict[str, PoolRow] = {}
        """Rows by bid id."""
        self._groups = self._ways = self._jobs = 0
        self._options = _empty()
        self._usable: Ints = np.zeros((SMALLEST, self.servers), np.int64)

    @property
    def full(self) -> bool:
        """Whether options of jobs that are not needed now should be forgotten."""
        return self._ways > self._limit

    def row(self, bid: Bid) -> PoolRow | None:
        """Return the row of a job; None if it is not in the pool."""
        row = self.rows.get(bid.id)
        return row if row is not None and (row.bid is bid or row.bid == bid) else None

    def add(self, bid: Bid, options: Options) -> PoolRow:
        """Add the options of a job. A job with the same id is replaced; its space is used again after `keep`."""
        groups, ways = self._groups + len(options.number), self._ways + len(options.ps)
        old = self._options
        self._options = pool = Options(
            duration=_longer(old.duration, groups),
            number=_longer(old.number, groups),
            worker=_longer(old.worker, groups),
            apart=_longer(old.apart, groups),
            ready=_longer(old.ready, groups),
            first=_longer(old.first, groups + 1),
            ps=_longer(old.ps, ways),
            spread=_longer(old.spread, ways),
            least=_longer(old.least, ways),
        )
        for name in OF_GROUPS:
            getattr(pool, name)[self._groups : groups] = getattr(options, name)
        for name in OF_OPTIONS:
            getattr(pool, name)[self._ways : ways] = getattr(options, name)
        pool.first[self._groups : groups + 1] = options.first + self._ways
        self._usable = _longer(self._usable, self._jobs + 1)
        self._usable[self._jobs] = np.array(bid.delay, np.int64) + bid.arrival
        most = int(options.number.max(initial=1))
        shortest = int(options.duration.min(initial=FAR))
        first = bid.arrival + max(0, min(bid.delay, default=0))
        row = PoolRow(bid, self._jobs, self._groups, groups, bid.arrival, first, most, shortest)
        self.rows[bid.id] = row
        self._groups, self._ways, self._jobs = groups, ways, self._jobs + 1
        return row

    def keep(self, bids: Iterable[Bid]) -> None:
        """Forget all jobs but these."""
        kept = [(row, self._of(row)) for bid in bids if (row := self.row(bid)) is not None]
        self._clear()
        for row, options in kept:
            self.add(row.bid, options)
        self._limit = max(SMALLEST_LIMIT, 2 * self._ways)

    def batch(self, rows: Sequence[PoolRow], start: int) -> Batch:
        """Return jobs as the planner reads them; slots count from `start`."""
        facts = [(row.begin, row.end, row.index, row.arrival, row.soonest) for row in rows]
        begin, end, index, arrival, soonest = np.array(facts, np.int64).reshape(-1, 5).T.copy()
        return Batch(
            options=self._options,
            begin=begin,
            end=end,
            row=index,
            usable=self._usable,
            since=start,
            arrival=arrival - start,
            earliest=np.maximum(soonest - start, 0),
            complete=np.zeros(self._groups, np.int64),
        )

    def _of(self, row: PoolRow) -> Options:
        """Return a copy of one job's options."""
        pool, groups = self._options, slice(row.begin, row.end)
        first = pool.first[row.begin : row.end + 1]
        ways = slice(int(first[0]), int(first[-1]))
        return Options(
            duration=pool.duration[groups].copy(),
            number=pool.number[groups].copy(),
            worker=pool.worker[groups].copy(),
            apart=pool.apart[groups].copy(),
            ready=pool.ready[groups].copy(),
            first=first - first[0],
            ps=pool.ps[ways].copy(),
            spread=pool.spread[ways].copy(),
            least=pool.least[ways].copy(),
        )


def _empty() -> Options:
    return Options(
        duration=np.zeros(SMALLEST, np.int64),
        number=np.zeros(SMALLEST, np.int64),
        worker=np.zeros(SMALLEST, np.int64),
        apart=np.zeros(SMALLEST, np.bool_),
        ready=np.zeros(SMALLEST, np.int64),
        first=np.zeros(SMALLEST, np.int64),
        ps=np.zeros(SMALLEST, np.int64),
        spread=np.zeros(SMALLEST, np.int64),
        least=np.zeros(SMALLEST, np.int64),
    )


def _longer(array: NDArray[T], length: int) -> NDArray[T]:
    """Return the array, or a longer copy if it has fewer than `length` rows."""
    if length <= len(array):
        return array
    longer = np.zeros((max(length, 2 * len(array)), *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer
