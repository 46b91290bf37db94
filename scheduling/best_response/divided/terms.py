"""Terms of the dual bound of jobs that may be stopped and moved at any time: their best responses, divided at will."""

from dataclasses import replace

import numpy as np

from scheduling.best_response.divided.kernel import Modes, respond
from scheduling.best_response.divided.modes import Rooms, best_modes, list_modes
from scheduling.best_response.rigid.index import value_by_slot
from scheduling.best_response.rigid.kernel import smallest_problem
from scheduling.model.bid import Bid
from scheduling.model.ending import Ending
from scheduling.model.inventory import Inventory
from scheduling.model.types import Floats


class DividedTerms:
    """Payoffs of bids on the empty cluster at fixed prices, whatever machines they use in whatever slots.

    Each machine costs what it costs on the cheapest server that could host it in that slot, and a job shares the time
    of a slot at will among its modes. No schedule of any policy costs less, so each term is at least the payoff of
    every schedule at these prices.

    Parameters
    ----------
    inventory
        Servers and machine types; all of them are free.
    prices
        Money per unit and slot, T x S x R, none negative, for the slots from `start` on.
    start
        First slot of the prices.

    Examples
    --------
    >>> import numpy as np
    >>> from scheduling.model.example import INVENTORY, job
    >>> terms = DividedTerms(INVENTORY, np.ones((4, 2, 2)), start=0)
    >>> terms.term(job()), terms.term(job(), first=1)
    (2.0, 1.0)
    """

    def __init__(self, inventory: Inventory, prices: Floats, *, start: int) -> None:
        workers, pss = len(inventory.workers), len(inventory.parameter_servers)
        each = np.eye(workers + pss, dtype=np.int64)
        self._rooms = Rooms(inventory, worker_use=each[:workers], ps_use=each[workers:])
        demands = np.concatenate([inventory.worker_demand, inventory.ps_demand])
        hosts = np.concatenate([self._rooms.worker, self._rooms.ps], axis=1) > 0
        costs = np.where(hosts, prices @ demands.T, np.inf).min(axis=1)
        self._costs = np.where(hosts.any(axis=0), costs, 0.0)
        """Cost of a machine of each type in each slot, workers first; 0 if no server hosts one: no mode uses it."""
        self._start = start
        self._taken = np.zeros_like(self._costs)

    def term(self, bid: Bid, *, first: int | None = None, end: int | None = None) -> float:
        """Return max(0, best payoff), money: one bid's term of the dual bound.

        Only schedules that start in slot `first` or later and are complete by slot `end` count.
        """
        modes = best_modes(list_modes(bid, self._rooms))
        if not modes:
            return 0.0
        if end is not None:
            bid = replace(bid, utility=Ending(bid.utility, end - bid.arrival))
        begin = self._start if first is None else max(first, self._start)
        values = np.append(value_by_slot(bid, self._start, len(self._costs)), -np.inf)
        best = np.zeros(1)
        respond(
            Modes(
                begin=np.array([0, len(modes)]),
                speed=np.array([mode.speed for mode in modes]),
                use=np.array([mode.use for mode in modes]),
                first=np.array([max(begin, bid.arrival + mode.delay) - self._start for mode in modes]),
            ),
            self._costs,
            values[np.newaxis],
            np.ones(1, dtype=np.bool_),
            best,
            np.zeros(1, dtype=np.int64),
            self._taken,
        )
        return float(best[0])


def warm_up() -> None:
    """Compile the kernel, or load it from disk."""
    ledger, bid = smallest_problem()
    DividedTerms(ledger.inventory, np.zeros(ledger.used.shape), start=ledger.start).term(bid)
