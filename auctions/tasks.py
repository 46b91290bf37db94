"""What Celery runs. Every task may come twice, late or never: each looks at the rows, not at its message."""

from celery import shared_task
from celery.signals import task_prerun, worker_init
from django.conf import settings

from auctions import certificates, lane, quotients, slots
from auctions.models import Market
from auctions.retrying import retried
from cluster.database import limits
from scheduling import kernels


@worker_init.connect
def warm_up_worker(**_: object) -> None:
    """Compile or load the kernels before the first task, and before the worker forks; a server does so meanwhile."""
    if not settings.EMBEDDED:
        kernels.warm_up()


@task_prerun.connect
def limit_task(**_: object) -> None:
    """Connections that the task opens may wait longer than those of requests."""
    limits.use("worker")


@shared_task
def decide_market(market_id: int) -> int:
    """Decide the waiting bids of one market; returns how many."""
    decided = 0
    with retried(f"deciding bids of market {market_id}"):
        decided = lane.drain(market_id, at_most=lane.LONGEST_TURN)
        if decided == lane.LONGEST_TURN and lane.waiting(market_id):
            lane.wake(market_id)
    return decided


@shared_task
def sweep() -> None:
    """Find what lost wake-ups missed, let slots pass, and renew certificates, market by market."""
    for market_id in _markets():
        with retried(f"sweep of market {market_id}"):
            slots.pass_slots(market_id)
            lane.drain(market_id, at_most=lane.LONGEST_TURN)
            certificates.keep_fresh(market_id)


@shared_task
def measure() -> None:
    """Compute the competitive quotients of markets that queue, where jobs were completed since."""
    for market_id in _markets():
        with retried(f"measuring market {market_id}"):
            quotients.renew(market_id)


def _markets() -> list[int]:
    with retried("the list of markets"):
        return list(Market.objects.order_by("pk").values_list("pk", flat=True))
    return []
