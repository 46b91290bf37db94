"""One executor is active: it holds the lease, and its fence is written with what it does.

Another executor takes the lease when it has run out, with a greater fence. What the former one writes afterwards is
refused, so two executors never work on the same rows. A lease has also run out if nobody has renewed it for as long as
it lasts: its end may lie far ahead, because the clock was ahead when it was written.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from django.db import transaction

from cluster.database.prepared import Prepared
from execution.models import Lease

NAME: Final = "executor"
LASTS_S: Final = 15.0
"""Seconds after its last renewal until a lease has run out."""

_LOCKED = Prepared(lambda: Lease.objects.select_for_update().filter(name=NAME))
_HELD = Prepared(
    lambda fence: Lease.objects.select_for_update().filter(name=NAME, fence=fence).values_list("pk"),
    int,
)


class Fenced(Exception):
    """Another executor has taken the lease."""


@dataclass
class Wait:
    """The wait of one process for the lease, by a clock that is never set."""

    until: float | None = None
    """End of the lease as this process last saw it, seconds since 1970."""
    began: float = 0.0
    """Time at which it first saw this end, seconds."""

    def is_over(self, until: float, *, tick: float) -> bool:
        """Return whether the end has not changed for as long as a lease lasts; `tick` is the time in seconds."""
        if until != self.until:
            self.until, self.began = until, tick
        return tick >= self.began + LASTS_S


def take(holder: str, *, now: float, wait: Wait, tick: float) -> int | None:
    """Take or renew the lease; return its fence, or None while another executor holds it.

    Parameters
    ----------
    holder
        Name of the process, different for each start.
    now
        Seconds since 1970.
    wait
        The wait of this process.
    tick
        Seconds of a clock that is never set.
    """
    with transaction.atomic():
        lease = _LOCKED.first()
        if lease is None:
            lease, _ = Lease.objects.select_for_update().get_or_create(
                name=NAME, defaults={"holder": holder, "fence": 1, "since": now, "until": now + LASTS_S}
            )
        if lease.holder != holder:
            if not wait.is_over(lease.until, tick=tick) and now < lease.until:
                return None
            lease.holder = holder
            lease.fence += 1
            lease.since = now
        lease.until = now + LASTS_S
        lease.save()
        return lease.fence


def give_back(holder: str, *, now: float) -> None:
    """Let another executor take the lease at once; `now` is in seconds since 1970."""
    Lease.objects.filter(name=NAME, holder=holder, until__gt=now).update(until=now)


@contextmanager
def fenced(fence: int) -> Iterator[None]:
    """Write in a transaction that holds only if no other executor has taken the lease; raises Fenced otherwise."""
    with transaction.atomic():
        if not _HELD(fence):
            raise Fenced("another executor is active")
        yield
