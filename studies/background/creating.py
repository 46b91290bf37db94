"""Create background jobs: within the quota of their owner, and once for the same idempotency key and body."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, Generic, TypeVar

from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from accounts.models import Membership, Team
from auctions.domain.bid_conversion import check_finite
from auctions.domain.errors import KeyReused, QuotaReached
from scheduling.model.decision import canonical
from scheduling.model.types import Json
from studies.background.models import OPEN, Requestable
from studies.background.states import JobTable

Row = TypeVar("Row", bound=Requestable)


class TooManyOpen(QuotaReached):
    """Raised when an owner, or the owner's team, would have too many queued or running jobs of one kind."""


@contextmanager
def creating(table: JobTable[Any], owner: User, *, count: int) -> Iterator[None]:
    """Open a transaction in which `count` jobs are created, and wake a worker after its commit.

    Requests of one owner, and of one team, wait for each other, so that each of them counts all open jobs.

    Raises
    ------
    TooManyOpen
        If the owner would have more open jobs than `settings.OPEN_WORK` says, or the owner's team more than
        `settings.OPEN_WORK_OF_TEAM` times as many.
    """
    with transaction.atomic():
        User.objects.select_for_update().get(pk=owner.pk)
        most: int = settings.OPEN_WORK[table.quota]
        _check(table, {table.owner: owner.pk}, count, most, of="yours")
        team = Membership.objects.filter(user=owner.pk).values_list("team", flat=True).first()
        if team is not None:
            Team.objects.select_for_update(no_key=True).filter(pk=team).first()  # none if it is deleted meanwhile
            _check(table, {table.team: team}, count, most * settings.OPEN_WORK_OF_TEAM, of="your team")
        yield
        table.wake()


def _check(table: JobTable[Any], whose: Json, count: int, most: int, *, of: str) -> None:
    open_jobs = table.rows.filter(**whose, state__in=OPEN).count()
    if open_jobs + count > most:
        raise TooManyOpen(f"{open_jobs} {table.plural} of {of} wait or are computed; at most {most} may.")


@dataclass(frozen=True)
class IdempotencyKey:
    """The idempotency key and the digest of a request."""

    key: str | None
    digest: str
    """SHA-256 of the request body; empty without a key."""

    @classmethod
    def of(cls, key: str | None, body: Json) -> "IdempotencyKey":
        """Build it from a key and the request body; raises InvalidField for a number that JSON does not have."""
        if key is None:
            return cls(None, "")
        check_finite(body, "")
        return cls(key, sha256(canonical(body).encode()).hexdigest())


NO_KEY: Final = IdempotencyKey(None, "")


@dataclass(frozen=True)
class Submission(Generic[Row]):
    """A stored row; `created` is False if an earlier request with the same key created it."""

    row: Row
    created: bool


def create_once(kind: type[Row], owner: User, request: IdempotencyKey, make: Callable[[], Row]) -> Submission[Row]:
    """Return the row of an earlier request with this key, else create one; raises KeyReused for another body."""
    found = _known(kind, owner, request)
    if found is not None:
        return Submission(found, created=False)
    try:
        return Submission(make(), created=True)
    except IntegrityError:
        # The same request was sent twice at once, and the other one was stored first.
        found = _known(kind, owner, request)
        if found is None:
            raise
        return Submission(found, created=False)


def _known(kind: type[Row], owner: User, request: IdempotencyKey) -> Row | None:
    if request.key is None:
        return None
    found = kind._default_manager.filter(owner=owner, idempotency_key=request.key).first()
    if found is not None and found.body_digest != request.digest:
        raise KeyReused("This idempotency key came before with another body.")
    return found
