"""Decide what follows when a process of an admitted job fails or is lost.

The executor looks about once a second. `ending_of` in `execution/steps.py` then ends all processes of the job, and
`execution/records.py` records what `after_failure` says: the job starts again from its newest checkpoint, or fails.
"""

from typing import Final, NamedTuple

from execution.models import Ending

FAILURES: Final = frozenset({Ending.FAULT, Ending.LOST})
"""Endings that count as failures."""
MOST_RETRIES: Final = 5
"""Failures in a row, without a checkpoint of a newer step, after which a training fails."""
LONGEST_WAIT_S: Final = 2.0 ** (MOST_RETRIES - 2)
"""Time until the last try, seconds."""


class Retry(NamedTuple):
    """The next try of a training, or its end."""

    failures: int
    """Failures in a row."""
    wait_until: float
    """Time before which nothing is started, seconds."""

    @property
    def is_over(self) -> bool:
        """Whether it is not tried again."""
        return self.failures >= MOST_RETRIES


def after_failure(failures: int, *, has_newer_step: bool, now: float) -> Retry:
    """Return the next try after this many failures in a row and one more: after 1, 2, 4, 8 s.

    A training whose processes wrote a checkpoint before they failed begins to count again.

    Examples
    --------
    >>> from execution.dead_processes import after_failure
    >>> after_failure(2, has_newer_step=False, now=100.0)
    Retry(failures=3, wait_until=104.0)
    """
    failures = 1 if has_newer_step else failures + 1
    return Retry(failures, now + 2.0 ** (failures - 1))


def waits(until: float, *, now: float) -> bool:
    """Return whether a training that is not tried again before `until` has to wait.

    A wait that is longer than any was written while the clock was ahead: it is over once the clock was set back.

    Examples
    --------
    >>> from execution.dead_processes import waits
    >>> waits(104.0, now=100.0), waits(104.0, now=104.0), waits(3700.0, now=100.0)
    (True, False, False)
    """
    return now < until <= now + LONGEST_WAIT_S
