"""Work of a Celery worker that died: a running row without a heartbeat for `STALE_S` seconds is started again.

Nothing watches the processes of workers. A worker writes heartbeats to the row that it computes. The Celery tasks of
`studies/tasks.py` compute the rows that `claim_next` of `studies/background/states.py` gives them: queued ones, and
those of dead workers. Beat sends these tasks every five seconds. Each attempt has a number, so a worker that was only
slow finds that the row is no longer its own. If the worker of attempt `MOST_ATTEMPTS` dies, the row fails.

If the clock was ahead and is set back, a heartbeat that was written before lies in the future. `claim_next` sets it to
the present time: a worker that is alive writes the next one, and one that died counts as dead after `STALE_S` seconds.

Bids of a market need no heartbeat: `sweep` in `auctions/tasks.py` decides them. Processes of admitted jobs are not
meant here: see `execution/dead_processes.py`.
"""

from datetime import datetime, timedelta
from typing import Final

from django.db.models import Q

from studies.background.models import JobState

STALE_S: Final = 20.0
"""Seconds without a heartbeat after which a worker counts as dead."""


def worker_dead(moment: datetime) -> Q:
    """Return the condition for running rows whose worker is dead."""
    return Q(state=JobState.RUNNING, heartbeat_at__lt=_oldest_heartbeat(moment))


def worker_alive(moment: datetime) -> Q:
    """Return the condition for running rows whose worker is alive."""
    return Q(state=JobState.RUNNING, heartbeat_at__gte=_oldest_heartbeat(moment))


def beats_ahead(moment: datetime) -> Q:
    """Return the condition for running rows whose heartbeat is in the future, by more than clocks of hosts differ."""
    return Q(state=JobState.RUNNING, heartbeat_at__gt=moment + timedelta(seconds=STALE_S))


def _oldest_heartbeat(moment: datetime) -> datetime:
    return moment - timedelta(seconds=STALE_S)
