"""Authentication by token, as in the REST framework; each request asks for its token, so that query is built once."""

from typing import Any

from rest_framework import authentication
from rest_framework.authtoken.models import Token
from rest_framework.exceptions import AuthenticationFailed

from cluster.database.prepared import Prepared

_TOKENS = Prepared(lambda key: Token.objects.select_related("user").filter(key=key), str)


class TokenAuthentication(authentication.TokenAuthentication):
    """Accepts the token of an active user."""

    def authenticate_credentials(self, key: str) -> Any:
        """Return the user and the token."""
        token = _TOKENS.first(key)
        if token is None:
            raise AuthenticationFailed("Invalid token.")
        if not token.user.is_active:
            raise AuthenticationFailed("User inactive or deleted.")
        return token.user, token
