"""Best responses of divisible jobs at given prices. Private: arrays only, modified in place."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduling.best_response.divided.compiled import inner, kernel
from scheduling.model.types import Floats, Ints

ENOUGH = 1.0 - 1e-9
"""A job with this much of its work done is complete: sums of doubles may not make a job late that is not."""


class Modes(NamedTuple):
    """The ways to run of all jobs, one after another, M in all."""

    begin: Ints
    """The first of each job, J + 1."""
    speed: Floats
    """Share of the job's work that is done in a slot, at most, M."""
    use: Floats
    """Use of each resource and rounding cut, M x G."""
    first: Ints
    """The first slot, M."""


class Pieces(NamedTuple):
    """A heap of pieces of slots, the dearest first."""

    slope: Floats
    """Money for all the job's work at this price."""
    width: Floats
    """Share of the work."""
    slot: Ints
    low: Ints
    high: Ints
    """Edges of the hull from mode `low` to mode `high`; low is -1 for not running."""


@kernel
def respond(
    modes: Modes, prices: Floats, value_at: Floats, willing: NDArray[np.bool_], best: Floats, until: Ints, taken: Floats
) -> None:
    """The greatest payoff of each job, the completion it chooses (-1: none), and what all of them hold.

    Prices are T x G, values are J x (T + 2): of completion at slot 0..T, and later, where nothing costs anything.
    A job that is not willing has to run. `best` and `until` are J, `taken` is T x G.
    """
    slots = prices.shape[0]
    taken[:] = 0.0
    for j in range(len(best)):
        begin, end = modes.begin[j], modes.begin[j + 1]
        size = max(1, (end - begin) * slots)
        pieces = Pieces(
            np.empty(size),
            np.empty(size),
            np.empty(size, np.int64),
            np.empty(size, np.int64),
            np.empty(size, np.int64),
        )
        best[j], until[j] = _choose(modes, begin, end, prices, value_at[j], willing[j], pieces)
        if 0 <= until[j] <= slots:
            count, _, _ = _fill(modes, begin, end, prices, until[j], value_at[j], -np.inf, pieces)
            _take(modes, pieces, count, taken)


@inner
def _choose(
    modes: Modes, begin: int, end: int, prices: Floats, value_at: Floats, willing: bool, pieces: Pieces
) -> tuple[float, int]:
    slots = prices.shape[0]
    most, choice = (0.0, -1) if willing else (-np.inf, -1)
    if value_at[slots + 1] > most:
        most, choice = value_at[slots + 1], slots + 1
    _, payoff, at = _fill(modes, begin, end, prices, slots, value_at, most, pieces)
    if payoff > most:
        most, choice = payoff, at
    return most, choice


@inner
def _fill(
    modes: Modes, begin: int, end: int, prices: Floats, slots: int, value_at: Floats, floor: float, pieces: Pieces
) -> tuple[int, float, int]:
    """The cheapest pieces of slots before `slots` that hold a job's work: how many; the best payoff, and its slot.

    Adding slots one by one, the dearest pieces fall out: what is left is the least cost of completion by each slot.
    The value never rises, so no later completion is better than its value alone.
    """
    count, held, cost = 0, 0.0, 0.0
    most, choice = floor, -1
    values = np.empty(end - begin)
    first = slots
    for m in range(begin, end):
        first = min(first, modes.first[m])
    for t in range(first, slots):
        if value_at[t + 1] <= most:
            break
        for m in range(begin, end):
            values[m - begin] = 0.0
            for r in range(prices.shape[1]):
                values[m - begin] += modes.use[m, r] * prices[t, r]
        count, held, cost = _add_slot(modes, begin, end, values, t, pieces, count, held, cost)
        if held >= ENOUGH:
            spare = max(0.0, held - 1.0)
            payoff = value_at[t + 1] - max(0.0, cost - spare * pieces.slope[0])
            if payoff > most:
                most, choice = payoff, t + 1
    return count, most, choice


@inner
def _add_slot(
    modes: Modes,
    begin: int,
    end: int,
    values: Floats,
    t: int,
    pieces: Pieces,
    count: int,
    held: float,
    cost: float,
) -> tuple[int, float, float]:
    """Add the pieces of the lower hull of a slot's modes that are not too dear; `values` is what each mode costs."""
    low, speed, value = -1, 0.0, 0.0
    while True:
        high, slope = _next_corner(modes, begin, end, values, t, speed, value)
        if high < 0 or (held >= ENOUGH and slope >= pieces.slope[0]):
            return count, held, cost
        width = modes.speed[high] - speed
        _push(pieces, count, slope, width, t, low, high)
        count, held, cost = count + 1, held + width, cost + slope * width
        while count > 0 and held - pieces.width[0] >= ENOUGH:
            held, cost = held - pieces.width[0], cost - pieces.slope[0] * pieces.width[0]
            _pop(pieces, count)
            count -= 1
        low, speed, value = high, modes.speed[high], values[high - begin]


@inner
def _next_corner(
    modes: Modes, begin: int, end: int, values: Floats, t: int, speed: float, value: float
) -> tuple[int, float]:
    """The next corner of the hull: the faster mode that costs least for what it does more; -1 if there is none."""
    high, slope = -1, np.inf
    for m in range(begin, end):
        if modes.first[m] <= t and modes.speed[m] > speed:
            rise = (values[m - begin] - value) / (modes.speed[m] - speed)
            if rise < slope or (rise == slope and modes.speed[m] > modes.speed[high]):
                high, slope = m, rise
    return high, slope


@inner
def _take(modes: Modes, pieces: Pieces, count: int, taken: Floats) -> None:
    """Add what the pieces hold; of the dearest, only what is needed."""
    held = 0.0
    for i in range(count):
        held += pieces.width[i]
    for i in range(count):
        width = pieces.width[i] - max(0.0, held - 1.0) if i == 0 else pieces.width[i]
        low, high, t = pieces.low[i], pieces.high[i], pieces.slot[i]
        share = width / (modes.speed[high] - (modes.speed[low] if low >= 0 else 0.0))
        for r in range(taken.shape[1]):
            taken[t, r] += share * (modes.use[high, r] - (modes.use[low, r] if low >= 0 else 0.0))


@inner
def _put(pieces: Pieces, at: int, slope: float, width: float, slot: int, low: int, high: int) -> None:
    pieces.slope[at], pieces.width[at], pieces.slot[at] = slope, width, slot
    pieces.low[at], pieces.high[at] = low, high


@inner
def _copy(pieces: Pieces, source: int, to: int) -> None:
    slope, width = pieces.slope[source], pieces.width[source]
    _put(pieces, to, slope, width, pieces.slot[source], pieces.low[source], pieces.high[source])


@inner
def _push(pieces: Pieces, count: int, slope: float, width: float, slot: int, low: int, high: int) -> None:
    at = count
    while at > 0 and pieces.slope[(at - 1) // 2] < slope:
        _copy(pieces, (at - 1) // 2, at)
        at = (at - 1) // 2
    _put(pieces, at, slope, width, slot, low, high)


@inner
def _pop(pieces: Pieces, count: int) -> None:
    """Take the dearest piece out."""
    last, at = count - 1, 0
    while True:
        child = 2 * at + 1
        if child >= last:
            break
        if child + 1 < last and pieces.slope[child + 1] > pieces.slope[child]:
            child += 1
        if pieces.slope[child] <= pieces.slope[last]:
            break
        _copy(pieces, child, at)
        at = child
    _copy(pieces, last, at)
