"""Errors of the executor with one job, or with a whole cluster: it tries again, and the others go on.

A row for operators says what was raised, and is deleted when the executor has succeeded. A job that fails is left alone
for 1, 2, 4 ... 60 s; its processes run on, and their shims end them with their machines.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from django.db import DatabaseError, InterfaceError, OperationalError

from auctions.models import Bid
from cluster import clock
from execution.engines.base import EngineError
from execution.lease import fenced
from execution.models import LONGEST_PROBLEM, Defect, Execution
from web import logs

LONGEST_DELAY_S: Final = 60.0
"""Longest time until a job is tried again, seconds; the first time is a second."""
MOST_TRIES: Final = 8
"""Failures in a row, within two minutes, after which a job fails for an error that no wait mends."""
OUTSIDE: Final = (EngineError, OSError)
"""Errors of what the executor uses, such as a full disk: they end by themselves or by an operator."""
UNUSABLE: Final = (OperationalError, InterfaceError)
"""Errors of the database itself, for which no job is to blame."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Failure:
    """Failures in a row."""

    number: int
    until: float = 0.0
    """Time before which it is not tried again, by a clock that is never set."""

    @property
    def is_last(self) -> bool:
        """Whether it need not be tried again, unless the error is one of `OUTSIDE`."""
        return self.number >= MOST_TRIES


class Defects:
    """The failures that one executor knows; those of an earlier one are read from their rows."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int | None], Failure] = {}
        """Keys of the execution and the bid; the key of the bid is null for the loop of the cluster."""
        self._fences: dict[int, int] = {}

    def begin(self, fence: int, execution: Execution) -> None:
        """Read what an earlier executor failed on, once."""
        if self._fences.get(execution.pk) == fence:
            return
        for one in Defect.objects.filter(execution=execution):
            self._known[execution.pk, one.bid_id] = Failure(one.failures)
        self._fences[execution.pk] = fence

    def waits(self, execution: Execution, bid: int, *, tick: float) -> bool:
        """Return whether a job is left alone for now."""
        known = self._known.get((execution.pk, bid))
        return known is not None and tick < known.until

    def note(self, fence: int, execution: Execution, bid: Bid | None, error: Exception, *, tick: float) -> Failure:
        """Log a failure with the ids of what it concerns, and store it for operators."""
        key = execution.pk, None if bid is None else bid.pk
        number = 1 + self._known.get(key, Failure(0)).number
        failure = self._known[key] = Failure(number, tick + min(2.0 ** min(number - 1, 10), LONGEST_DELAY_S))
        ids: dict[str, str | int] = {"market": execution.cluster.name}
        if bid is not None:
            ids["bid"] = bid.sequence
        with logs.named(**ids):
            if isinstance(error, OUTSIDE):
                log.warning("the executor failed, %d times in a row: %s", number, error)
            elif bid is not None or number & (number - 1) == 0:  # the loop of a cluster is tried again each second
                log.error("the executor failed, %d times in a row", number, exc_info=error)
        _store(fence, execution, bid, error, number)
        return failure

    def mended(self, fence: int, execution: Execution, bids: Iterable[int | None]) -> None:
        """Forget what the executor has now succeeded with: jobs by key of the bid, None for the loop of a cluster."""
        gone = [bid for bid in bids if (execution.pk, bid) in self._known]
        if not gone:
            return
        rows = Defect.objects.filter(execution=execution)
        with fenced(fence):
            rows.filter(bid__in=[bid for bid in gone if bid is not None]).delete()
            if None in gone:
                rows.filter(bid=None).delete()
        for bid in gone:
            del self._known[execution.pk, bid]

    def forget_others(self, fence: int, execution: Execution, bids: Iterable[int]) -> None:
        """Forget jobs that need nothing more, so that only those of these bids are left."""
        left = {None, *bids}
        self.mended(fence, execution, [bid for of, bid in self._known if of == execution.pk and bid not in left])


def _store(fence: int, execution: Execution, bid: Bid | None, error: Exception, number: int) -> None:
    words = f"{type(error).__name__}: {error}".replace("\0", "\N{REPLACEMENT CHARACTER}")
    fields = {"problem": words[:LONGEST_PROBLEM], "failures": number, "at": clock.now()}
    try:
        with fenced(fence):
            Defect.objects.update_or_create(execution=execution, bid=bid, defaults=fields)
    except (DatabaseError, InterfaceError) as problem:  # it is in the log
        log.warning("a defect could not be stored: %s", problem)
