"""States of a market after some events of its record, kept in memory: a replay to a later event begins at the nearest.

A record never changes, so these states stay correct. Where jobs may be moved, every event before a bid's decision is
replayed before the policy can decide the bid again. Without kept states that takes longer with each bid.
"""

from typing import Final
from uuid import UUID

from auctions.counterfactual.replayed import ReplayedMarket
from auctions.state.recent import Recent

EVENTS: Final = 32
"""Number of events between two stored states."""

_states: "Recent[tuple[UUID, int], ReplayedMarket]" = Recent(12)
"""States by the market's token and the version of the first event that is not replayed yet, of all markets together.

Each takes about half a megabyte per hundred jobs.
"""


def nearest(market: UUID, version: int) -> tuple[int, ReplayedMarket] | None:
    """Return the latest stored state up to `version`, with the version of the first event that is not replayed."""
    earlier = [since for token, since in _states.known() if token == market and since <= version]
    for since in sorted(earlier, reverse=True):
        found = _states.get((market, since))
        if found is not None:
            return since, found
    return None


def store(market: UUID, since: int, state: ReplayedMarket) -> None:
    """Store the state after all events before version `since`; the caller must not change it any more."""
    _states.store((market, since), state)


def forget() -> None:
    """Drop all states of this process."""
    _states.clear()
