"""Errors of repeated tasks, such as a sweep, are logged and stop no other task.

A busy database, or a policy that this version does not have, is logged once.
"""

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import close_old_connections

from cluster.database.busy import is_busy, is_full
from scheduling.model.errors import PolicyMissing

log = logging.getLogger(__name__)
_waiting: set[str] = set()
"""Names of the tasks that last failed for a reason that is logged once."""
_failed: Counter[str] = Counter()
"""The number of times that each task has failed for such a reason."""
_missing: dict[str, str] = {}
"""The task that found each policy missing, by the error's words, which name the market; other tasks find it, too."""


@contextmanager
def errors_logged(what: str) -> Iterator[None]:
    """Log an error of the block instead of raising it: the task runs again soon.

    A busy database is logged in one line when it begins and one when it is over, however many attempts fail; so is a
    policy that this version does not have, however many tasks of its market fail. A block within another one of the
    same name may have failed where the outer one did not: then it is not over.
    """
    failed = _failed[what]
    try:
        yield
    except PolicyMissing as error:
        _failed[what] += 1
        if _missing.setdefault(str(error), what) == what and what not in _waiting:
            _waiting.add(what)
            log.error("%s waits: %s", what, error)
    except Exception as error:  # the next market, and the next turn, must not depend on this one
        if not is_busy(error):
            log.exception("%s failed", what)
            return
        close_old_connections()  # a connection that was lost would fail for ever
        _failed[what] += 1
        if what not in _waiting:
            _waiting.add(what)
            why = "the disk of the database is full" if is_full(error) else "the database is away or busy"
            log.warning("%s waits, for %s (%s); it is tried again", what, why, error)
    else:
        if what in _waiting and _failed[what] == failed:
            _waiting.discard(what)
            for words in [words for words, first in _missing.items() if first == what]:
                del _missing[words]
            log.warning("%s goes on", what)
