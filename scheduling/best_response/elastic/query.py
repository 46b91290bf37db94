"""One search of the elastic kernel: a bid in slots and quanta, and the response as a schedule."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scheduling.best_response.base import LATEST, RATIO, Response
from scheduling.best_response.elastic.allocation import allocate
from scheduling.best_response.elastic.compiled import Counts, Flags
from scheduling.best_response.elastic.curves import Job, earliest, make_curves, relevant_slots
from scheduling.best_response.elastic.index import ElasticIndex
from scheduling.best_response.elastic.search import search
from scheduling.best_response.elastic.tables import CheapestServers
from scheduling.best_response.elastic.type_pairs import TypePair
from scheduling.best_response.price_floor import ROUNDING
from scheduling.best_response.rigid.index import value_by_slot
from scheduling.model.bid import Bid
from scheduling.model.schedule import Placement, Role, Schedule
from scheduling.model.types import Floats, Ints

BITS = 52
"""Prices are rounded to a power of two, 2^-52 to 2^-51 of the largest cost of a schedule."""
DIGITS = 61
"""Sums of costs over all slots, and costs times a number of workers, stay below 2^61 quanta."""
SMALLEST = 1e-250
FIRST_LIMIT = 64.0
"""If the value does not limit the cost, the first search allows costs up to this many times the value."""
FINE = 256.0
"""If the limit was this many times too high, the search runs again with a lower limit."""
RANGE = 2.0**-10
"""A search for the least cost per value judges values of at least this share of the greatest; later ones the rest."""
SAME = 1.0 - 1e-9
"""Costs per value whose quotient is at least this count as equal: rounding decides between them."""
LARGEST = 1e300
"""Largest limit of a cost, money."""


@dataclass(frozen=True)
class Query:
    """A bid with its objective, against a ledger that starts at `start`."""

    bid: Bid
    start: int
    first_start: int | None
    mode: int
    above: float

    def answer(self, index: ElasticIndex) -> Response | None:
        """Return the best response with any pair of machine types; ties go to the first pair."""
        found = [r for pair in index.type_pairs(self.bid) for r in self._respond(index, pair)]
        return min(found, key=self._order) if found else None

    def _order(self, response: Response) -> tuple[float, ...]:
        """Return a sort key: the least one is the best."""
        if self.mode == LATEST:
            return (-response.schedule.start, -response.payoff, response.schedule.completion)
        if self.mode == RATIO:
            return (response.cost / response.value, response.schedule.completion)
        return (-response.payoff, response.schedule.completion)

    def _respond(self, index: ElasticIndex, pair: TypePair) -> Iterator[Response]:
        first = max(self.bid.arrival, self.start if self.first_start is None else self.first_start) - self.start
        first = min(max(first, 0), index.slots)
        usable = np.array(self.bid.delay, np.int64) + (self.bid.arrival - self.start)
        values = value_by_slot(self.bid, self.start, index.slots)
        # Of two slots, both have the same servers only if all can be used in the earlier one.
        later = np.arange(index.slots) > max(first, *usable)
        follows = index.follows & later
        relevant = self._relevant(index, pair, values, follows, first)
        pair_search = _PairSearch(
            query=self,
            pair=pair,
            workers=index.cheapest(pair.worker, relevant),
            pss=index.cheapest(pair.ps, relevant),
            relevant=relevant,
            repeats=index.repeats & later,
            follows=follows,
            needed=index.pss_needed(pair, min(self.bid.chunks, pair.worker_slots)),
            usable=usable,
            values=values,
            first=first,
        )
        response = pair_search.answer()
        if response is not None:
            yield response

    @property
    def floor(self) -> float:
        """Value that a schedule has to exceed at any price."""
        return 0.0 if self.mode == RATIO else float(self.above)

    def _relevant(self, index: ElasticIndex, pair: TypePair, values: Floats, follows: Flags, first: int) -> Flags:
        """Return the slots that the search needs, T flags: not those at whose end the value cannot pay for the workers.

        No worker costs less than the cheapest one in the first slots of sequences at rising prices.
        """
        # The latest start may be in any slot of a sequence.
        wanted = index.slots if self.mode == LATEST else pair.worker_slots
        relevant = relevant_slots(values, follows, wanted, first, self.floor)
        # Where prices do not rise, most slots repeat one another, and looking at them costs less than leaving them out.
        if index.rises_ahead and self.mode != RATIO and self.above > -math.inf:
            heads = relevant & ~follows
            workers = index.cheapest(pair.worker, heads)
            least = workers.price[heads & (workers.size > 0), :1].min(initial=math.inf)
            relevant &= values[1:] > self.above + pair.worker_slots * float(least) * (1.0 - ROUNDING)
        return relevant


@dataclass(frozen=True)
class _PairSearch:
    """The search with one pair of machine types; slots are counted from the ledger's start."""

    query: Query
    pair: TypePair
    workers: CheapestServers
    pss: CheapestServers
    relevant: Flags
    """Whether an optimal schedule may use each slot, T flags; the tables have only these slots."""
    repeats: Flags
    """Whether each slot equals the slot before, T flags."""
    follows: Flags
    """Whether each slot has the room of the slot before at no lower price, T flags."""
    needed: Counts
    """Number of PSs that n workers need, for every n that one slot may have."""
    usable: Ints
    """First slot in which each server can be used, S."""
    values: Floats
    """Value of completion at slot 0..T."""
    first: int
    """First slot that may have workers."""

    @cached_property
    def greatest_value(self) -> float:
        """Value of the earliest completion at any price, money: an upper bound of the value."""
        completion = earliest(self.workers, self.pss, self._job(1.0), self.relevant)
        return float(self.values[completion]) if completion < len(self.values) else -math.inf

    def answer(self) -> Response | None:
        """Return the best response, at prices rounded so finely that it is exact."""
        mode, above = self.query.mode, self.query.above
        if self.greatest_value == -math.inf or (mode == RATIO and self.greatest_value <= 0.0):
            return None
        if mode == RATIO or above == -math.inf:
            return self._unlimited()
        limit = self.greatest_value - above
        return self._search(limit) if limit > 0.0 else None

    def _unlimited(self) -> Response | None:
        """Search without a limit from the value: raise the limit until there is a response, then lower it.

        A limit that fits great values rounds costs that are small enough for small values to 0. So the least cost per
        value is searched again where it may be at a small value.
        """
        limit, found, blurred = FIRST_LIMIT * max(self.greatest_value, SMALLEST), None, False
        while not blurred:
            response = self._search(limit)
            if response is None:
                greatest = self.pair.worker_slots * (
                    self._greatest_price(self.workers) + self._greatest_price(self.pss)
                )
                if found is not None or limit > greatest:
                    return found
                limit = min(limit * 2.0**BITS, 2.0 * greatest)
                continue
            bound = self._greatest_cost(response)
            # Without rounding, a search with a limit that fits better finds nothing worse.
            blurred = self.query.mode == RATIO and found is not None and self._greatest_cost(found) < SAME * bound
            if not blurred:
                found = response
                if bound <= limit <= FINE * bound or bound <= 0.0:
                    break
            limit = 2.0 * bound
        if found is None or self.query.mode != RATIO:
            return found
        judged = not blurred and found.value >= RANGE * self.greatest_value
        return self._of_small_values(found, (RANGE if judged else 1.0) * self.greatest_value)

    def _greatest_cost(self, found: Response) -> float:
        """Return a cost that no better schedule exceeds, money."""
        if self.query.mode == RATIO:
            return _cost_at(self.greatest_value, found)
        return self.greatest_value - found.value + found.cost

    def _of_small_values(self, found: Response, value: float) -> Response:
        """Return the schedule of least cost per value among `found` and those that are worth at most `value`.

        They are searched from the greatest values down, each range of values with a limit that fits it.
        """
        values = self.values[1:][self.relevant]
        least = self.pair.worker_slots * self._least_price(self.workers) * (1.0 - ROUNDING)
        while True:
            top = float(values.max(initial=0.0, where=values <= value))
            bound = _cost_at(top, found)
            if bound <= least:
                return found
            response = self._search(2.0 * bound, above=RANGE * top)
            value = RANGE * top
            if response is not None and _cost_at(top, response) < SAME * bound:
                found = response
                if FINE * _cost_at(top, found) < bound:
                    # The limit was far too high, so the same values are searched with a lower one.
                    value = top

    def _search(self, limit: float, *, above: float | None = None) -> Response | None:
        """Return the best response that costs at most `limit` and whose value exceeds `above`."""
        job, above = self._job(limit), self.query.floor if above is None else above
        curves, row = make_curves(self.workers, self.pss, job, self.first, self.repeats, self.relevant)
        _, completion, counts = search(curves, row, job, self.follows, self.first, self.query.mode, above)
        return None if completion < 0 else self._response(completion, counts)

    def _job(self, limit: float) -> Job:
        bits = min(BITS, DIGITS - max(2 * len(self.needed), len(self.values)).bit_length())
        scale = math.ldexp(1.0, bits - max(math.frexp(limit)[1], -900))
        return Job(self.pair.worker_slots, self.needed, self.usable, self.values, scale, int(limit * scale) + 1)

    def _response(self, completion: int, counts: Counts) -> Response:
        start, bid = self.query.start, self.query.bid
        placements, cost = [], 0.0
        for role, kind, cheapest, each in (
            (Role.PS, self.pair.ps_type, self.pss, self.needed[counts]),
            (Role.WORKER, self.pair.worker_type, self.workers, counts),
        ):
            rows, price = allocate(cheapest, self.usable, each)
            cost += price
            placements += [Placement(start + a, start + b, role, s, kind, n) for a, b, s, n in rows.tolist()]
        schedule = Schedule(
            start=start + int(np.flatnonzero(counts)[0]), completion=start + completion, placements=tuple(placements)
        )
        return Response(schedule=schedule, value=bid.utility.at(schedule.completion - bid.arrival), cost=cost)

    def _least_price(self, cheapest: CheapestServers) -> float:
        """Return the least price of one machine in a slot in which it fits, money."""
        there = self.relevant & (cheapest.size > 0)
        return float(cheapest.price[:, :1].min(initial=math.inf, where=there[:, None]))

    def _greatest_price(self, cheapest: CheapestServers) -> float:
        """Return the greatest price of one machine in a slot in which it fits, money."""
        there = np.arange(cheapest.price.shape[1]) < cheapest.size[:, None]
        return float(cheapest.price.max(initial=0.0, where=there & self.relevant[:, None]))


def _cost_at(value: float, response: Response) -> float:
    """Return the cost at which a schedule of this value has the response's cost per value, money."""
    if value < response.value:
        return value / response.value * response.cost
    return min(LARGEST, value * (response.cost / response.value))
