"""Limit how many bids of one user, and of one team, wait for their decisions or stand in a market.

Others wait behind those that wait. Those that stand are looked at whenever slots begin, and at every decision where
bids compete, so without a limit the bids of one owner would make a market slow for all.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet

from auctions.domain.errors import TooManyWaiting
from auctions.domain.owners import owner_number
from auctions.models import Bid, BidState, Market
from auctions.state.recent import Recent

_decided: Final[Recent[tuple[UUID], int]] = Recent(100)
"""For each market, by its token, a number of bids from the first on of which none waits.

A quarantined bid that is put back in the queue may wait among them; it is not counted then.
"""
_closed: Final[Recent[tuple[UUID, int], int]] = Recent(1000)
"""For each market, by its token, and each user or team, by its owner number, how many of the market's bids are others'
or were no longer open when this was counted. So of its later bids at most the rest is open.
"""
OPEN: Final = (BidState.SUBMITTED, BidState.STANDING)


class WaitingBids:
    """The bids that wait or stand in one market, counted under its lock, with those that the transaction stores."""

    def __init__(self, market: Market) -> None:
        self._market = market
        self._new: Counter[int] = Counter()
        """New bids by the keys of their owners."""
        self._new_of_team: Counter[int | None] = Counter()

    def add(self, owner: int, team: int | None, count: int) -> None:
        """Count new bids of a user and a team, by their keys; `market.submitted` includes them already.

        Raises
        ------
        TooManyWaiting
            If more than `settings.WAITING_BIDS` of the user's bids, or `settings.WAITING_BIDS_OF_TEAM` of the team's,
            would wait, or more than `settings.OPEN_BIDS` or `settings.OPEN_BIDS_OF_TEAM` would wait or stand. Nothing
            is counted then.
        """
        most: int = min(settings.WAITING_BIDS, settings.WAITING_BIDS_OF_TEAM)
        # Nobody has more bids that wait than there are numbers behind the decided ones: most bids need no query.
        if self._behind_decided() > most:
            first = self._rows().order_by("sequence").values_list("sequence", flat=True).first()
            stored = self._market.submitted - self._new.total() - count
            _decided.store((self._market.token,), stored if first is None else first - 1)
        if self._behind_decided() > most:
            waiting = self._rows().filter(owner=owner).count() + self._new[owner]
            _check(waiting, count, settings.WAITING_BIDS, of="yours")
            if team is not None:
                waiting = self._rows().filter(team=team).count() + self._new_of_team[team]
                _check(waiting, count, settings.WAITING_BIDS_OF_TEAM, of="your team")
        self._check_open(owner, {"owner": owner}, count, self._new[owner], settings.OPEN_BIDS, of="yours")
        if team is not None:
            number, new = owner_number(user=owner, team=team), self._new_of_team[team]
            self._check_open(number, {"team": team}, count, new, settings.OPEN_BIDS_OF_TEAM, of="your team")
        self._new[owner] += count
        self._new_of_team[team] += count

    def _check_open(self, number: int, whose: Mapping[str, int], count: int, new: int, most: int, *, of: str) -> None:
        """Raise TooManyWaiting if more than `most` of these bids, which belong to this owner number, would be open."""
        key = self._market.token, number
        if self._market.submitted - (_closed.get(key) or 0) <= most:
            return
        found = self._market.bids.filter(state__in=OPEN, **whose).count()
        _closed.store(key, self._market.submitted - self._new.total() - count - found)
        if found + new + count > most:
            raise TooManyWaiting(f"{found + new} bids of {of} wait or stand in this market; at most {most} may.")

    def _behind_decided(self) -> int:
        return self._market.submitted - (_decided.get((self._market.token,)) or 0)

    def _rows(self) -> QuerySet[Bid]:
        return Bid.objects.filter(market=self._market, state=BidState.SUBMITTED)


def _check(waiting: int, count: int, most: int, *, of: str) -> None:
    if waiting + count > most:
        raise TooManyWaiting(f"{waiting} bids of {of} wait for their decisions in this market; at most {most} may.")
