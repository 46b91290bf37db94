"""States of a market after some events of its record, kept in memory: a replay to a later event begins at the nearest.

A record never changes, so these states stay correct. Where jobs may be moved, every event before a bid's decision is
replayed before the policy can be asked about the bid again. Without kept states that takes longer with each bid.
"""

from collections import OrderedDict
from threading import Lock
from typing import Final
from uuid import UUID

from auctions.counterfactual.replayed import ReplayedMarket

EVENTS: Final = 32
"""Between two kept states."""
KEPT: Final = 12
"""Kept states of all markets together, those used last. Each takes about half a megabyte per hundred jobs."""

_kept: "OrderedDict[tuple[UUID, int], ReplayedMarket]" = OrderedDict()
"""By the market's token and the version of the first event that is not replayed yet."""
_guard = Lock()


def nearest(market: UUID, version: int) -> tuple[int, ReplayedMarket] | None:
    """The version of the first event that is not replayed, and the state before it; the latest one up to `version`."""
    with _guard:
        found = max((since for token, since in _kept if token == market and since <= version), default=None)
        if found is None:
            return None
        _kept.move_to_end((market, found))
        return found, _kept[market, found]


def keep(market: UUID, since: int, telling: ReplayedMarket) -> None:
    """Keep a state after all events before version `since`; the caller must not change it any more."""
    with _guard:
        _kept[market, since] = telling
        _kept.move_to_end((market, since))
        while len(_kept) > KEPT:
            _kept.popitem(last=False)


def forget() -> None:
    """Empty this process's memory."""
    with _guard:
        _kept.clear()
