"""Wake workers when work waits; without a broker the periodic sweep finds the work."""

import logging
from collections.abc import Callable
from time import monotonic
from typing import Any, Final

from celery import signature
from django.db import transaction
from kombu.exceptions import OperationalError

from cluster.database.waiting import never_in_transaction

BROKER_REST_S: Final = 5.0
"""Seconds without further wake-ups after a failed one: the sweep finds the waiting work."""

Carry = Callable[[str, tuple[object, ...], dict[str, Any]], None]
"""Takes the name of a task, its arguments and the options of its message to a worker."""

carry: Carry | None = None
"""A web process that has a worker beside it sends wake-ups through this function, and not through a broker."""

log = logging.getLogger(__name__)
_resting_until = 0.0


def wake(task: str, *args: object, **options: Any) -> None:
    """After the open transaction is committed, let a worker run the task of this name.

    The task is addressed by its name, because its module imports the callers.
    """
    transaction.on_commit(lambda: publish(task, *args, **options), robust=True)


def publish(task: str, *args: object, **options: Any) -> None:
    """Let a worker run the task now; nothing happens if that is impossible, since the sweep finds the work."""
    global _resting_until
    never_in_transaction("A broker")
    if carry is not None:
        carry(task, args, options)
        return
    if monotonic() < _resting_until:
        return
    try:
        signature(task, args=args).apply_async(retry=False, **options)
    except (OperationalError, OSError) as error:
        _resting_until = monotonic() + BROKER_REST_S
        log.warning("no broker to wake a worker for %s (%s); the sweep will find what waits", task, error)
