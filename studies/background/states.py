"""The only writer of the state of background jobs.

    queued -> running | cancelled      running -> completed | failed | cancelled | queued

A running job is queued again when its worker stops, or when an attempt ends with a slow start of its process or an
unexpected error and further attempts are allowed. If its worker dies, `claim_next` starts it again
(`studies/background/dead_workers.py`). The number of attempts identifies the worker that computes a row: writes of an
earlier attempt no longer match the row.
While the database is busy, progress is skipped and results wait.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from time import monotonic, sleep
from typing import Any, Final, Generic, TypeVar

from django.db import DatabaseError, close_old_connections, connection, transaction
from django.db.models import Count, Max, Min, Q, QuerySet

from auctions.domain import waking
from auctions.domain.errors import WrongState
from cluster.clock import now
from cluster.database.busy import is_busy
from scheduling.model.types import Json
from studies.background.dead_workers import beats_ahead, worker_alive, worker_dead
from studies.background.models import OPEN, BackgroundJob, JobState, Stage

MOST_ATTEMPTS: Final = 3
"""Number of the attempt from which on a dead worker or an unexpected error makes the row fail."""
LONGEST_WRITE_S: Final = 60.0
"""Seconds for which a write of a result is retried on a busy database: the result may have taken an hour."""
WRITE_PAUSE_S: Final = 0.5
SPACE: Final = 20_261
"""First key of the advisory locks under which rows are claimed; those of markets have another one."""

log = logging.getLogger(__name__)
T = TypeVar("T")
Row = TypeVar("Row", bound=BackgroundJob)


@dataclass(frozen=True)
class JobTable(Generic[Row]):
    """One table of background jobs."""

    model: type[Row]
    quota: str
    """Key of `settings.OPEN_WORK` that says how many rows of one owner may be open."""
    word: str
    """The word for a row in messages."""
    task: str
    """Name of the Celery task that computes its rows."""
    queue: str
    """Celery queue of that task."""
    large: tuple[str, ...]
    """Large columns that a claim does not read."""
    reset: Callable[[], Json]
    """Return empty values for the columns that an earlier attempt may have written."""
    at_once: Callable[[], int | None]
    """Return how many rows may be computed at the same time; None: as many as there are workers."""
    owner: str = "owner"
    """Field path from a row to its owner: teams and users without a team take turns, and members of a team do."""

    @property
    def plural(self) -> str:
        """The word for several rows in messages."""
        first, *rest = self.word.lower().split(" ")
        return " ".join((f"{first}s", *rest))

    def wake(self) -> None:
        """Wake a worker after the open transaction is committed."""
        waking.wake(self.task, queue=self.queue)

    @property
    def team(self) -> str:
        """Field path from a row to the team of its owner."""
        return f"{self.owner}__membership__team"

    @property
    def rows(self) -> "QuerySet[Row]":
        """All rows of the table."""
        found: QuerySet[Row] = self.model._default_manager.all()
        return found


@dataclass(frozen=True)
class Attempt(Generic[Row]):
    """The right to compute a row."""

    table: JobTable[Row]
    pk: int
    number: int

    @property
    def row(self) -> "QuerySet[Row]":
        """The row, as long as this attempt is the current one."""
        return self.table.rows.filter(pk=self.pk, attempts=self.number, state=JobState.RUNNING)


def claim_next(table: JobTable[Row]) -> Attempt[Row] | None:
    """Claim the next row that waits or whose worker is dead; owners take turns.

    Returns None if there is no such row, or the largest allowed number is being computed.
    """
    _set_back_heartbeats(table)
    if not anything_to_do(table):  # reading first takes no lock
        return None
    with transaction.atomic():
        most = table.at_once()
        if most is not None:
            _one_after_the_other(table)
        moment = now()
        alive = table.rows.filter(worker_alive(moment)).count()
        if most is not None and alive >= most:
            return None
        for owner in _owners_in_turn(table, moment):
            attempt = _begin_first(table, _to_do(table, moment).filter(**{table.owner: owner}), moment)
            if attempt is not None:
                return attempt
    return None


def _set_back_heartbeats(table: JobTable[Row]) -> None:
    """Set heartbeats from before the clock was set back to the present time: a dead worker would count as alive."""
    moment = now()
    ahead = table.rows.filter(beats_ahead(moment))
    if ahead.exists():  # reading first takes no lock
        ahead.update(heartbeat_at=moment)


def _one_after_the_other(table: JobTable[Row]) -> None:
    """Let one worker claim a row of this table at a time: two that count at once would both find room for one more.

    An advisory lock, since locks of rows could wait for a deletion that waits for them. SQLite has one writer anyway.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [SPACE, table.quota])


