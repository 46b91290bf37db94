"""Errors that a policy raises: told apart from those of the database and the machine, and kept for operators."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import format_exception
from typing import Final

from django.db import DatabaseError, InterfaceError

from auctions.domain.lock import MarketTime
from auctions.models import Bid, Event, PolicyError

NOT_THE_POLICY: Final = (DatabaseError, InterfaceError, OSError, MemoryError)
"""What the database or the machine raises may be gone at the next attempt, so it is passed on and tried again."""

LONGEST_ERROR: Final = 500
LONGEST_TRACEBACK: Final = 10_000

log = logging.getLogger(__name__)


class PolicyFailed(Exception):
    """A policy raised, or gave an answer that cannot be carried out; the cause is what it raised."""

    @property
    def error(self) -> BaseException:
        """What the policy raised."""
        return self.__cause__ or self


@contextmanager
def policy_errors() -> Iterator[None]:
    """Raise PolicyFailed for whatever the policy raises within the block.

    Errors of NOT_THE_POLICY pass as they are, and so does what ends the process (KeyboardInterrupt, SystemExit).
    """
    try:
        yield
    except (PolicyFailed, *NOT_THE_POLICY):
        raise
    except Exception as error:  # whatever a policy raises, its bid alone must not stop the queue
        raise PolicyFailed(f"{type(error).__name__}: {error}") from error


def keep_error(
    failed: PolicyFailed, event: Event, moment: MarketTime, *, policy_id: int, bid: Bid | None = None
) -> None:
    """Store the error that an event recorded, under the market's lock, and log it."""
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
    # Planning may fail in every slot: what is the same each time is kept once.
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
    """Without the character that PostgreSQL cannot store."""
    return text.replace("\x00", "")
