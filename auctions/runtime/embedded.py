"""The worker of `manage.py serve`: Celery's worker and beat as threads of one process, and a broker in its memory."""

import select
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from threading import Thread

from celery import Celery
from celery.app import app_or_default
from celery.beat import Scheduler, Service
from celery.worker import WorkController
from celery.worker import state as worker_state
from django.conf import settings
from django.db import connection

from auctions.domain import waking
from auctions.engine import decision_queue
from auctions.kernels.warming import Warming, groups_of_open_markets
from auctions.runtime import signs, stay
from auctions.runtime.supervisor import PULSE_S, Link
from cluster import memory, threads
from web import tracing

CONCURRENCY = 7
"""One thread decides while another computes certificates, others watch a plan, its run, and two runs, and one sends
messages of webhooks; markets share.
"""
NAME = "embedded@localhost"

LONGEST_STOP_S = 20.0
"""Time that a stop waits for the decision under way, whose transaction would otherwise be rolled back."""


def load() -> None:
    """Import all tasks: processes that are forked afterwards have them."""
    app_or_default().loader.import_default_modules()


def work(link: Link) -> None:
    """Decide bids until the web process has ended, and give signs of life; exit with status 1 if a thread has died."""
    threads.take_short_turns()
    memory.share_between_threads()
    memory.give_back_now_and_then()
    with closing(Warming(follows=True)) as warm:
        warm.on_ready = decision_queue.wake_all
        warm.ask(groups_of_open_markets())
        connection.close()  # this thread reads nothing more
        try:
            with running() as started:
                _pass_on(link, started)
        finally:
            tracing.end()


def _pass_on(link: Link, started: list[Thread]) -> None:
    """Wake the threads until the web process has ended."""
    while True:
        link.beat()
        if not all(thread.is_alive() for thread in started):
            sys.exit(1)
        if not select.select([link.worker], [], [], PULSE_S)[0]:
            continue
        wake_up = link.read()
        if wake_up is None:
            return
        task, args, options = wake_up
        waking.publish(task, *args, **options)


@contextmanager
def running(app: Celery | None = None) -> Iterator[list[Thread]]:
    """Decide bids in threads of this process while the block runs; yield the threads."""
    app = app or app_or_default()
    app.loader.import_default_modules()
    worker = WorkController(
        app=app,
        pool="threads",
        concurrency=CONCURRENCY,
        queues=settings.QUEUES,
        hostname=NAME,
        without_heartbeat=True,
        without_mingle=True,
        without_gossip=True,
    )

    worker_thread = Thread(target=worker.start, name="worker", daemon=True)
    # In memory: every start sweeps at once, there is nothing to remember.
    beat = Service(app, max_interval=1, scheduler_cls=Scheduler)
    beat_thread = Thread(target=beat.start, name="beat", daemon=True)
    stay.set_stopping(False)
    worker_thread.start()
    beat_thread.start()
    alive = signs.Signs(NAME, settings.QUEUES)
    try:
        yield [worker_thread, beat_thread]
    finally:
        alive.close()
        stay.set_stopping(True)
        beat.stop()
        setattr(worker_state, "should_stop", 0)  # noqa: B010 (its type is only known as None)
        worker_thread.join(LONGEST_STOP_S)
        beat_thread.join(LONGEST_STOP_S)
        setattr(worker_state, "should_stop", None)  # noqa: B010