def _begin_first(table: JobTable[Row], rows: "QuerySet[Row]", moment: datetime) -> Attempt[Row] | None:
    """Claim the first of these rows that can start; end those before it, which were cancelled or failed too often."""
    for row in rows.select_for_update(skip_locked=True, of=("self",)).order_by("pk"):
        if row.cancel_requested:
            _write(row, JobState.CANCELLED, ended_at=moment)
        elif row.state == JobState.RUNNING and row.attempts >= MOST_ATTEMPTS:
            error = f"The worker that computed it died or lost the database, {MOST_ATTEMPTS} times."
            _write(row, JobState.FAILED, ended_at=moment, error=error)
        else:
            begun = {"started_at": moment, "heartbeat_at": moment, "attempts": row.attempts + 1}
            _write(row, JobState.RUNNING, **begun, **table.reset())
            return Attempt(table, row.pk, row.attempts)
    return None


def place_of(table: JobTable[Row], rows: "QuerySet[Row]") -> int | None:
    """Return the queue place, from 1, of the first queued row among these rows of one owner; None if none is queued.

    The count assumes that one worker starts all rows that wait now, one row of each team, or user without a team, in
    each round.
    """
    first = rows.filter(state=JobState.QUEUED).order_by("pk").values_list("pk", table.owner).first()
    if first is None:
        return None
    pk, owner = first
    waiting = _to_do(table, now())
    counts = dict(waiting.order_by().values_list(table.owner).annotate(n=Count("pk")))
    groups = _groups_in_turn(table, now())
    own = next((group for group in groups if owner in group), [owner])
    before = _before(
        waiting.filter(**{table.owner: owner}, pk__lt=pk).count(), owner, {one: counts.get(one, 0) for one in own}
    )
    sizes = {group[0]: sum(counts.get(one, 0) for one in group) for group in groups}
    return 1 + _before(before, own[0], sizes)


def _before(own: int, who: int, waiting: Mapping[int, int]) -> int:
    """Return how many rows start before a row that has `own` rows of its own line before it.

    `waiting` has the number of rows of each line that takes turns, in the order of their turns.
    """
    earlier, total = True, own
    for line, count in waiting.items():
        if line == who:
            earlier = False
        else:
            total += min(count, own + earlier)
    return total


def place_of_row(table: JobTable[Row], row: Row) -> int | None:
    """Return the queue place, from 1, of this row; None unless it is queued."""
    return place_of(table, table.rows.filter(pk=row.pk))


def progress(attempt: Attempt[Row], **fields: Any) -> bool:
    """Write the progress and a heartbeat; False if the attempt is no longer the current one.

    Nothing is written while the database is busy: the next write contains this progress, too.
    """
    try:
        return attempt.row.update(heartbeat_at=now(), **fields) == 1
    except DatabaseError as error:
        if not is_busy(error):
            raise
        close_old_connections()  # a lost connection would fail for ever
        log.warning("progress of %s %d was not written: %s", attempt.table.word, attempt.pk, error)
        return True


def finish(attempt: Attempt[Row], **fields: Any) -> bool:
    """Store the result; for a cancelled attempt it is the best result found before the cancellation."""
    return _written(lambda: _finish(attempt, fields))


def _finish(attempt: Attempt[Row], fields: Json) -> bool:
    cancelled = attempt.row.filter(cancel_requested=True)
    ended = {"ended_at": now(), "stage": Stage.BEGUN}
    if cancelled.update(state=JobState.CANCELLED, **ended, **fields):
        return True
    return attempt.row.update(state=JobState.COMPLETED, **ended, **fields) == 1


def fail(attempt: Attempt[Row], error: str) -> bool:
    """Store that there is no result, with the reason; a cancelled attempt is only marked as cancelled."""
    return _written(lambda: _fail(attempt, error))


def _fail(attempt: Attempt[Row], error: str) -> bool:
    ended = {"ended_at": now(), "stage": Stage.BEGUN}
    if attempt.row.filter(cancel_requested=True).update(state=JobState.CANCELLED, **ended):
        return True
    return attempt.row.update(state=JobState.FAILED, error=error, **ended) == 1


def release(attempt: Attempt[Row]) -> None:
    """Release the row because the worker stops. Another worker starts it again, however often that happens."""
    _written(lambda: attempt.row.update(state=JobState.QUEUED, stage=Stage.BEGUN, started_at=None, heartbeat_at=None))


def interrupt(attempt: Attempt[Row], error: Exception) -> None:
    """Release the row after an unexpected error for another attempt; after the last attempt the row fails with it."""
    log.error("attempt %d of %s %d failed", attempt.number, attempt.table.word, attempt.pk, exc_info=error)
    close_old_connections()
    _release_or_fail(attempt, f"{type(error).__name__}: {error}")


def begin_again(attempt: Attempt[Row], why: str) -> None:
    """Release the row for another attempt, since this one came to nothing; after the last attempt the row fails."""
    log.warning("attempt %d of %s %d came to nothing: %s", attempt.number, attempt.table.word, attempt.pk, why)
    _release_or_fail(attempt, why)


