"""Authentication by token. Each request asks for its token, so that query is built once, and takes no other.

A token that nobody has is looked for once by a process, and one address may try only some a minute. After that, a token
that the process has not seen is looked for if it is in a list of tokens, which is read now and then. So made-up tokens
cost the database little, and those of others at the same address work.
"""

import math
from collections import OrderedDict
from datetime import datetime, timedelta
from time import monotonic
from typing import Any, Final

from django.db import DatabaseError
from django.db.models import Q
from django.db.models.functions import Coalesce
from rest_framework import authentication
from rest_framework.exceptions import AuthenticationFailed, Throttled
from rest_framework.request import Request

from accounts.models import Scope, Token
from accounts.tokens import digest_of, is_expired
from cluster import clock
from cluster.database.busy import is_busy
from cluster.database.prepared import Prepared
from cluster.database.waiting import without_waiting
from cluster.operators import let_operate_nothing
from web.throttles import MadeUpTokenThrottle

USE_EVERY: Final = timedelta(minutes=1)
"""Shortest time between two writes of a token's last use; a write for each request would cost more than most reads."""

MOST_KNOWN: Final = 10_000
"""Largest number of tokens of which a process remembers whether they exist."""

_known: OrderedDict[str, bool] = OrderedDict()
"""Whether a token exists, by its digest. One that did not exist never will, since texts of tokens are drawn."""

MOST_LISTED: Final = 10_000
"""Largest number of tokens of the list: those that were used or issued last."""
LISTED_S: Final = 10.0
"""Time after which the list of tokens is read again, seconds."""

_listed: tuple[float, frozenset[str]] = (-math.inf, frozenset())
"""Digests of tokens, and the time at which they were read, seconds of the monotonic clock."""

_TOKENS = Prepared(
    lambda digest: Token.objects.select_related("user__membership", "cluster").filter(digest=digest), str
)


class TokenAuthentication(authentication.TokenAuthentication):
    """Accepts the token of an active user that has not expired; `request.auth` is the token.

    Without the scope to operate, its user is no operator for this request.
    """

    def authenticate(self, request: Request) -> Any:
        """Return the user and the token; None without a token."""
        self._request = request
        return super().authenticate(request)

    def authenticate_credentials(self, key: str) -> Any:
        """Return the user and the token."""
        token, now = self._token(digest_of(key)), clock.now()
        if is_expired(token, now):
            raise AuthenticationFailed("The token has expired.")
        if not token.user.is_active:
            raise AuthenticationFailed("User inactive or deleted.")
        if token.scope != Scope.OPERATE:
            let_operate_nothing(token.user)
        _note_use(token, now)
        return token.user, token

    def _token(self, digest: str) -> Token:
        """Return the token with this digest; raises AuthenticationFailed, or Throttled before a query too many."""
        exists = _known.get(digest)
        if exists is False:
            raise AuthenticationFailed("Invalid token.")
        limit = None if exists else MadeUpTokenThrottle()
        if limit is not None and not (limit.lets(self._request) or _is_listed(digest)):
            raise Throttled(wait=limit.wait())
        token: Token | None = _TOKENS.first(digest)
        _remember(digest, token is not None)
        if token is None:
            if limit is not None:
                limit.count()
            raise AuthenticationFailed("Invalid token.")
        return token


def _note_use(token: Token, now: datetime) -> None:
    before = now - USE_EVERY
    if token.last_used_at is None or token.last_used_at <= before:
        # Of requests at the same time the first one writes.
        unnoted = Q(last_used_at=None) | Q(last_used_at__lte=before)
        # While another process holds the database's lock, or the database is read-only, reading goes on at once: a
        # later request notes the use.
        try:
            with without_waiting():
                Token.objects.filter(unnoted, pk=token.pk).update(last_used_at=now)
        except DatabaseError as error:
            if not is_busy(error):
                raise


def _is_listed(digest: str) -> bool:
    """Return whether a token exists, by a list that is read again once it is old."""
    global _listed
    read_at, digests = _listed
    if monotonic() - read_at > LISTED_S:
        by_use = Token.objects.order_by(Coalesce("last_used_at", "created_at").desc())
        digests = frozenset(by_use.values_list("digest", flat=True)[:MOST_LISTED])
        _listed = monotonic(), digests
    return digest in digests


def _remember(digest: str, exists: bool) -> None:
    """Remember whether a token exists; if there are too many, forget the one that was learned first."""
    _known[digest] = exists
    if len(_known) > MOST_KNOWN:
        _known.popitem(last=False)
