"""Errors of the market. A rejected bid is not an error: the rejection is a normal result."""

from http import HTTPStatus

from web.errors import ServiceError


class AuctionError(ServiceError):
    """Base class of all errors that `auctions` raises on purpose; the message may be shown to a user."""


class NoMarket(AuctionError):
    """The cluster has no market yet."""

    status = HTTPStatus.NOT_FOUND


class MarketClosed(AuctionError):
    """The market does not accept bids."""


class KeyReused(AuctionError):
    """An idempotency key was used again with another body."""


class NotReady(AuctionError):
    """The required kernels are being compiled."""

    status = HTTPStatus.SERVICE_UNAVAILABLE


class QuotaReached(AuctionError):
    """The owner has reached the limit of what one user may have under way."""

    status = HTTPStatus.TOO_MANY_REQUESTS


class TooManyWaiting(QuotaReached):
    """Too many bids of the owner would wait for their decisions, or stand, in one market."""

    wait_s = 5


class TooManyWebhooks(AuctionError):
    """The user has as many webhooks as one may have."""


class NoBudget(AuctionError):
    """The team has no budget."""

    status = HTTPStatus.NOT_FOUND


class NotGranted(AuctionError):
    """The credits cannot be granted, or are not left to be taken back."""


class CannotDecide(AuctionError):
    """The policy in force fails on this bid."""


class Archived(AuctionError, ValueError):
    """The requests, receipts and events that are needed are in the market's archive."""


class WrongState(AuctionError):
    """The requested operation is not possible in the present state."""
