"""Errors of accounts; the messages may be shown to a user."""

from http import HTTPStatus

from web.errors import ServiceError


class AccountsError(ServiceError):
    """Base class of all errors that `accounts` raises on purpose."""


class TooManyTokens(AccountsError):
    """The user has as many tokens as one may have."""


class WrongToken(AccountsError):
    """The operation is not possible with this token."""


class NotPossible(AccountsError):
    """The present state does not allow it."""


class InvitationOver(AccountsError):
    """An invitation cannot be accepted, or does not exist."""

    status = HTTPStatus.NOT_FOUND


class LoginRefused(AccountsError):
    """A single sign-on does not let this person in."""

    status = HTTPStatus.FORBIDDEN


class ProviderAway(AccountsError):
    """The provider of single sign-on does not answer, or its answers are invalid."""

    status = HTTPStatus.SERVICE_UNAVAILABLE


class NotAllowed(AccountsError):
    """The user's role does not allow it."""

    status = HTTPStatus.FORBIDDEN
