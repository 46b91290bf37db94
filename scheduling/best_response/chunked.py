"""The recursion of the OASiS paper: in every slot a job trains a whole number of data chunks (Algorithm 2).

It is kept for comparison. It is more restrictive than the elastic kernel: the workers of a slot are rounded up to
whole chunks, so some jobs that fit are rejected or pay too much, and a job whose chunk needs more than N worker-slots
never runs.
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scheduling.best_response.base import PriceOf, Response, slots_ahead
from scheduling.best_response.elastic.compiled import Counts
from scheduling.best_response.elastic.type_pairs import TypePair, type_pairs
from scheduling.book.ledger import Ledger
from scheduling.model.bid import Bid
from scheduling.model.inventory import MachineType
from scheduling.model.schedule import Placement, Role, Schedule
from scheduling.model.types import Floats, Ints


@dataclass(frozen=True)
class ChunkKernel:
    """Best responses of the paper's recursion on one ledger at its posted prices.

    Notes
    -----
    O(T N E N) additions for each pair of types, against the paper's O(T (E N)^2): for n workers only the largest
    number of chunks matters. DP_COST(a - 1, 0) is 0 and all others are infinite; the paper does not state this.

    References
    ----------
    .. [1] Y. Bao et al., "Online Job Scheduling in Distributed Machine Learning Clusters", Algorithm 2.

    Examples
    --------
    >>> from scheduling.best_response.base import NoPrice
    >>> from scheduling.best_response.chunked import ChunkKernel
    >>> from scheduling.book.ledger import Ledger
    >>> from scheduling.model.example import INVENTORY, job
    >>> kernel = ChunkKernel(Ledger(INVENTORY, start=0, slots=8), NoPrice())
    >>> response = kernel.best(job())
    >>> response.schedule.completion, response.payoff
    (2, 8.0)
    """

    ledger: Ledger
    prices: PriceOf

    def best(self, bid: Bid, *, above: float = 0.0, first_start: int | None = None) -> Response | None:
        """Return the schedule of greatest payoff if it exceeds `above`; ties go to the earliest completion."""
        answers = [self._answer(bid, table, table.payoffs(bid)) for table in self._tables(bid, first_start)]
        found = [answer for answer in answers if answer is not None and answer.payoff > above]
        return max(found, key=lambda answer: (answer.payoff, -answer.schedule.completion), default=None)

    def min_cost_per_value(self, bid: Bid) -> Response | None:
        """Return the schedule of least cost per unit of value, among those of positive value."""
        answers = [self._answer(bid, table, -table.ratios(bid)) for table in self._tables(bid, None)]
        found = [answer for answer in answers if answer is not None and answer.value > 0]
        return min(found, key=lambda answer: (answer.cost / answer.value, answer.schedule.completion), default=None)

    def latest(self, bid: Bid) -> Response | None:
        """Return the schedule of positive payoff that starts last."""
        response = self.best(bid)
        low, high = self.ledger.start, self.ledger.end
        while response is not None and high - max(low, response.schedule.start) > 1:
            # Search by bisection: if a start at or after a slot is possible, so is one at or after an earlier slot.
            low = max(low, response.schedule.start)
            middle = (low + high) // 2
            later = self.best(bid, first_start=middle)
            low, high, response = (middle, high, later) if later is not None else (low, middle, response)
        return response

    def _tables(self, bid: Bid, first_start: int | None) -> Iterator["_Table"]:
        ledger = self.ledger
        first = max(ledger.start, bid.arrival, ledger.start if first_start is None else first_start) - ledger.start
        if first >= len(ledger.used):
            return
        free = ledger.inventory.capacity - ledger.used
        slots = np.arange(ledger.start, ledger.end)[:, np.newaxis]
        prices = self.prices.of(ledger.used, ledger.inventory.capacity, slots_ahead(len(ledger.used)))
        usable = slots >= bid.arrival + np.array(bid.delay)
        for pair in type_pairs(bid, ledger.inventory, slots=len(ledger.used)):
            workers, pss = (_Cheapest.of(machine, free, prices, usable, first) for machine in (pair.worker, pair.ps))
            yield _fill(bid, pair, workers, pss, ledger.start + first)

    def _answer(self, bid: Bid, table: "_Table", merit: Floats) -> Response | None:
        """Return the schedule complete by the slot of greatest merit; ties go to the first slot."""
        if not len(merit) or merit.max() == -np.inf:
            return None
        last = int(np.argmax(merit))
        schedule = table.schedule(last)
        value = bid.utility.at(schedule.completion - bid.arrival)
        return Response(schedule, value, float(table.cost[last]))


@dataclass(frozen=True)
class _Cheapest:
    """Servers where machines of one type fit in each slot, cheapest first, ties to the first server."""

    order: Ints
    """Servers, T x S."""
    room: Ints
    """Machines that fit, in that order, T x S."""
    unit: Floats
    """Price of one machine, in that order, T x S."""

    @classmethod
    def of(cls, machine: MachineType, free: Ints, prices: Floats, usable: np.ndarray, first: int) -> "_Cheapest":
        demand = np.array(machine.demand)
        needed = demand > 0
        room = np.where(usable, (free[:, :, needed] // demand[needed]).min(axis=2), 0)[first:]
        unit = (prices @ demand)[first:]
        order = np.argsort(unit, axis=1, kind="stable")
        return cls(order, np.take_along_axis(room, order, axis=1), np.take_along_axis(unit, order, axis=1))

    def costs(self, t: int, most: int) -> Floats:
        """Return the cost of 0, 1, 2, ... machines in slot t, up to what fits and at most `most`."""
        units = np.repeat(self.unit[t], np.minimum(self.room[t], most))[:most]
        return np.concatenate([[0.0], units.cumsum()])

    def counts(self, t: int, machines: int) -> Iterator[tuple[int, int]]:
        """Yield servers and the number of the cheapest machines on each in slot t."""
        for server, room in zip(self.order[t].tolist(), self.room[t].tolist(), strict=True):
            here = min(machines, room)
            if here:
                yield server, here
            machines -= here


@dataclass(frozen=True)
class _Table:
    """DP_COST of all slots: the least cost of training all chunks by each slot, and the choices."""

    pair: TypePair
    workers: _Cheapest
    pss: _Cheapest
    first: int
    """The slot of the first row."""
    gains: Ints
    """Number of whole chunks that 0, 1, 2, ... workers train in a slot."""
    cost: Floats
    """Least cost of training all chunks by the end of each slot, inf if impossible."""
    chosen: Counts
    """Number of workers in each slot, by the number of chunks trained by its end, T x (E N + 1)."""

    def payoffs(self, bid: Bid) -> Floats:
        """Return value - cost when complete by each slot; -inf if impossible."""
        return self._values(bid) - self.cost

    def ratios(self, bid: Bid) -> Floats:
        """Return cost per unit of value; inf where the value is 0 or the completion impossible."""
        values = self._values(bid)
        ratios: Floats = np.divide(self.cost, values, out=np.full(len(values), np.inf), where=values > 0)
        return ratios

    def _values(self, bid: Bid) -> Floats:
        elapsed = self.first + 1 - bid.arrival
        values: Floats = bid.utility.curve(elapsed + len(self.cost))[elapsed:]
        return values

    def schedule(self, last: int) -> Schedule:
        """Return the cheapest schedule that trains all chunks by the end of slot number `last`."""
        left, held = self.chosen.shape[1] - 1, Counter[tuple[int, Role, int, int]]()
        for t in range(last, -1, -1):
            n = int(self.chosen[t, left])
            left = max(0, left - int(self.gains[n]))
            for role, kind, hosts, count in (
                (Role.WORKER, self.pair.worker_type, self.workers, n),
                (Role.PS, self.pair.ps_type, self.pss, self.pair.pss(n)),
            ):
                for server, many in hosts.counts(t, count):
                    held[self.first + t, role, server, kind] += many
        rows = [Placement(t, t + 1, role, s, kind, n) for (t, role, s, kind), n in held.items()]
        return Schedule(start=min(p.start for p in rows), completion=max(p.end for p in rows), placements=tuple(rows))


def _fill(bid: Bid, pair: TypePair, workers: _Cheapest, pss: _Cheapest, first: int) -> _Table:
    chunks, most = bid.epochs * bid.chunks, min(bid.chunks, pair.worker_slots)
    pace = pair.step * bid.minibatches
    gains = np.array([min(chunks, math.floor(n / pace)) if pace else min(n, 1) * chunks for n in range(most + 1)])
    served = np.array([pair.pss(n) for n in range(most + 1)])
    # One more worker without one more chunk never pays off.
    useful = [n for n in range(1, most + 1) if gains[n] > gains[n - 1]]
    done = np.full(chunks + 1, np.inf)
    done[0] = 0.0
    chosen = np.zeros((len(workers.order), chunks + 1), dtype=np.int32)
    cost = np.full(len(chosen), np.inf)
    for t in range(len(chosen)):
        for_workers, for_pss = workers.costs(t, most), pss.costs(t, int(served[-1]))
        before = done.copy()
        for n in useful:
            if n >= len(for_workers) or served[n] >= len(for_pss):
                break
            gain, price = int(gains[n]), for_workers[n] + for_pss[served[n]]
            now = np.concatenate([np.full(gain, before[0]), before[: chunks + 1 - gain]]) + price
            now[0] = np.inf
            better = now < done
            chosen[t, better] = n
            done[better] = now[better]
        cost[t] = done[chunks]
    return _Table(pair, workers, pss, first, gains, cost, chosen)
