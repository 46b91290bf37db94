"""The bids that stand beside the one that is decided: a policy under which bids compete reads them in the book."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final
from uuid import UUID

from django.db.models import Q

from auctions.domain.inventory_snapshot import InventorySnapshot
from auctions.domain.owners import owner_number
from auctions.models import Bid, BidState, Market
from auctions.state.book import LiveBook, core_in_force
from auctions.state.recent import Recent
from cluster.database.prepared import Prepared
from scheduling.model.bid import Bid as CoreBid
from scheduling.policies.standing import competing


@dataclass(frozen=True)
class Cores:
    """Competitors in the positions of one inventory, by sequence number, in order."""

    snapshot: InventorySnapshot | None = None
    by_number: Mapping[int, CoreBid] = field(default_factory=dict)

    def of(
        self,
        numbers: Sequence[int],
        snapshot: InventorySnapshot,
        convert: Callable[[Sequence[int]], Mapping[int, CoreBid]],
    ) -> "Cores":
        """Return the competitors with these numbers in the positions of an inventory; `convert` gives unknown ones."""
        known = self.by_number if self._is_of(snapshot) else {}
        missing = [number for number in numbers if number not in known]
        more = convert(missing) if missing else {}
        return Cores(snapshot, {number: known.get(number) or more[number] for number in numbers})

    def _is_of(self, snapshot: InventorySnapshot) -> bool:
        own = self.snapshot
        return own is snapshot or (own is not None and own.to_json() == snapshot.to_json())


class Competitors:
    """The bids that stand in a market and, of them, those that compete in its book.

    Those that compete are the ones that a replay has at this point. So a standing bid that was withdrawn is one of them
    until the event of the next slot names its withdrawal (`transitions.recorded_withdrawals`): before, no event says
    that it left.
    """

    def __init__(self, market: Market, book: LiveBook) -> None:
        self._market, self._book = market, book
        rows = _STANDING_BIDS(market.pk, book.running.now)
        self._owners = {number: owner_number(user=user, team=team) for number, user, team in rows}
        self._show(_cores.get((market.token,)) or Cores())
        _cores.store((market.token,), self._known)

    def join(self, bid: CoreBid, owner: int) -> None:
        """Let a bid compete that has begun to stand and has no row as a standing bid yet."""
        number = int(bid.id)
        self._owners[number] = owner
        # Not stored: the transaction may be rolled back, and the bid be decided in a later slot.
        self._show(replace(self._known, by_number={**self._known.by_number, number: bid}))

    def _show(self, known: Cores) -> None:
        book = self._book
        self._known = known.of(
            competing(self._owners), book.snapshot, lambda missing: _converted(self._market, book.snapshot, missing)
        )
        book.competitors = tuple(self._known.by_number.values())


def let_compete(market: Market, book: LiveBook) -> Competitors | None:
    """Let the policy see the bids that stand now, if it compares them; otherwise there are none, and no query."""
    if book.policy.competes:
        return Competitors(market, book)
    book.competitors = ()
    return None


def _converted(market: Market, snapshot: InventorySnapshot, numbers: Sequence[int]) -> dict[int, CoreBid]:
    rows = Bid.objects.filter(market=market, sequence__in=numbers).only(*_OF_A_COMPETITOR)
    return {bid.sequence: core_in_force(bid, market, snapshot) for bid in rows}


_OF_A_COMPETITOR: Final = ("sequence", "arrival_slot", "inventory_version", "core_bid", "resolved_request")
_STANDING: Final = Q(state=BidState.STANDING) | Q(state=BidState.WITHDRAWN, unrecorded_withdrawal=True)
_STANDING_BIDS = Prepared(
    lambda market, now: Bid.objects.filter(_STANDING, market=market, stands_until__gte=now).values_list(
        "sequence", "owner_id", "team_id"
    ),
    int,
    int,
)
_cores: "Recent[tuple[UUID], Cores]" = Recent(64)
"""The competitors of the last decision, by the market's token: most of them are competitors of the next one, too."""
