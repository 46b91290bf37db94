"""Create background jobs within the quota of their owner."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction

from auctions.domain.errors import QuotaReached
from studies.background.models import OPEN
from studies.background.states import JobTable


class TooManyOpen(QuotaReached):
    """Raised when an owner would have too many queued or running jobs of one kind."""


@contextmanager
def creating(table: JobTable[Any], owner: User, *, count: int, most: int) -> Iterator[None]:
    """Open a transaction in which `count` jobs are created, and wake a worker after its commit.

    Requests of one owner wait for each other, so that each of them counts all open jobs.

    Raises
    ------
    TooManyOpen
        If the owner would have more than `most` open jobs.
    """
    with transaction.atomic():
        User.objects.select_for_update().get(pk=owner.pk)
        open_jobs = table.rows.filter(**{table.owner: owner}, state__in=OPEN).count()
        if open_jobs + count > most:
            raise TooManyOpen(f"{open_jobs} {table.plural} of yours wait or are computed; at most {most} may.")
        yield
        table.wake()
