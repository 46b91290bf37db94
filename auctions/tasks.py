"""What Celery runs. Every task may come twice, late or never: each looks at the rows, not at its message."""

import logging

from celery import shared_task
from celery.signals import worker_init
from django.conf import settings

from auctions import certificates, lane, quotients, slots
from auctions.models import Market
from scheduling import kernels

log = logging.getLogger(__name__)


@worker_init.connect
def warm_up_worker(**_: object) -> None:
    """Compile or load the kernels before the first task, and before the worker forks; a server does so meanwhile."""
    if not settings.EMBEDDED:
        kernels.warm_up()


@shared_task
def decide_market(market_id: int) -> int:
    """Decide the waiting bids of one market; returns how many."""
    decided = lane.drain(market_id, at_most=lane.LONGEST_TURN)
    if decided == lane.LONGEST_TURN and lane.waiting(market_id):
        lane.wake(market_id)
    return decided


@shared_task
def sweep() -> None:
    """Find what lost wake-ups missed, let slots pass, and renew certificates, market by market."""
    for market_id in Market.objects.order_by("pk").values_list("pk", flat=True):
        try:
            slots.pass_slots(market_id)
            lane.drain(market_id, at_most=lane.LONGEST_TURN)
            certificates.keep_fresh(market_id)
        except Exception:  # one market's trouble must not stop the others
            log.exception("sweep of market %s failed", market_id)


@shared_task
def measure() -> None:
    """Compute the competitive quotients of markets that queue, where jobs were completed since."""
    for market_id in Market.objects.order_by("pk").values_list("pk", flat=True):
        try:
            quotients.renew(market_id)
        except Exception:  # one market's trouble must not stop the others
            log.exception("measuring market %s failed", market_id)
