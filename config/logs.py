"""Log filters that replace a traceback by one line."""

import logging

from celery.beat import SchedulingError
from kombu.exceptions import OperationalError


class BeatBriefly(logging.Filter):
    """Log in one line that beat cannot reach the broker: beat tries again at the task's next time.

    Any other error keeps its traceback.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the record."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, SchedulingError) and isinstance(error.__context__, OperationalError):
            record.msg, record.args = "%s", (str(error),)
            record.exc_info, record.exc_text = None, None
        return True
