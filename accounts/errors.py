"""Errors of accounts; the messages may be shown to a user."""

from web.errors import ServiceError


class AccountsError(ServiceError):
    """Base class of all errors that `accounts` raises on purpose."""


class TooManyTokens(AccountsError):
    """The user has as many tokens as one may have."""


class WrongToken(AccountsError):
    """The operation is not possible with this token."""
