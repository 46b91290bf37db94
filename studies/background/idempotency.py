"""Idempotent creation of background jobs: the same key and body again return the stored row."""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Generic, TypeVar

from django.contrib.auth.models import User
from django.db import IntegrityError

from auctions.domain.bid_conversion import check_finite
from auctions.domain.errors import KeyReused
from scheduling.model.decision import canonical
from scheduling.model.types import Json
from studies.background.models import Requestable

Row = TypeVar("Row", bound=Requestable)


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
