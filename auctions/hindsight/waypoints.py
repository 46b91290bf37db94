"""Tellings that stand at some event of a record, kept in memory: the way to a later event begins at the nearest.

A record never changes, so they are never wrong. Of a market where promises move, every event up to a bid's decision has
to be told before the bid's policy can be asked again: without them that would take longer with each bid.
"""

from collections import OrderedDict
from threading import Lock
from typing import Final
from uuid import UUID

from auctions.hindsight.retelling import Retelling

EVENTS: Final = 64
"""Between two that are kept."""
KEPT: Final = 12
"""Of all markets together, those that were used last: half a megabyte each where a hundred jobs are under way."""

_kept: "OrderedDict[tuple[UUID, int], Retelling]" = OrderedDict()
"""By the market's token and the version of the first event that is not told yet."""
_guard = Lock()


def nearest(market: UUID, version: int) -> tuple[int, Retelling] | None:
    """The latest telling that has not taken the event of this version, and the first event it has not taken."""
    with _guard:
        found = max((since for token, since in _kept if token == market and since <= version), default=None)
        if found is None:
            return None
        _kept.move_to_end((market, found))
        return found, _kept[market, found]


def keep(market: UUID, since: int, telling: Retelling) -> None:
    """Remember a telling that has taken all events before this one; it must not move any more."""
    with _guard:
        _kept[market, since] = telling
        _kept.move_to_end((market, since))
        while len(_kept) > KEPT:
            _kept.popitem(last=False)


def forget() -> None:
    """Empty this process's memory."""
    with _guard:
        _kept.clear()
