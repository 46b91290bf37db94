"""One version of a market: its rows, the time and the book, shared by all readings of a page or a response.

Without a snapshot, a reading that reads the clock and then rows several times would mix versions, because slots pass
and bids are decided in between.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from auctions.domain.lock import MarketTime, market_time
from auctions.models import Market
from auctions.state import book as books
from auctions.state.book import SharedBook
from cluster.database.prepared import Prepared
from cluster.read_transaction import read_transaction


class MarketSnapshot:
    """A market at one version, and the time at which it is read.

    The time may be later than the last processed slot: slots begin before a worker processes them. The book is that of
    the rows, advanced to this time.
    """

    def __init__(self, market: Market) -> None:
        self.market = market
        self.moment: MarketTime = market_time(market)
        self._book: SharedBook | None = None

    @property
    def book(self) -> SharedBook:
        """The book at the time of reading; shared with other readers."""
        if self._book is None:
            self._book = books.shared(self.market, now=self.moment.now)
        return self._book


_NAMED = Prepared(lambda name: Market.objects.select_related("cluster").filter(cluster__name=name)[:1], str)
_BY_KEY = Prepared(lambda market: Market.objects.select_related("cluster").filter(pk=market), int)
_snapshots: ContextVar[dict[int, MarketSnapshot] | None] = ContextVar("snapshots", default=None)


@contextmanager
def one_version() -> Iterator[None]:
    """Read everything in the block from one version of the database; nothing can be written. Inner blocks join.

    It can also decorate a reading, or a view that combines several readings.
    """
    if _snapshots.get() is not None:
        yield
        return
    with read_transaction():
        outer = _snapshots.set({})
        try:
            yield
        finally:
            _snapshots.reset(outer)


def in_one_version() -> bool:
    """Return whether this thread reads within `one_version()`."""
    return _snapshots.get() is not None


def market_named(name: str) -> Market | None:
    """Return the market of the cluster of that name, None if there is none; in `one_version()`, its snapshot's row."""
    found = _NAMED.first(name)
    known = _snapshots.get()
    if found is None or known is None:
        return found
    if found.pk not in known:
        known[found.pk] = MarketSnapshot(found)
    return known[found.pk].market


def market_snapshot(market: Market) -> MarketSnapshot:
    """Return the market in the version that this block reads; its clock is read once."""
    known = _snapshots.get()
    if known is None:
        raise RuntimeError("a snapshot of a market is taken within `one_version()`")
    if market.pk not in known:
        (fresh,) = _BY_KEY(market.pk)
        known[market.pk] = MarketSnapshot(fresh)
    return known[market.pk]
