"""Whether this process serves, and whether the service decides: for containers, load balancers and monitoring.

`/livez` says that this process answers, `/healthz` that it can serve: the database has the tables that it needs, and
the database and its own worker answer.
`/readyz` says whether the service takes bids and decides them, and names every cause why it does not.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from functools import cache
from threading import Lock
from time import monotonic
from typing import Final

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import F, Max, Min, Q
from django.http import HttpRequest, JsonResponse
from redis.exceptions import RedisError, ResponseError

from auctions.domain import announcements
from auctions.models import Bid, BidState, Event, EventKind, Market, WorkerSign
from auctions.runtime import disks, signs
from cluster import clock
from cluster.database.busy import is_busy
from cluster.models import ClockKind

Checks = dict[str, str]
"""The problem that each check has found; empty without one."""

BEAT_LOST_S: Final = 60.0
"""Time without a task from beat after which beat counts as gone."""
STUCK_S: Final = 60.0
"""Age of a bid that waits for its decision, and of a slot that was not processed, from which a market counts as stuck.
"""
CLOCK_S: Final = 5.0
"""Difference of the clocks of two hosts that is no fault."""
BEHIND_S: Final = 10.0
"""Time since the latest decision of a queue within which its workers count as at work, though bids wait for long."""
KEPT_S: Final = 1.0
"""Time for which the result of all checks is kept: anybody may ask for it."""
WRITTEN: Final = "shadowprice:ready"
"""A key that is written to see whether the broker takes tasks: one that takes none may still answer."""
BUSY: Final = "the database is away or busy"
MIGRATED_S: Final = 10.0
"""Time for which it is taken for granted that all migrations are applied, once they were."""

worker_is_silent: Callable[[], bool] = bool
"""Whether this server's own worker gives no sign of life; never, in a server without one."""

_migrated_at = float("-inf")
"""Time at which all migrations were last found applied."""
_kept: tuple[float, Checks] | None = None
_said: frozenset[str] = frozenset()
"""The checks that found a problem when that was last logged."""
_guard = Lock()

log = logging.getLogger("shadowprice.health")


def livez(_request: HttpRequest) -> JsonResponse:
    """200: this process answers. It asks for nothing else, so that a database that is away restarts no process."""
    return JsonResponse({"status": "ok"})


def healthz(_request: HttpRequest) -> JsonResponse:
    """200 when the database and the worker answer and all migrations are applied, 503 otherwise."""
    problem = _database() or _migrations() or _own_worker()
    return JsonResponse({"status": problem or "ok"}, status=503 if problem else 200)


def readyz(_request: HttpRequest) -> JsonResponse:
    """200 when bids are taken and decided, 503 with every cause when they are not."""
    found = checks()
    is_ready = not any(found.values())
    body = {
        "status": "ok" if is_ready else "not ready",
        "checks": {name: text or "ok" for name, text in found.items()},
    }
    return JsonResponse(body, status=200 if is_ready else 503)


def checks() -> Checks:
    """Return the problem that each check finds; the result is kept for a second."""
    global _kept
    with _guard:
        if _kept is None or monotonic() > _kept[0] + KEPT_S:
            _kept = monotonic(), dict(_checks())
            _say(_kept[1])
        return _kept[1]


def _say(found: Checks) -> None:
    """Log which checks find a problem when these are others than before; probes ask every few seconds."""
    global _said
    wrong = {name: text for name, text in found.items() if text}
    if wrong.keys() != _said:
        _said = frozenset(wrong)
        if wrong:
            log.warning("Not ready: %s", "; ".join(f"{name}: {text}" for name, text in wrong.items()))
        else:
            log.warning("Ready.")


def _checks() -> Iterator[tuple[str, str]]:
    database = _database()
    yield "database", database or _migrations() or _writes_of_database()
    yield "disk", _disks(() if database else signs.full_disks())
    if not settings.EMBEDDED:
        yield "broker", _broker()
    for name, check in (
        ("workers", _workers),
        ("beat", _beat),
        ("decisions", _decisions),
        ("slots", _slots),
        ("clock", _clock),
    ):
        yield name, "not known without the database" if database else check()


def _database() -> str:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except (DatabaseError, InterfaceError) as error:
        if not is_busy(error):
            raise
        return BUSY
    return ""


def _migrations() -> str:
    """Migrations of this version that the database lacks; it may have those of a newer one, during an upgrade."""
    global _migrated_at
    if monotonic() < _migrated_at + MIGRATED_S:
        return ""
    try:
        missing = sorted(_latest_migrations() - MigrationRecorder(connection).applied_migrations().keys())
    except (DatabaseError, InterfaceError) as error:
        if not is_busy(error):
            raise
        return BUSY
    if missing:
        return f"migrations are not applied: {', '.join('.'.join(one) for one in missing)}"
    _migrated_at = monotonic()
    return ""


