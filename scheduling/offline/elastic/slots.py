"""Numbers of workers of elastic jobs that fit a slot together."""

from collections.abc import Collection, Iterable

import numpy as np
from numpy.typing import NDArray

from scheduling.model.types import Ints
from scheduling.offline.elastic.machines import Machines
from scheduling.offline.elastic.patterns import Heights, maximal_patterns
from scheduling.offline.elastic.slot_tables import Hosted, some_of, table
from scheduling.offline.program import TooLarge

Runs = tuple[int, ...]


class Slots:
    """Free units and possible hosts in each slot; tables are kept from one problem to the next."""

    def __init__(self, machines: Machines) -> None:
        self.machines = machines
        problem = machines.problem
        self._free = problem.free()
        at = problem.start + np.arange(problem.slots)[:, None]
        self._hosts: list[list[NDArray[np.bool_]]] = []
        """Servers that may host a worker, and a PS, of each run, T x S flags each."""
        for run in machines.runs:
            bid = problem.bids[run.job]
            ready = at >= bid.arrival + np.array(bid.delay)
            self._hosts.append([ready & (room > 0) for room in machines.rooms(run)])
        free = self._free.reshape(problem.slots, -1)
        self._no_less: NDArray[np.bool_] = np.asarray((free[:, None] >= free[None]).all(axis=2))
        self._tables: list[tuple[int, Runs, Heights | None]] = []
        """Slot, runs in the order of the table, and the table unless it is too large."""
        self._patterns: dict[tuple[int, Runs], Ints] = {}

    def live(self, r: int, t: int) -> bool:
        """Whether the run's machines are somewhere to be placed."""
        return all(bool(hosts[t].any()) for hosts in self._hosts[r])

    def allows(self, t: int, other: int, runs: Iterable[int]) -> bool:
        """Whether what these runs may have in the other slot they may have in slot t."""
        return bool(self._no_less[t, other]) and all(
            bool((hosts[t] | ~hosts[other]).all()) for r in runs for hosts in self._hosts[r]
        )

    def equal(self, t: int, other: int, runs: Collection[int]) -> bool:
        """Whether these runs may have the same in both."""
        return self.allows(t, other, runs) and self.allows(other, t, runs)

    def patterns(self, t: int, runs: Runs) -> Ints:
        """Return the maximal patterns of workers that fit slot t with their PSs, K x all runs.

        Runs that are not required have none. Raises TooLarge if there is too much to look at.
        """
        if (t, runs) not in self._patterns:
            # The one with the most workers last: each number of the others is a row of the table.
            order = tuple(sorted(runs, key=lambda r: (self.machines.runs[r].most, r)))
            some = maximal_patterns(self._table(t, order))
            found = self._patterns[t, runs] = np.zeros((len(some), len(self.machines.runs)), dtype=np.int64)
            found[:, order] = some
        return self._patterns[t, runs]

    def _table(self, t: int, order: Runs) -> Heights:
        """Part of one that is known, if there is one for these runs and others."""
        for slot, known, heights in self._tables:
            if {*order} <= {*known} and self.equal(t, slot, order):
                if heights is not None:
                    return some_of(heights, [r in order for r in known])
                if len(order) == len(known):
                    raise TooLarge("as before")
        made: Heights | None = None
        try:
            made = table([self._hosted(t, r) for r in order], self._free[t])
        finally:
            self._tables.append((t, order, made))
        return made

    def _hosted(self, t: int, r: int) -> Hosted:
        run = self.machines.runs[r]
        workers, pss = (
            np.where(hosts[t], room, 0) for hosts, room in zip(self._hosts[r], self.machines.rooms(run), strict=True)
        )
        return Hosted(run, (workers, pss))
