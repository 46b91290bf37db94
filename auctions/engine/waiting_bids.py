"""Limit how many bids of one user wait for their decisions in a market: bids of others wait behind them."""

from collections import Counter
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet

from auctions.domain.errors import TooManyWaiting
from auctions.models import Bid, BidState, Market
from auctions.state.recent import Recent

_decided: Final[Recent[tuple[UUID], int]] = Recent(100)
"""For each market, by its token, a number of bids from the first on of which none waits.

A quarantined bid that is put back in the queue may wait among them; it is not counted then.
"""


class WaitingBids:
    """The bids that wait in one market, counted under its lock, with those that the transaction stores."""

    def __init__(self, market: Market) -> None:
        self._market = market
        self._new: Counter[int] = Counter()

    def add(self, owner: int, count: int) -> None:
        """Count new bids of a user, by the user's key; `market.submitted` includes them already.

        Raises
        ------
        TooManyWaiting
            If more than `settings.WAITING_BIDS` of the user's bids would wait. Nothing is counted then.
        """
        most: int = settings.WAITING_BIDS
        # Nobody has more bids that wait than there are numbers behind the decided ones: most bids need no query.
        if self._behind_decided() > most:
            first = self._rows().order_by("sequence").values_list("sequence", flat=True).first()
            stored = self._market.submitted - self._new.total() - count
            _decided.store((self._market.token,), stored if first is None else first - 1)
        if self._behind_decided() > most:
            waiting = self._rows().filter(owner=owner).count() + self._new[owner]
            if waiting + count > most:
                raise TooManyWaiting(
                    f"{waiting} bids of yours wait for their decisions in this market; at most {most} may."
                )
        self._new[owner] += count

    def _behind_decided(self) -> int:
        return self._market.submitted - (_decided.get((self._market.token,)) or 0)

    def _rows(self) -> QuerySet[Bid]:
        return Bid.objects.filter(market=self._market, state=BidState.SUBMITTED)