@cache
def _latest_migrations() -> frozenset[tuple[str, str]]:
    """Return the last migration of each app; those before it are applied if it is."""
    return frozenset(MigrationLoader(None).graph.leaf_nodes())


def _own_worker() -> str:
    return "the worker gives no sign of life" if worker_is_silent() else ""


def _writes_of_database() -> str:
    try:
        if disks.database_is_read_only():
            return "the database is read-only"
        is_full = disks.database_cannot_write()
    except (DatabaseError, InterfaceError) as error:
        if not is_busy(error):
            raise
        return BUSY
    return "the database cannot write: its disk is full, or temp_file_limit below 1 MB" if is_full else ""


def _disks(of_workers: Iterable[str]) -> str:
    """Disks of this host, and those that workers on other hosts have named."""
    here = disks.full()
    names = [*here, *(f"{name} of a worker" for name in sorted(set(of_workers) - set(here)))]
    return f"less than {settings.LEAST_FREE_MB:g} MB left on the disk of: {', '.join(names)}" if names else ""


def _broker() -> str:
    client = announcements.broker()
    try:
        client.set(WRITTEN, 1, ex=60)
    except ResponseError:
        return "the broker stores nothing: it is full, read-only or cannot write to its disk"
    except (RedisError, OSError):
        return "the broker does not answer"
    finally:
        client.close()
    return ""


def _workers() -> str:
    """Each queue of tasks needs a worker."""
    if worker_is_silent():
        return _own_worker()
    since = clock.now() - timedelta(seconds=signs.LOST_S)
    alive = WorkerSign.objects.filter(at__gte=since).exclude(queues="").values_list("queues", flat=True)
    missing = sorted(set(settings.QUEUES) - {queue for queues in alive for queue in queues.split(",")})
    return f"no worker takes tasks of: {', '.join(missing)}" if missing else ""


def _beat() -> str:
    """Workers that stay with markets run no sweep, so tasks of other queues give the sign, too."""
    since = clock.now() - timedelta(seconds=BEAT_LOST_S)
    at = WorkerSign.objects.filter(name=signs.BEAT).values_list("at", flat=True).first()
    if at is None:
        return "no task from beat has run yet"
    return "" if at >= since else f"no task from beat has run for {BEAT_LOST_S:.0f} s: beat or its workers are gone"


def _decisions() -> str:
    """A bid that waits for long, though slots pass and workers live: its decision queue is stuck, or has more bids
    than its worker decides in that time.
    """
    waiting = Bid.objects.filter(state=BidState.SUBMITTED).order_by().values("market_id")
    oldest = waiting.annotate(first=Min("submitted_at")).filter(first__lt=clock.now() - timedelta(seconds=STUCK_S))
    late = [row["market_id"] for row in oldest]
    behind = sum(_decides(market_id) for market_id in late)
    counts = (("stuck", len(late) - behind), ("behind", behind))
    queues = " and ".join(f"{_count(count, 'decision queue')} {word}" for word, count in counts if count)
    return f"{queues}: a bid has waited for more than {STUCK_S:.0f} s" if queues else ""


def _decides(market_id: int) -> bool:
    """Return whether a bid has just left the decision queue. A bid that stood has left it long before it is decided."""
    left = Q(kind=EventKind.STANDING) | Q(
        kind__in=(EventKind.ADMITTED, EventKind.REJECTED, EventKind.QUARANTINED), bid__stands_until=None
    )
    latest = Event.objects.filter(left, market=market_id).order_by("-version").values_list("at", flat=True).first()
    return latest is not None and latest >= clock.now() - timedelta(seconds=BEHIND_S)


def _count(count: int, name: str) -> str:
    return f"1 {name} is" if count == 1 else f"{count} {name}s are"


def _slots() -> str:
    """A market in which a slot has begun for long and was not processed is stuck, though no bid may wait in it."""
    count = sum(_late_s(market) > STUCK_S for market in Market.objects.select_related("cluster"))
    words = f"{_count(count, 'market')} stuck"
    return f"{words}: a slot began more than {STUCK_S:.0f} s ago and was not processed" if count else ""


def _late_s(market: Market) -> float:
    """Return for how long the next slot to be processed has begun, wall clock; below 0 if it has not."""
    cluster = market.cluster
    late = clock.read(cluster).seconds - (market.slot + 1) * cluster.slot_seconds
    return late / (cluster.clock_speed if cluster.clock_kind == ClockKind.VIRTUAL else 1.0)


def _clock() -> str:
    """The clock of this host against the times that others, or this host before, have stored."""
    latest = Event.objects.filter(version=F("market__version")).order_by()
    stored = [latest.aggregate(at=Max("at"))["at"], WorkerSign.objects.aggregate(at=Max("at"))["at"]]
    ahead_s = max(((at - clock.now()).total_seconds() for at in stored if at is not None), default=0.0)
    return f"the clock of this host is {ahead_s:.0f} s behind what is stored" if ahead_s > CLOCK_S else ""
