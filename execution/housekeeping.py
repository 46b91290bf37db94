"""Old files are deleted: logs, directories of trainings, and archives of programs; some in each loop of the executor.

A training's directories are deleted some days after its end, and the one with its newest checkpoint three times as many
days after it, since another bid may continue it.
"""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import UUID

from django.db.models import Max

from auctions.models import Bid, BidState
from execution import archives, records
from execution.models import OVER, Execution, Program, Training
from execution.places import archives_root, engine_root, jobs_root, programs_root

DAY_S: Final = 86_400.0
EVERY_S: Final = 3_600.0
"""Seconds between two searches for old files of a cluster."""
BUDGET_S: Final = 0.2
"""Seconds of one loop of the executor after which the next directory waits for the next loop."""
NEW_S: Final = 3_600.0
"""Seconds for which an archive is kept in any case: the row that names it may be about to be written."""
LONGER: Final = 3
"""The directory with the newest checkpoint of a training is kept this many times as long as the others."""
UNDECIDED_OR_GOING: Final = (
    *(BidState.SUBMITTED, BidState.STANDING, BidState.QUARANTINED),
    *(BidState.PLANNED, BidState.RUNNING),
)
"""States of bids whose jobs may still run."""
AT_ONCE: Final = 200


class Housekeeping:
    """The deletions that one executor has still to do. If they are forgotten, they are found again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left: dict[int, Iterator[Path]] = {}
        self._due: dict[int, float] = {}

    def go_on(self, fence: int, execution: Execution, *, now: float) -> None:
        """Delete old files of a cluster for a short time.

        Parameters
        ----------
        fence
            Fence of the executor.
        execution
            How the cluster executes.
        now
            Seconds since 1970.
        """
        if execution.pk not in self._left:
            # A search that is due later than an hour from now was noted while the clock was ahead.
            if now < self._due.get(execution.pk, 0.0) <= now + EVERY_S:
                return
            self._due[execution.pk] = now + EVERY_S
            self._left[execution.pk] = deletions(fence, execution, now=now)
        deadline = self._clock() + BUDGET_S
        while self._clock() < deadline:
            try:
                next(self._left[execution.pk])
            except StopIteration:
                del self._left[execution.pk]
                return
            except BaseException:  # a search that failed is begun again when it is due
                del self._left[execution.pk]
                raise


def deletions(fence: int, execution: Execution, *, now: float) -> Iterator[Path]:
    """Delete all that is old, and yield each path that was looked at."""
    yield from _logs(execution, now=now)
    yield from _trainings(fence, execution, now=now)
    yield from _unpacked(execution, now=now)
    yield from _archives(execution, now=now)


def _logs(execution: Execution, *, now: float) -> Iterator[Path]:
    """Delete the directories of processes that the engine has retired."""
    for path in _paths(engine_root(execution.cluster.name) / "ended"):
        if _age_s(path, now) > execution.keep_days * DAY_S:
            _remove(path)
        yield path


def _trainings(fence: int, execution: Execution, *, now: float) -> Iterator[Path]:
    """Delete directories of trainings that ended; one that no row belongs to is left alone."""
    found = {path.name: path for path in _paths(jobs_root(execution.cluster.name))}
    names = [name for name in found if _is_token(name)]
    for begin in range(0, len(names), AT_ONCE):
        tokens = [UUID(name) for name in names[begin : begin + AT_ONCE]]
        rows = Training.objects.filter(token__in=tokens, state__in=OVER).annotate(ended=Max("generations__ended_at"))
        for training in rows.select_related("bid"):
            if training.ended is not None:
                age = (now - training.ended.timestamp()) / DAY_S / execution.keep_days
                if age > 1 and not _is_continued(training):
                    _delete(fence, training, found[training.token.hex], whole=age > LONGER)
            yield found[training.token.hex]


def _delete(fence: int, training: Training, root: Path, *, whole: bool) -> None:
    newest = records.newest_checkpoint(training)
    kept = 0 if newest is None or whole else newest.generation_id
    for generation in training.generations.exclude(pk=kept):
        path = root / f"g{generation.number}"
        if path.exists():
            records.forget_checkpoints(fence, generation)
            _remove(path)
    if not kept:
        _remove(root)


def _is_continued(training: Training) -> bool:
    """Return whether a bid that may still run continues a training."""
    bid = training.bid
    later = Bid.objects.filter(market=bid.market_id, owner=bid.owner_id, state__in=UNDECIDED_OR_GOING)
    return later.filter(program__continues=bid.sequence).exists()


def _unpacked(execution: Execution, *, now: float) -> Iterator[Path]:
    """Delete unpacked programs that no training has: one that begins later unpacks its program again."""
    rows = Training.objects.exclude(state__in=OVER).filter(program__cluster=execution.cluster_id)
    needed = set(rows.values_list("program__archive_sha256", flat=True))
    for path in _paths(programs_root(execution.cluster.name)):
        if path.name.partition("-")[0] not in needed and _age_s(path, now) > NEW_S:
            archives.remove(path)
        yield path


def _archives(execution: Execution, *, now: float) -> Iterator[Path]:
    """Delete the archives that no open program has, and no closed one whose jobs may still run."""
    for path in _paths(archives_root(execution.cluster.name)):
        programs = list(Program.objects.filter(cluster=execution.cluster_id, archive_sha256=path.name))
        if _age_s(path, now) > NEW_S and not any(one.is_open or _may_run(one) for one in programs):
            path.unlink(missing_ok=True)
        yield path


def _may_run(program: Program) -> bool:
    bids = Bid.objects.filter(market__cluster=program.cluster_id, state__in=UNDECIDED_OR_GOING)
    if program.owner_id is not None:
        bids = bids.filter(owner=program.owner_id)
    return bids.filter(program__name=program.name).exists()


def _remove(folder: Path) -> None:
    """Delete a directory that a program may have filled; what cannot be deleted stays.

    `shutil.rmtree` calls itself and holds a file open for each level, so it fails where directories are nested deeply.
    """
    subprocess.run(["/bin/rm", "-rf", "--", folder], check=False, capture_output=True)  # noqa: S603


def _paths(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except FileNotFoundError:
        return []


def _age_s(path: Path, now: float) -> float:
    """Return the seconds since something in a directory changed, or a file was stored; 0 if it is gone."""
    with suppress(OSError):
        return now - os.stat(path, follow_symlinks=False).st_mtime
    return 0.0


def _is_token(name: str) -> bool:
    return len(name) == 32 and all(letter in "0123456789abcdef" for letter in name)
