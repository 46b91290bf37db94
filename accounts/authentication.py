"""Authentication by token. Each request asks for its token, so that query is built once, and takes no other."""

from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import OperationalError
from django.db.models import Q
from rest_framework import authentication
from rest_framework.exceptions import AuthenticationFailed

from accounts.models import Scope, Token
from accounts.tokens import digest_of, is_expired
from cluster import clock
from cluster.database.prepared import Prepared
from cluster.database.waiting import without_waiting
from cluster.operators import let_operate_nothing

USE_EVERY: Final = timedelta(minutes=1)
"""Shortest time between two writes of a token's last use; a write for each request would cost more than most reads."""

_TOKENS = Prepared(
    lambda digest: Token.objects.select_related("user__membership", "cluster").filter(digest=digest), str
)


class TokenAuthentication(authentication.TokenAuthentication):
    """Accepts the token of an active user that has not expired; `request.auth` is the token.

    Without the scope to operate, its user is no operator for this request.
    """

    def authenticate_credentials(self, key: str) -> Any:
        """Return the user and the token."""
        token = _TOKENS.first(digest_of(key))
        if token is None:
            raise AuthenticationFailed("Invalid token.")
        now = clock.now()
        if is_expired(token, now):
            raise AuthenticationFailed("The token has expired.")
        if not token.user.is_active:
            raise AuthenticationFailed("User inactive or deleted.")
        if token.scope != Scope.OPERATE:
            let_operate_nothing(token.user)
        _note_use(token, now)
        return token.user, token


def _note_use(token: Token, now: datetime) -> None:
    before = now - USE_EVERY
    if token.last_used_at is None or token.last_used_at <= before:
        # Of requests at the same time the first one writes.
        unnoted = Q(last_used_at=None) | Q(last_used_at__lte=before)
        # While another process holds the database's lock, reading goes on at once: a later request notes the use.
        with suppress(OperationalError), without_waiting():
            Token.objects.filter(unnoted, pk=token.pk).update(last_used_at=now)
