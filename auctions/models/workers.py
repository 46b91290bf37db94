"""Signs of life of the processes that work for the markets."""

from typing import Final

from django.db import models

FULL_DISK: Final = "full disk: "
"""Beginning of the names of rows that workers write while a disk of their hosts is full; the disk's name is the rest.
"""


class WorkerSign(models.Model):
    """The last sign of life of a worker or of beat, or the last sign of a full disk.

    A worker that ends by itself deletes its row.
    """

    name = models.CharField(max_length=150, unique=True, help_text="Celery's name of the worker, or `sweep`.")
    queues = models.CharField(
        max_length=200, blank=True, help_text="Queues from which it takes tasks, separated by commas."
    )
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.name} at {self.at:%H:%M:%S}"
