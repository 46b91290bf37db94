"""Wake workers when work waits; without a broker the periodic sweep finds the work."""

import logging
from collections.abc import Callable
from time import monotonic
from typing import Any, Final

from celery import signature
from django.db import transaction
from kombu.exceptions import OperationalError

from cluster.database.waiting import never_in_transaction
from web import tracing

BROKER_REST_S: Final = 5.0
"""Seconds without further wake-ups after a failed one: the sweep finds the waiting work."""
STILL_AWAKE_S: Final = 0.25
"""Seconds without another wake-up after the last work came: a worker that was woken for it stays for twice as long."""
AGAIN_S: Final = 2.0
"""Seconds after which another wake-up is sent while work keeps coming: the first one may have been lost."""

Carry = Callable[[str, tuple[object, ...], dict[str, Any]], None]
"""Takes the name of a task, its arguments and the options of its message to a worker."""

carry: Carry | None = None
"""A web process that has a worker beside it sends wake-ups through this function, and not through a broker."""

log = logging.getLogger(__name__)
_resting_until = 0.0
_woken: dict[tuple[object, ...], tuple[float, float]] = {}
"""Times of the last wake-up by `wake_once` and of the last work, by task and arguments."""


def wake(task: str, *args: object, **options: Any) -> None:
    """After the open transaction is committed, let a worker run the task of this name.

    The task is addressed by its name, because its module imports the callers.
    """
    transaction.on_commit(lambda: publish(task, *args, **options), robust=True)


def wake_once(task: str, *args: object) -> None:
    """The same, unless a worker was woken for the same, and work came a moment ago: it finds what has come since.

    This is for tasks that go on until no work came for longer than `STILL_AWAKE_S`.
    """
    transaction.on_commit(lambda: _publish_once(task, args), robust=True)


def publish(task: str, *args: object, **options: Any) -> bool:
    """Let a worker run the task now; False if that is impossible, and the sweep finds the work."""
    global _resting_until
    never_in_transaction("A broker")
    woken_by = tracing.current()
    if woken_by:
        options["headers"] = {tracing.KEY: woken_by}
    if carry is not None:
        carry(task, args, options)
        return True
    if monotonic() < _resting_until:
        return False
    try:
        signature(task, args=args).apply_async(retry=False, **options)
    except (OperationalError, OSError) as error:
        _resting_until = monotonic() + BROKER_REST_S
        log.warning("no broker to wake a worker for %s (%s); the sweep will find what waits", task, error)
        return False
    return True


def _publish_once(task: str, args: tuple[object, ...]) -> None:
    key, now = (task, *args), monotonic()
    woken, last = _woken.get(key, (-AGAIN_S, -AGAIN_S))
    is_awake = now < last + STILL_AWAKE_S and now < woken + AGAIN_S
    if is_awake or publish(task, *args):
        _woken[key] = (woken if is_awake else now, now)
