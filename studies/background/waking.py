"""Wake workers when work waits; without a broker the sweep finds the work."""

import logging
from time import monotonic
from typing import Final

from celery import signature
from django.db import transaction
from kombu.exceptions import OperationalError

from cluster.database.waiting import never_in_transaction

BROKER_REST_S: Final = 5.0
"""Seconds without further wake-ups after a failed one: the sweep finds the waiting work."""

log = logging.getLogger(__name__)
_resting_until = 0.0


def wake(task: str, *, queue: str) -> None:
    """After the open transaction is committed, let a worker of this queue run the task of this name."""
    transaction.on_commit(lambda: _publish(task, queue), robust=True)


def _publish(task: str, queue: str) -> None:
    global _resting_until
    never_in_transaction("A broker")
    if monotonic() < _resting_until:
        return
    try:
        signature(task).apply_async(retry=False, queue=queue)
    except (OperationalError, OSError) as error:
        _resting_until = monotonic() + BROKER_REST_S
        log.warning("no broker to wake a worker of %s (%s); the sweep will find what waits", queue, error)
