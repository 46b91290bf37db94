"""A worker that was woken for a market stays with it while bids keep coming.

To begin and end a task takes longer than a decision. So a worker decides what waits in batches, and then looks for
further bids every few milliseconds until none came for a while. It claims the market meanwhile. It gives a batch to
each of its markets in turn, and takes over markets whose bids nobody decides. If it has several markets and falls
behind, it leaves one to the others; before it compiles kernels, it leaves all of them. Every two seconds it does what a
sweep does for slots, since it runs no sweep while it stays.

A stay ends after half an hour, or when the worker is to stop. Then, and after an error, other workers are woken for
the markets to which bids still come. No bid is forgotten between: rows are read again after a market is released, so a
bid counts whose wake-up another worker passed by. A worker stays without bids for longer than those may be apart for
which no further wake-up is sent (`waking.STILL_AWAKE_S`). If a worker dies in between, `auctions.tasks.sweep` finds the
bids.

A worker keeps a market for long, because another one has to bring its book up to date first. A stay is shorter than the
time after which Redis gives an unfinished task to another worker (an hour).
"""

from multiprocessing import RawValue
from threading import Lock
from time import monotonic, sleep
from typing import Final

from celery.signals import worker_shutting_down
from django.conf import settings
from django.db.models import Exists, OuterRef

from auctions.domain import waking
from auctions.engine import claims, decision_queue, slots
from auctions.kernels import warming
from auctions.models import Bid, BidState, Market
from auctions.runtime.task_errors import errors_logged
from cluster.database.prepared import Prepared

POLL_S: Final = 0.01
"""Time between two looks for bids where none can be decided yet."""
EMBEDDED_POLL_S: Final = 0.02
"""The same on the machine that also serves the pages."""
BATCH_EVERY_S: Final = 0.05
"""Time from the beginning of a batch to that of the market's next one, unless the batch was full: bids that come
meanwhile share a transaction, which takes longer than a decision."""
LINGER_S: Final = 0.5
"""Time without bids after which a worker leaves a market."""
LONGEST_S: Final = 1800.0
"""Longest stay."""
SLOTS_EVERY_S: Final = 2.0
"""Time between two looks for slots that have begun."""
LEAVES_EVERY_S: Final = 0.5
"""Time between two markets that a worker leaves to others because it falls behind."""
PATIENCE_S: Final = 0.03
"""Time for which bids of another market wait before a worker that is busy takes them over: others were woken."""
TAKEN_S: Final = 0.25
"""Time after which a claim that another worker had is tried again."""

_WAITING = Prepared(
    lambda: Market.objects.filter(
        Exists(Bid.objects.filter(market=OuterRef("pk"), state=BidState.SUBMITTED))
    ).values_list("pk")
)
_staying = Lock()
_stopping = RawValue("b", 0)
"""It is 1 once the worker is to stop; its child processes share this memory."""
_turned_away: set[int] = set()
"""Markets for which threads of this process were woken while another thread stayed."""


def set_stopping(is_stopping: bool) -> None:
    """State whether the worker is to stop, so that stays end with the batch under way."""
    _stopping.value = is_stopping


def is_stopping() -> bool:
    """Return whether the worker is to stop."""
    return bool(_stopping.value)


@worker_shutting_down.connect
def _stop(**_: object) -> None:
    set_stopping(True)


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
        now = monotonic()
        self._ends, self._slots_at, self._leaves_at = now + LONGEST_S, now + SLOTS_EVERY_S, now
        self._busy: dict[int, float] = {}
        """Time at which each market that is claimed last had bids, in the order of their turns."""
        self._next_at: dict[int, float] = {}
        """Earliest time of the next batch of each market that had one in this stay."""
        self._left: set[int] = set()
        """Markets that were released because no bids came."""
        self._passed_by: dict[int, float] = {market_id: 0.0}
        """Time at which each other market with bids was first seen; a later one if its claim was found taken."""

    def run(self) -> int:
        """Stay; return the number of bids that were processed."""
        try:
            self._take_over({*self._passed_by})
            while self._busy and monotonic() < self._ends and not _stopping.value:
                seen = waiting()
                self._take_over(seen)
                self._serve(seen)
                self._leave_quiet()
                self._pass_slots()
        finally:
            for market_id in self._busy:
                claims.release(market_id)
        # A bid that came just before a claim was released, or comes soon, may have no other wake-up.
        for market_id in {*self._busy, *(self._left and self._left & waiting())}:
            waking.publish(decision_queue.TASK, market_id)
        return self._decided

    def _serve(self, seen: set[int]) -> None:
        """Decide a batch of the market whose turn it is, or rest for a moment if none has bids to decide yet."""
        began = monotonic()
        due = (known for known in self._busy if known in seen and began >= self._next_at.get(known, 0.0))
        market_id = next(due, None)
        if market_id is None:
            sleep(EMBEDDED_POLL_S if settings.EMBEDDED else POLL_S)
            return
        processed = None
        with errors_logged(f"deciding bids of market {market_id}"):
            processed = decision_queue.decide_batch(market_id, at_most=decision_queue.LARGEST_BATCH)
        del self._busy[market_id]  # the last one from now on
        if processed is None:
            claims.release(market_id)  # the sweep tries again
            self._ends = 0.0
            return
        self._busy[market_id] = now = monotonic()
        self._decided += processed
        is_full = processed == decision_queue.LARGEST_BATCH
        self._next_at[market_id] = now if is_full else began + BATCH_EVERY_S
        is_behind = is_full and len(self._busy) > 1 and not settings.EMBEDDED
        if is_behind and now >= self._leaves_at:
            self._leave_to_others(market_id, now)

    def _take_over(self, seen: set[int]) -> None:
        """Claim markets whose bids nobody has begun to decide for a while."""
        now, patience_s = monotonic(), 0.0 if settings.EMBEDDED else PATIENCE_S
        self._passed_by = {known: at for known, at in self._passed_by.items() if known in seen or at > now}
        for market_id in seen - self._busy.keys():
            waits_s = 0.0 if market_id in self._left else patience_s
            if now < self._passed_by.setdefault(market_id, now) + waits_s:
                continue
            self._passed_by[market_id] = now if settings.EMBEDDED else now + TAKEN_S - patience_s
            with errors_logged(f"deciding bids of market {market_id}"):
                if self._prepare(market_id) and claims.take(market_id):
                    self._busy[market_id] = now
                    self._left.discard(market_id)
                    slots.pass_slots(market_id)

    def _prepare(self, market_id: int) -> bool:
        """Return whether a market may be processed; others take over those of this worker before it compiles for it."""
        return warming.prepare(market_id, before_compiling=self._leave_all_to_others)

    def _leave_all_to_others(self) -> None:
        for market_id in [*self._busy]:
            self._leave_to_others(market_id, monotonic())

    def _leave_to_others(self, market_id: int, now: float) -> None:
        """Release a market, and wake another worker for it."""
        del self._busy[market_id]
        claims.release(market_id)
        self._leaves_at, self._passed_by[market_id] = now + LEAVES_EVERY_S, now
        waking.publish(decision_queue.TASK, market_id)

    def _pass_slots(self) -> None:
        """Pass slots of markets that no worker has claimed, and of this worker's own."""
        if monotonic() < self._slots_at:
            return
        self._slots_at = monotonic() + SLOTS_EVERY_S
        for market_id in Market.objects.order_by("pk").values_list("pk", flat=True):
            with errors_logged(f"the slots of market {market_id}"):
                if market_id in self._busy:
                    slots.pass_slots(market_id)
                    continue
                with claims.claim(market_id) as is_held:
                    if is_held and self._prepare(market_id):
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