def _release_or_fail(attempt: Attempt[Row], error: str) -> None:
    if attempt.number < MOST_ATTEMPTS:
        release(attempt)
    else:
        fail(attempt, error)


def cancel(table: JobTable[Row], pk: int) -> Row:
    """End a queued job, or ask the worker of a running one to stop; raises WrongState if it has ended or is gone."""
    with transaction.atomic():
        found = table.rows.select_for_update().filter(pk=pk).first()
        if found is None:
            raise WrongState(f"{table.word} {pk} was deleted; nothing is left to be cancelled.")
        if found.ended:
            state = JobState(found.state).label.lower()
            raise WrongState(f"{table.word} {found.pk} is {state}; nothing is left to be cancelled.")
        found.cancel_requested = True
        found.save(update_fields=["cancel_requested"])
        if found.state == JobState.QUEUED:
            _write(found, JobState.CANCELLED, ended_at=now())
    return found


def cancel_open(rows: "QuerySet[Row]") -> int:
    """End all queued rows of these and ask the workers of the running ones to stop; returns the number of rows."""
    with transaction.atomic():
        # Lock first: a row that its worker releases between the two updates would be in neither.
        list(rows.filter(state__in=OPEN).select_for_update().order_by("pk").values_list("pk"))
        waiting = rows.filter(state=JobState.QUEUED)
        ended = waiting.update(state=JobState.CANCELLED, ended_at=now(), cancel_requested=True)
        return ended + rows.filter(state=JobState.RUNNING).update(cancel_requested=True)


def anything_to_do(table: JobTable[Row]) -> bool:
    """Return whether there is a row that waits or whose worker is dead."""
    return _to_do(table, now()).exists()


def _written(write: Callable[[], T]) -> T:
    """Repeat the write until the database accepts it; raises the error after `LONGEST_WRITE_S`."""
    until = monotonic() + LONGEST_WRITE_S
    while True:
        try:
            return write()
        except DatabaseError as error:
            if not is_busy(error) or monotonic() > until:
                raise
            close_old_connections()
        sleep(WRITE_PAUSE_S)


def _to_do(table: JobTable[Row], moment: datetime) -> "QuerySet[Row]":
    return table.rows.filter(Q(state=JobState.QUEUED) | worker_dead(moment)).defer(*table.large)


def _owners_in_turn(table: JobTable[Row], moment: datetime) -> list[int]:
    """Return owners of rows that can start, in the order of their turns."""
    return [owner for group in _groups_in_turn(table, moment) for owner in group]


def _groups_in_turn(table: JobTable[Row], moment: datetime) -> list[list[int]]:
    """Return the teams, and users without a team, in the order of their turns; of each its members, in that of theirs.

    Those with the fewest running rows come first; of equals the one served longest ago. Only members whose rows can
    start are returned.
    """
    asking = _to_do(table, moment).order_by().values_list(table.owner, table.team)
    first: dict[int, int] = {}
    group_of: dict[int, int] = {}
    for owner, team, pk in asking.annotate(first=Min("pk")):
        first[owner], group_of[owner] = pk, owner if team is None else -team
    served = table.rows.filter(
        Q(**{f"{table.owner}__in": list(first)}) | Q(**{f"{table.team}__in": [-g for g in group_of.values() if g < 0]})
    )
    alike: dict[int, list[_Served]] = defaultdict(list)
    """The work of the members of each group, also of those who have none that waits."""
    of: dict[int, _Served] = {}
    rows = served.order_by().values_list(table.owner, table.team)
    for owner, team, running, last in rows.annotate(
        running=Count("pk", filter=worker_alive(moment)), last=Max("started_at")
    ):
        of[owner] = _Served(running, last)
        alike[owner if team is None else -team].append(of[owner])
    groups: dict[int, list[int]] = defaultdict(list)
    for owner in sorted(first, key=lambda owner: (of[owner].key, first[owner])):
        groups[group_of[owner]].append(owner)
    return sorted(
        groups.values(),
        key=lambda group: (_Served.together(alike[group_of[group[0]]]).key, min(first[one] for one in group)),
    )


@dataclass(frozen=True)
class _Served:
    """The work of one owner, or of several, that was begun."""

    running: int
    """Rows that are computed."""
    last: datetime | None
    """Time at which a row was last begun."""

    @classmethod
    def together(cls, parts: "Iterable[_Served]") -> "_Served":
        """Return the work of all of these."""
        parts = list(parts)
        begun = [one.last for one in parts if one.last is not None]
        return cls(sum(one.running for one in parts), max(begun, default=None))

    @property
    def key(self) -> tuple[int, bool, float]:
        """The smallest comes first."""
        return self.running, self.last is not None, 0.0 if self.last is None else self.last.timestamp()


def _write(row: BackgroundJob, state: JobState, **fields: Any) -> None:
    row.state, row.stage = state, Stage.BEGUN
    for name, value in fields.items():
        setattr(row, name, value)
    row.save(update_fields=["state", "stage", *fields])
