"""Passwords can be switched off: then none is accepted anywhere, and sessions and tokens go on working."""

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest


class PasswordsOff:
    """Stands before the backend of passwords and refuses each if they are switched off; no session is of this one."""

    def authenticate(self, request: HttpRequest | None, **credentials: object) -> None:
        """Say nothing; raise PermissionDenied, which ends the check, if passwords are switched off."""
        if not settings.PASSWORD_LOGINS:
            raise PermissionDenied
