"""Signs of life: each worker, and tasks that beat sends, write the time into a row of their own every few seconds.

The rows say on any host which workers live, also if the broker is away. A thread of the worker's main process writes
them, so a long task does not silence a worker. That bids are decided is shown by the age of those that wait.
"""

from collections.abc import Iterable
from datetime import timedelta
from threading import Event, Thread
from typing import Final

from celery.signals import worker_ready, worker_shutdown
from django.db import connection

from auctions.models import FULL_DISK, WorkerSign
from auctions.runtime import disks
from auctions.runtime.task_errors import errors_logged
from cluster import clock

EVERY_S: Final = 5.0
"""Time between two signs of a worker."""
LOST_S: Final = 30.0
"""Time without a sign after which a worker counts as lost."""
BEAT: Final = "beat"
"""Name of the row of beat, which the tasks write that it sends every two seconds."""
FORGET_S: Final = 86_400.0
"""Time after which the row of a lost worker is deleted."""


def give(name: str, queues: Iterable[str] = ()) -> None:
    """Write a sign of life."""
    row = {"queues": ",".join(sorted(queues)), "at": clock.now()}
    if not WorkerSign.objects.filter(name=name).update(**row):
        WorkerSign.objects.get_or_create(name=name, defaults=row)


def name_full_disks() -> None:
    """Write which disks of this host are full; nothing if none is."""
    for name in disks.full():
        give(f"{FULL_DISK}{name}")


def full_disks() -> list[str]:
    """Return the names of full disks, as workers have written them a moment ago."""
    since = clock.now() - timedelta(seconds=LOST_S)
    names = WorkerSign.objects.filter(name__startswith=FULL_DISK, at__gte=since).values_list("name", flat=True)
    return [name.removeprefix(FULL_DISK) for name in names]


def forget() -> None:
    """Delete the rows of workers that were lost long ago: each pod has another name."""
    WorkerSign.objects.filter(at__lt=clock.now() - timedelta(seconds=FORGET_S)).delete()


class Signs:
    """Signs of a worker from a thread of its own, until `close`."""

    def __init__(self, name: str, queues: Iterable[str]) -> None:
        self._name, self._queues = name, tuple(queues)
        self._ended = Event()
        self._thread = Thread(target=self._run, name="signs", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; the worker is not missed from now on."""
        self._ended.set()
        self._thread.join(EVERY_S)
        with errors_logged("the end of the signs of life"):
            WorkerSign.objects.filter(name=self._name).delete()
        connection.close()

    def _run(self) -> None:
        with errors_logged("the signs of life of workers that are lost"):
            forget()
        while True:
            with errors_logged("the sign of life"):
                give(self._name, self._queues)
                name_full_disks()
            connection.close()  # the process may fork; its connections are not for its children
            if self._ended.wait(EVERY_S):
                return


_signs: list[Signs] = []
"""Those of this process, if it is a worker of Celery's command."""


@worker_ready.connect
def _begin(sender: object = None, **_: object) -> None:
    consumer: object = sender
    app, name = getattr(consumer, "app", None), getattr(consumer, "hostname", "")
    if app is not None and name:
        _signs.append(Signs(str(name), app.amqp.queues.consume_from))


@worker_shutdown.connect
def _end(**_: object) -> None:
    while _signs:
        _signs.pop().close()
