"""FIFO, DRF and RRH as in the OASiS paper, which places workers and parameter servers on servers in turn."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from weakref import WeakKeyDictionary

import numpy as np

from scheduling.book.ledger import Ledger
from scheduling.book.state import Book, Job
from scheduling.model.inventory import Inventory
from scheduling.model.progress import Machines
from scheduling.model.schedule import Role
from scheduling.model.types import Ints
from scheduling.policies.baselines.base import Baseline
from scheduling.policies.baselines.drf import Drf
from scheduling.policies.baselines.fifo import Fifo
from scheduling.policies.baselines.gang import Gang, room_for
from scheduling.policies.baselines.pass_job import PassJob
from scheduling.policies.baselines.pass_state import PassState
from scheduling.policies.baselines.rrh import Rrh


class Turn:
    """The server on which the next machine is placed if it has room."""

    def __init__(self) -> None:
        self.server = 0

    def place(self, room: Ints, count: int) -> Ints | None:
        """Place `count` machines one by one where `room` is left; return the number on each server, None if too few.

        Examples
        --------
        >>> import numpy as np
        >>> from studies.papers.round_robin import Turn
        >>> turn = Turn()
        >>> turn.place(np.array([1, 3, 2]), 4).tolist()
        [1, 2, 1]
        >>> turn.server
        2
        """
        if room.sum() < count:
            return None
        placed: Ints = np.zeros_like(room)
        while count:
            server, self.server = self.server, (self.server + 1) % len(room)
            if placed[server] < room[server]:
                placed[server] += 1
                count -= 1
        return placed


_turns: WeakKeyDictionary[Ledger, Turn] = WeakKeyDictionary()


class StateInTurn(PassState):
    """A plan in progress that places machines in turn instead of packing them."""

    def __init__(self, book: Book, *, pause: int, new: Job | None) -> None:
        super().__init__(book, pause=pause, keep_drained=True, new=new)
        self._turn = _turns.setdefault(book.ledger, Turn())

    def find_place(self, task: PassJob, gang: Gang) -> Machines | None:
        """Find machines for a waiting job's gang from now to its end, in turn; None if there are none."""
        slots = task.lost() + gang.duration(task.left, spread=True)
        if slots > self.room.slots:
            return None
        free = self.room.free(slots)
        free[~task.usable] = -1
        rows = []
        for role, kind, demand, count in _machines(gang, self.inventory):
            placed = self._turn.place(room_for(free, demand), count)
            if placed is None:
                return None
            free -= placed[:, None] * demand
            rows += [(role, server, kind, number) for server, number in enumerate(placed.tolist()) if number]
        return tuple(sorted(rows))


def _machines(gang: Gang, inventory: Inventory) -> Iterator[tuple[Role, int, Ints, int]]:
    """Role, type, demand and count of the PSs and of the workers."""
    if gang.ps is not None:
        worker, ps = inventory.workers[gang.worker], inventory.parameter_servers[gang.ps]
        count = max(1, ceil(gang.count * worker.bandwidth_mbps / ps.bandwidth_mbps))
        yield Role.PS, gang.ps, inventory.ps_demand[gang.ps], count
    yield Role.WORKER, gang.worker, inventory.worker_demand[gang.worker], gang.count


class InTurn(Baseline):
    """A baseline whose machines are placed in turn."""

    def pass_state(self, book: Book, new: Job | None = None) -> PassState:
        """Return a plan in progress that places machines in turn."""
        return StateInTurn(book, pause=self.pause, new=new)


@dataclass(frozen=True)
class FifoInTurn(InTurn, Fifo):
    """FIFO, placed in turn."""


@dataclass(frozen=True)
class DrfInTurn(InTurn, Drf):
    """DRF, placed in turn."""


@dataclass(frozen=True)
class RrhInTurn(InTurn, Rrh):
    """RRH, placed in turn."""
