"""The market's worker and its beat as threads of one process: no broker, nothing to install."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

from celery import Celery
from celery.app import app_or_default
from celery.beat import Scheduler, Service
from celery.worker import WorkController
from celery.worker import state as worker_state

CONCURRENCY = 5
"""One thread decides while another computes certificates, a third watches a plan, two watch runs; markets share."""
QUEUES = ("celery", "plans", "runs")

LONGEST_STOP_S = 20.0
"""Time that a stop waits for the decision under way, whose transaction would otherwise be rolled back."""


@contextmanager
def running(app: Celery | None = None) -> Iterator[None]:
    """Decide bids in threads of this process while the block runs."""
    app = app or app_or_default()
    app.loader.import_default_modules()
    worker = WorkController(
        app=app,
        pool="threads",
        concurrency=CONCURRENCY,
        queues=QUEUES,
        hostname="embedded@localhost",
        without_heartbeat=True,
        without_mingle=True,
        without_gossip=True,
    )

    worker_thread = Thread(target=worker.start, name="worker", daemon=True)
    # In memory: every start sweeps at once, there is nothing to remember.
    beat = Service(app, max_interval=1, scheduler_cls=Scheduler)
    beat_thread = Thread(target=beat.start, name="beat", daemon=True)
    worker_thread.start()
    beat_thread.start()
    try:
        yield
    finally:
        beat.stop()
        setattr(worker_state, "should_stop", 0)  # noqa: B010 (its type is only known as None)
        worker_thread.join(LONGEST_STOP_S)
        beat_thread.join(LONGEST_STOP_S)
        setattr(worker_state, "should_stop", None)  # noqa: B010
