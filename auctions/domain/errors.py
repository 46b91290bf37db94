"""What can go wrong in the market. A rejected bid is not among them: a rejection is a value."""


class AuctionError(Exception):
    """Base of every error this room raises on purpose; its message may be shown to a user."""


class NoMarket(AuctionError):
    """The cluster has no market yet."""


class MarketClosed(AuctionError):
    """The market takes no bids."""


class KeyReused(AuctionError):
    """An idempotency key came again with another body."""


class NotReady(AuctionError):
    """The kernels that are needed are being compiled."""


class QuotaReached(AuctionError):
    """The owner has as much under way as anybody may."""


class CannotDecide(AuctionError):
    """The policy in force fails on this bid."""


class WrongState(AuctionError):
    """What was asked is not possible in the bid's present state."""
