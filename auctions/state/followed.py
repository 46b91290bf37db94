"""Values of markets that follow their events: read once in full by each process, then only what has changed.

A value such as the sum over all bids that have ended would take longer to read the larger the market is. Bids that have
ended do not change any more, so a process remembers the value with the version of the market, and adds what the events
since then name. Nothing of it is stored, so there is no row that could differ from the bids.
"""

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import Final, Generic, TypeVar
from uuid import UUID
from weakref import WeakValueDictionary

from django.db import transaction
from django.db.models import Q

from auctions.domain.lock import ENDS
from auctions.models import Event, EventKind, Market
from auctions.state.market_snapshot import in_one_version

V = TypeVar("V")

DECIDED: Final = frozenset({EventKind.ADMITTED, EventKind.REJECTED, EventKind.WITHDRAWN})
"""Kinds of events that decide or end a bid, beside those of `ENDS` and slots."""
MOST_EVENTS: Final = 2_000
"""Number of events that are always followed."""
SHARE_FOLLOWED: Final = 8
"""Everything is read again after more events than that and than 1 / SHARE_FOLLOWED of the market's bids."""
VERSIONS_KEPT: Final = 3
"""Versions of a market whose values are kept: readers of an earlier one may not have finished."""
Known = tuple[tuple[int, V], ...]


class Followed(Generic[V]):
    """A value of each market, for readers within one snapshot of the database, and for holders of the market's lock.

    `read` reads it in full. `follow` returns a new value from an earlier one and the sequence numbers of the bids that
    were decided or have ended since; it must not change the earlier one. Values of `most` markets are kept.
    """

    def __init__(
        self, read: Callable[[Market], V], follow: Callable[[Market, V, frozenset[int]], V], *, most: int
    ) -> None:
        self._read, self._follow, self._most = read, follow, most
        self._known: OrderedDict[UUID, Known[V]] = OrderedDict()
        self._turns: WeakValueDictionary[UUID, Lock] = WeakValueDictionary()
        """Locks of markets whose values are being made."""
        self._guard = Lock()

    def at(self, market: Market) -> V:
        """Return the value at the version of the market's row, and remember it.

        In `one_version()` what is read is committed, so the value is remembered at once, and readers of a market take
        turns: otherwise all that come to a new process would read everything. A holder of the market's lock waits for
        no reader, and its value is remembered once the transaction is committed.
        """
        if not in_one_version():
            value = self._made(market)
            transaction.on_commit(partial(self._keep, market.token, market.version, value))
            return value
        with self._guard:
            turn = self._turns.setdefault(market.token, Lock())
        with turn:
            value = self._made(market)
            self._keep(market.token, market.version, value)
        return value

    def forget(self) -> None:
        """Forget all values: the next ones are read in full."""
        with self._guard:
            self._known.clear()

    def _made(self, market: Market) -> V:
        version, before = self._nearest(market)
        if before is not None and version == market.version:
            return before
        changed = None if before is None else changed_bids(market, since=version)
        return self._read(market) if before is None or changed is None else self._follow(market, before, changed)

    def _keep(self, token: UUID, version: int, value: V) -> None:
        with self._guard:
            known = {**dict(self._known.pop(token, ())), version: value}
            self._known[token] = tuple((one, known[one]) for one in sorted(known)[-VERSIONS_KEPT:])
            while len(self._known) > self._most:
                self._known.popitem(last=False)

    def _nearest(self, market: Market) -> tuple[int, V | None]:
        with self._guard:
            for version, value in reversed(self._known.get(market.token, ())):
                if version <= market.version:
                    return version, value
        return 0, None


def changed_bids(market: Market, *, since: int) -> frozenset[int] | None:
    """Return the sequence numbers of bids that were decided or have ended after a version, by the events.

    None if there are too many events, or if some of them are archived. A standing bid that was withdrawn is named by
    the event of the next slot.
    """
    if since < market.sealed_version:
        return None
    events = Event.objects.filter(market=market, version__gt=since, version__lte=market.version).order_by()
    named = Q(kind__in=sorted(DECIDED | ENDS)) | Q(kind=EventKind.SLOT)
    columns = ("bid__sequence", "payload__completed", "payload__withdrawn", "payload__standing")
    most = max(MOST_EVENTS, market.submitted // SHARE_FOLLOWED)
    rows = list(events.filter(named).values_list(*columns)[: most + 1])
    if len(rows) > most:
        return None
    found: set[int] = set()
    for number, completed, withdrawn, standing in rows:
        found.update(() if number is None else (number,), completed or (), withdrawn or ())
        found.update((standing or {}).get("ended", ()))
    return frozenset(found)
