"""The bids that stand beside the one that is decided: a policy under which bids compete reads them in the book."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from django.db.models import F, Q

from auctions.domain.inventory_snapshot import InventorySnapshot
from auctions.models import Bid, BidState, Market
from auctions.state.book import LiveBook, core_in_force
from auctions.state.recent import Recent
from cluster.database.prepared import Prepared
from scheduling.model.bid import Bid as CoreBid
from scheduling.policies.standing import COMPETITORS


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


def latest(numbers: Iterable[int]) -> list[int]:
    """Return the sequence numbers of the competitors among all bids that stand, in order."""
    return sorted(numbers)[-COMPETITORS:]


def joined(competitors: Sequence[CoreBid], bid: CoreBid) -> tuple[CoreBid, ...]:
    """Return the competitors after one more bid has begun to stand, in order of their sequence numbers."""
    return tuple(sorted((*competitors, bid), key=lambda one: int(one.id)))[-COMPETITORS:]


def let_compete(market: Market, book: LiveBook) -> None:
    """Let the policy see the bids that stand now, if it compares them; otherwise there are none, and no query."""
    book.competitors = _standing(market, book) if book.policy.competes else ()


def _standing(market: Market, book: LiveBook) -> tuple[CoreBid, ...]:
    """Return the competitors of a decision that is made now.

    They are those that a replay has at this point. So a standing bid that was withdrawn is one of them until the event
    of the next slot names its withdrawal (`transitions.recorded_withdrawals`): before, no event says that it left.
    """
    numbers = latest(number for (number,) in _NUMBERS(market.pk, book.running.now))
    known, snapshot = _cores.get((market.token,)) or Cores(), book.snapshot
    found = known.of(numbers, snapshot, lambda missing: _converted(market, snapshot, missing))
    _cores.store((market.token,), found)
    return tuple(found.by_number.values())


def _converted(market: Market, snapshot: InventorySnapshot, numbers: Sequence[int]) -> dict[int, CoreBid]:
    rows = Bid.objects.filter(market=market, sequence__in=numbers).only(*_OF_A_COMPETITOR)
    return {bid.sequence: core_in_force(bid, market, snapshot) for bid in rows}


_OF_A_COMPETITOR: Final = ("sequence", "arrival_slot", "inventory_version", "core_bid", "resolved_request")
_STANDING: Final = Q(state=BidState.STANDING) | Q(state=BidState.WITHDRAWN, unrecorded_withdrawal=True)
_NUMBERS = Prepared(
    # The sum keeps PostgreSQL from reading all bids that ever stood, which an index has in order of their numbers.
    lambda market, now: (
        Bid.objects.filter(_STANDING, market=market, stands_until__gte=now)
        .order_by((F("sequence") + 0).desc())
        .values_list("sequence")[:COMPETITORS]
    ),
    int,
    int,
)
_cores: "Recent[tuple[UUID], Cores]" = Recent(64)
"""The competitors of the last decision, by the market's token: most of them are competitors of the next one, too."""
