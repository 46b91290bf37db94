"""Tokens: issue, replace and end them. The text of a token is returned once, when it is issued, and never stored."""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Coalesce

from accounts.errors import NotAllowed, TooManyTokens, WrongToken
from accounts.models import HINT, Scope, Token
from cluster import changes, clock
from cluster.models import Cluster
from scheduling.model.errors import InvalidField

PREFIX: Final = "sp_"
"""Tokens begin with it, so that programs which look for leaked secrets can find them."""
MOST_TOKENS: Final = 100
"""Largest number of tokens of a user that have not expired."""
MOST_BY_PASSWORD: Final = 20
"""Largest number of tokens of a user that were issued for a password."""
KEPT: Final = timedelta(days=30)
"""Expired tokens are listed as long."""
LONGEST_DAYS: Final = 3650
LONGEST_OVERLAP_S: Final = 7 * 86400
FOR_PASSWORD: Final = "by password"  # noqa: S105 (a name)
"""Name of tokens that were issued for a password."""


@dataclass(frozen=True)
class NewToken:
    """A token that is to be issued, as its user states it."""

    name: str
    scope: str = Scope.OPERATE
    cluster: Cluster | None = None
    expires_in_days: int | None = None


@dataclass(frozen=True)
class Issued:
    """A token, and its text, which nobody can read again."""

    token: Token
    text: str


def digest_of(text: str) -> str:
    """Return the digest by which a token is found: SHA-256, hex."""
    return sha256(text.encode()).hexdigest()


def of_user(user: User) -> QuerySet[Token]:
    """Return the user's tokens, newest first, expired ones included."""
    return Token.objects.filter(user=user).select_related("cluster")


def issue(user: User, new: NewToken, *, with_token: Token | None = None) -> Issued:
    """Store a token; `with_token` is the one that authenticates the request, which may not give more than it has.

    Raises
    ------
    InvalidField
        If the new token would be for more, or for longer, than `with_token`.
    TooManyTokens
        If the user has `MOST_TOKENS`.
    """
    now = clock.now()
    expires = None if new.expires_in_days is None else now + timedelta(days=new.expires_in_days)
    if with_token is not None and with_token.expires_at is not None:
        if expires is not None and expires > with_token.expires_at:
            raise InvalidField(
                "expires_in_days", f"expected an end no later than that of your token, got {new.expires_in_days}"
            )
        expires = expires or with_token.expires_at
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(pk=user.pk)
        Token.objects.filter(user=user, expires_at__lt=now - KEPT).delete()
        _check_number(user, now)
        return _stored(user, new, now, expires)


def issue_by_password(user: User) -> Issued:
    """Store a token without an end for a user who gave the password.

    Of such tokens the `MOST_BY_PASSWORD` that were used last are kept, so that programs may ask for one at each start.
    """
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(pk=user.pk)
        by_use = Token.objects.filter(user=user, by_password=True).order_by(
            Coalesce("last_used_at", "created_at").desc(), "-pk"
        )
        Token.objects.filter(pk__in=list(by_use.values_list("pk", flat=True)[MOST_BY_PASSWORD - 1 :])).delete()
        return _stored(user, NewToken(FOR_PASSWORD), clock.now(), None, by_password=True)


def end_by_password(user: User) -> None:
    """Delete the tokens that were issued for the user's password, and those that replaced them."""
    Token.objects.filter(user=user, by_password=True).delete()


def rotate(token: Token, *, overlap_s: int = 0, with_token: Token | None = None) -> Issued:
    """Replace a token by one of the same name, scope, cluster and duration; the old one is accepted for `overlap_s`.

    `with_token` is the one that authenticates the request: it may replace itself, and tokens for no longer than it has.

    Raises
    ------
    WrongToken
        If it has expired, or was ended meanwhile.
    NotAllowed
        If the new token would end later than `with_token`, which is another one.
    TooManyTokens
        If the user would have more than `MOST_TOKENS` with it, as the old one is accepted for a while.
    """
    now = clock.now()
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(pk=token.user_id)
        held = Token.objects.select_related("cluster", "user").filter(pk=token.pk).first()
        if held is None or is_expired(held, now):
            raise WrongToken("This token has expired." if held else "This token was ended.")
        if overlap_s:
            _check_number(held.user, now)
        expires = None if held.expires_at is None else now + (held.expires_at - held.created_at)
        if with_token is not None and with_token.pk != held.pk and _ends_before(with_token, expires):
            raise NotAllowed("The new token would end later than yours, which may replace itself.")
        new = NewToken(held.name, held.scope, held.cluster)
        issued = _stored(held.user, new, now, expires, by_password=held.by_password)
        ends = now + timedelta(seconds=overlap_s)
        if held.expires_at is None or held.expires_at > ends:
            # The clock may have been set back since its creation, and no token ends before that.
            Token.objects.filter(pk=held.pk).update(expires_at=ends, created_at=min(held.created_at, now))
            changes.note(held, "token replaced", {"expires_at": (held.expires_at, ends)})
    return issued


def end(token: Token) -> None:
    """Delete a token: it is not accepted from now on."""
    token.delete()


def is_expired(token: Token, now: datetime) -> bool:
    """Return whether a token's end is in the past."""
    return token.expires_at is not None and token.expires_at <= now


def _ends_before(token: Token, other: datetime | None) -> bool:
    """Return whether a token ends before this time; None is never."""
    return token.expires_at is not None and (other is None or other > token.expires_at)


def _check_number(user: User, now: datetime) -> None:
    """Raise TooManyTokens if the user has as many tokens as one may have; the user's row is locked."""
    if Token.objects.filter(user=user).filter(Q(expires_at=None) | Q(expires_at__gt=now)).count() >= MOST_TOKENS:
        raise TooManyTokens(f"You have {MOST_TOKENS} tokens; end one first.")


def _stored(user: User, new: NewToken, now: datetime, expires: datetime | None, *, by_password: bool = False) -> Issued:
    text = PREFIX + secrets.token_urlsafe(32)
    token = Token.objects.create(
        user=user,
        name=new.name,
        digest=digest_of(text),
        hint=text[:HINT],
        scope=new.scope,
        cluster=new.cluster,
        by_password=by_password,
        created_at=now,
        expires_at=expires,
    )
    return Issued(token, text)
