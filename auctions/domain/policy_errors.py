"""Errors that a policy raises: they are distinguished from those of the database and the machine, and stored."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import format_exception
from typing import Final

from django.db import DatabaseError, InterfaceError

from auctions.domain.lock import MarketTime
from auctions.models import Bid, Event, PolicyError

NOT_THE_POLICY: Final = (DatabaseError, InterfaceError, OSError, MemoryError)
"""Errors of the database or the machine. They may not occur at the next attempt, so they are passed on."""

LONGEST_ERROR: Final = 500
LONGEST_TRACEBACK: Final = 10_000

log = logging.getLogger(__name__)


class PolicyFailed(Exception):
    """A policy raised, or its answer cannot be carried out; the cause is the original error."""

    @property
    def error(self) -> BaseException:
        """The error that the policy raised."""
        return self.__cause__ or self


@contextmanager
def policy_errors() -> Iterator[None]:
    """Raise PolicyFailed for any error that the policy raises within the block.

    Errors in NOT_THE_POLICY are passed on unchanged, and so are KeyboardInterrupt and SystemExit.
    """
    try:
        yield
    except (PolicyFailed, *NOT_THE_POLICY):
        raise
    except Exception as error:  # any error of a policy: one bid must not stop the decision queue
        raise PolicyFailed(f"{type(error).__name__}: {error}") from error


def store_error(
    failed: PolicyFailed, event: Event, moment: MarketTime, *, policy_id: int, bid: Bid | None = None
) -> None:
    """Store the error that belongs to an event, under the market's lock, and log it."""
    what = "a plan" if bid is None else f"bid {bid.sequence}"
    log.error(
        "policy version %s of market %s failed on %s (version %s)",
        policy_id,
        event.market_id,
        what,
        event.version,
        exc_info=failed.error,
    )
    error = _storable(str(failed))[:LONGEST_ERROR]
    before = PolicyError.objects.filter(market_id=event.market_id).first()
    # Planning may fail in every slot: the traceback of a repeated error is stored only once.
    same = bid is None and before is not None and (before.bid_id, before.error) == (None, error)
    PolicyError.objects.create(
        market_id=event.market_id,
        version=event.version,
        policy_id=policy_id,
        bid=bid,
        at=moment.wall,
        slot=moment.now,
        error=error,
        traceback="" if same else _storable("".join(format_exception(failed.error)))[-LONGEST_TRACEBACK:],
    )


def _storable(text: str) -> str:
    """Return the text without the null character, which PostgreSQL cannot store."""
    return text.replace("\x00", "")
