"""Log filters that replace a traceback by one line."""

import logging
from time import monotonic
from typing import ClassVar, Final

from celery.beat import SchedulingError
from kombu.exceptions import OperationalError

EVERY_S: Final = 60.0
"""Seconds between two lines on a broker that is away: beat tries several tasks a second."""


class BeatBriefly(logging.Filter):
    """Log in one line a minute that beat cannot reach the broker: beat tries again at each task's next time.

    Any other error keeps its traceback.
    """

    logged_at: ClassVar[float | None] = None

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the record, or leave it out."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, SchedulingError) and isinstance(error.__context__, OperationalError):
            moment = monotonic()
            if BeatBriefly.logged_at is not None and moment - BeatBriefly.logged_at < EVERY_S:
                return False
            BeatBriefly.logged_at = moment
            record.msg, record.args = "%s", (str(error),)
            record.exc_info, record.exc_text = None, None
        return True
