"""A worker that was woken for a market stays with it while bids keep coming.

To begin and end a task takes longer than a decision. So a worker decides what waits in batches, and then looks for
further bids every few milliseconds until none came for a while. It holds a claim on the market meanwhile. It gives a
batch to each of its markets in turn, and takes over markets whose bids nobody decides.

A stay ends after two seconds, so that other tasks of the worker are not kept waiting. Then, and after an error, other
workers are woken for the markets to which bids still come. No bid is forgotten between: rows are read again after a
claim is released, so a bid counts whose wake-up another worker passed by. A stay is longer than the time for which no
second wake-up is sent for a market (`waking.STILL_AWAKE_S`). If a worker dies in between, `auctions.tasks.sweep` finds
the bids.
"""

from threading import Lock
from time import monotonic, sleep
from typing import Final

from django.conf import settings
from django.db.models import Exists, OuterRef

from auctions.domain import waking
from auctions.engine import claims, decision_queue, slots
from auctions.kernels import warming
from auctions.models import Bid, BidState, Market
from auctions.runtime.task_errors import errors_logged
from cluster.database.prepared import Prepared

POLL_S: Final = 0.005
"""Time between two looks for bids where none wait."""
LINGER_S: Final = 0.5
"""Time without bids after which a worker leaves a market."""
LONGEST_S: Final = 2.0
"""Longest stay."""
PATIENCE_S: Final = 0.03
"""Time for which bids of another market wait before a worker that is busy takes them over: others were woken."""

_WAITING = Prepared(
    lambda: Market.objects.filter(
        Exists(Bid.objects.filter(market=OuterRef("pk"), state=BidState.SUBMITTED))
    ).values_list("pk")
)
_staying = Lock()
_turned_away: set[int] = set()
"""Markets for which threads of this process were woken while another thread stayed."""


def stay(market_id: int) -> int:
    """Decide bids of this market, and of others that nobody decides, while they keep coming; return how many.

    Only one thread of a process stays: it finds the bids of all markets.
    """
    _turned_away.add(market_id)
    if not _staying.acquire(blocking=False):
        return 0
    _turned_away.discard(market_id)
    try:
        return _Stay(market_id).run()
    finally:
        _staying.release()
        while _turned_away:
            waking.publish(decision_queue.TASK, _turned_away.pop())


def waiting() -> set[int]:
    """Return the markets that have bids to decide."""
    return {market_id for (market_id,) in _WAITING()}


class _Stay:
    """The markets that a worker has claimed."""

    def __init__(self, market_id: int) -> None:
        self._decided = 0
        self._ends = monotonic() + LONGEST_S
        self._busy: dict[int, float] = {}
        """Time at which each market that is claimed last had bids, in the order of their turns."""
        self._left: set[int] = set()
        """Markets that were released because no bids came."""
        self._passed_by: dict[int, float] = {market_id: 0.0}
        """Time at which each other market with bids was first seen, or its claim was last found taken."""

    def run(self) -> int:
        """Stay; return the number of bids that were processed."""
        try:
            self._take_over({*self._passed_by})
            while self._busy and monotonic() < self._ends:
                seen = waiting()
                self._take_over(seen)
                self._serve(seen)
                self._leave_quiet()
        finally:
            for market_id in self._busy:
                claims.release(market_id)
        # A bid that came just before a claim was released, or comes soon, may have no other wake-up.
        for market_id in {*self._busy, *(self._left and self._left & waiting())}:
            waking.publish(decision_queue.TASK, market_id)
        return self._decided

    def _serve(self, seen: set[int]) -> None:
        """Decide a batch of the market whose turn it is, or rest for a moment if none has bids."""
        market_id = next((known for known in self._busy if known in seen), None)
        if market_id is None:
            sleep(POLL_S)
            return
        processed = None
        with errors_logged(f"deciding bids of market {market_id}"):
            processed = decision_queue.decide_batch(market_id)
        del self._busy[market_id]  # the last one from now on
        if processed is None:
            claims.release(market_id)  # the sweep tries again
            self._ends = 0.0
            return
        self._busy[market_id] = monotonic()
        self._decided += processed

    def _take_over(self, seen: set[int]) -> None:
        """Claim markets whose bids nobody has begun to decide for a while."""
        now, patience_s = monotonic(), 0.0 if settings.EMBEDDED else PATIENCE_S
        self._passed_by = {known: since for known, since in self._passed_by.items() if known in seen}
        for market_id in seen - self._busy.keys():
            if market_id not in self._left and now < self._passed_by.setdefault(market_id, now) + patience_s:
                continue
            self._passed_by[market_id] = now
            with errors_logged(f"deciding bids of market {market_id}"):
                if warming.prepare(market_id) and claims.take(market_id):
                    self._busy[market_id] = now
                    self._left.discard(market_id)
                    slots.pass_slots(market_id)

    def _leave_quiet(self) -> None:
        """Release markets to which no bids came for a while."""
        quiet = [market_id for market_id, since in self._busy.items() if monotonic() > since + LINGER_S]
        for market_id in quiet:
            with errors_logged(f"the slots of market {market_id}"):
                slots.pass_slots(market_id)
            del self._busy[market_id]
            claims.release(market_id)
            self._left.add(market_id)
