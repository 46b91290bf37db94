"""Celery tasks of markets. A task may run twice, late or never: each one reads the rows to find its work.

If a worker process dies, its transaction is rolled back and its bid still waits. Another worker decides it when
`decide_market` runs for that market, at the latest when beat next sends `sweep`. For study jobs, see
`studies/background/dead_workers.py`.
"""

import logging
from time import monotonic
from typing import Any, Final

from celery import shared_task
from celery.signals import task_prerun, worker_init
from django.conf import settings
from django.db import DatabaseError, connections

from auctions.domain import waking
from auctions.engine import decision_queue, slots
from auctions.engine.claims import claim
from auctions.history import sealing
from auctions.kernels import compiling, warming
from auctions.models import Market
from auctions.readings import certificates, competitive_ratio
from auctions.runtime import signs
from auctions.runtime.stay import is_stopping, stay
from auctions.runtime.task_errors import errors_logged
from auctions.webhooks.delivering import deliver
from auctions.webhooks.hooks import forget
from cluster import memory, priority
from cluster.database import limits
from web import logs, tracing

DECISIONS = "celery"
"""The queue of decisions."""
BOUNDS = "bounds"
"""The queue of certificates, competitive ratios and archives."""

ARCHIVED_AT_ONCE: Final = 1000
"""Events that are archived in one piece, unless one slot has more: their replay takes a second or two."""
ARCHIVING_S: Final = 20.0
"""Time after which no further piece of a market is begun, seconds."""

WAKE_UP_S: Final = 60.0
"""Time after which a wake-up that no worker has taken is dropped: one comes every two seconds while a worker stays with
a market, and each would keep a worker for half a second. The sweep finds the bids, whatever is dropped."""

log = logging.getLogger(__name__)
tracing.watch_tasks()


@worker_init.connect
def prepare_worker(sender: Any = None, **_: object) -> None:
    """Compile or load the kernels of open markets before a deciding worker forks; a server does this while it runs.

    A worker of certificates lets all processes go first: one took a core for a second, and bids waited. So it keeps no
    worker of decisions from a kernel while it compiles it. A worker of decisions leaves more to processes that answer
    requests. Those of plans alone leave nothing to others, since runs that they start measure times.
    """
    if settings.EMBEDDED:
        return
    memory.pass_over_what_is_loaded()  # child processes share it
    queues = {DECISIONS} if sender is None else set(sender.app.amqp.queues.consume_from)
    if queues == {BOUNDS}:
        priority.give_way()
        compiling.give_way()
    if DECISIONS not in queues:
        return
    priority.let_answers_pass()
    try:
        groups = warming.groups_of_open_markets()
    except DatabaseError as error:  # there are no tables yet: tasks load what they need
        log.warning("the kernels of open markets are not known yet (%s)", error)
        return
    finally:
        connections.close_all()
    warming.compile_here(groups)


@task_prerun.connect
def limit_task(task_id: str = "", task: Any = None, **_: object) -> None:
    """Let connections of a task wait longer than those of requests, and name it in logs."""
    limits.use("worker")
    logs.begin(task=getattr(task, "name", ""), task_id=task_id)


@shared_task(expires=WAKE_UP_S)
def decide_market(market_id: int) -> int:
    """Decide the bids of one market while they keep coming; return how many were processed."""
    with errors_logged(f"deciding bids of market {market_id}"):
        return stay(market_id)
    return 0


@shared_task
def sweep() -> None:
    """Pass slots and decide a batch of bids that still wait, market by market; beat calls it every 2 s.

    Bids still wait if their wake-up was lost, or if the worker that should have decided them died. A market whose claim
    is held is left to the worker that holds it.
    """
    _give_sign_of_beat()
    for market_id in _markets():
        with errors_logged(f"sweep of market {market_id}"):
            if not warming.prepare(market_id):
                continue
            with claim(market_id) as is_held:
                if is_held:
                    slots.pass_slots(market_id)
                    decided = decision_queue.decide_batch(market_id)
            if is_held and (decided or decision_queue.has_pending(market_id)):
                waking.publish(decision_queue.TASK, market_id)  # further bids may have no other wake-up


@shared_task
def certify() -> None:
    """Renew the certificates of markets; beat calls it every 2 s.

    It is in a queue of its own with `measure`: both read many decisions, and must not stand before the next one.
    """
    _give_sign_of_beat()
    for market_id in _markets():
        with errors_logged(f"the certificate of market {market_id}"):
            if warming.prepare(market_id):
                certificates.keep_fresh(market_id)


@shared_task
def measure() -> None:
    """Compute the competitive ratios of markets that queue, if jobs were completed since."""
    for market_id in _markets():
        with errors_logged(f"measuring market {market_id}"):
            if warming.prepare(market_id):
                competitive_ratio.renew(market_id)


@shared_task
def deliver_webhooks() -> int:
    """Send messages of webhooks that are due; beat calls it every 2 s.

    It is in a queue of its own: it waits for services of users, and must stand before nothing else.
    """
    _give_sign_of_beat()
    with errors_logged("delivering messages of webhooks"):
        return deliver(is_stopping)
    return 0


@shared_task
def forget_deliveries() -> int:
    """Delete old messages of webhooks; beat calls it every hour."""
    with errors_logged("deleting old messages of webhooks"):
        return forget(settings.WEBHOOK_KEPT_DAYS)
    return 0


@shared_task
def archive_old_events() -> None:
    """Archive events that are older than their markets keep, for a while; beat calls it every five minutes."""
    for market in Market.objects.exclude(keep_days=None).select_related("cluster").order_by("pk"):
        with errors_logged(f"archiving events of market {market.pk}"):
            if warming.prepare(market.pk):
                sealing.archive_old(market, most=ARCHIVED_AT_ONCE, until=monotonic() + ARCHIVING_S)


def _give_sign_of_beat() -> None:
    with errors_logged("the sign of life of beat"):
        signs.give(signs.BEAT)


def _markets() -> list[int]:
    with errors_logged("the list of markets"):
        return list(Market.objects.order_by("pk").values_list("pk", flat=True))
    return []
