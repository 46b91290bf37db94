"""Compute queued counterfactuals event by event, and check between two events whether to continue.

This runs in the worker itself, not in a separate process: an event takes milliseconds, so nothing has to be killed.
Only the compilation of kernels would block the worker: `studies/background/loading.py` does that.
"""

from time import monotonic

from auctions.counterfactual.comparison import Comparison, compare
from auctions.counterfactual.record import Record
from scheduling import kernels
from scheduling.model.errors import InvalidField, SchedulingError
from scheduling.registry import recorded_policy
from studies.background import states
from studies.background.loading import load_kernels
from studies.background.models import Stage
from studies.background.processes import EVERY_S, Gone, NoAnswer, Stopping, guarded, is_cancelled
from studies.background.states import Attempt
from studies.job_tables import COUNTERFACTUALS
from studies.models import Counterfactual


class Stopped(Exception):
    """Raised when the worker has to stop."""


class _Watch:
    """Write progress from time to time, and check for cancellation and shutdown."""

    def __init__(self, attempt: Attempt[Counterfactual], stopping: Stopping) -> None:
        self._attempt, self._stopping = attempt, stopping
        self._looked = monotonic()
        self.total = 0
        """Events to be replayed, also if all are replayed before the first look."""

    def __call__(self, done: int, total: int) -> None:
        """Report that `done` of `total` events are replayed; raises Gone, NoAnswer or Stopped."""
        self.total = total
        if monotonic() - self._looked < EVERY_S:
            return
        self._looked = monotonic()
        if self._stopping():
            raise Stopped
        if not states.progress(self._attempt, stage=Stage.BEGUN, replayed=done, events=total):
            raise Gone
        if is_cancelled(self._attempt):
            raise NoAnswer("It was cancelled.")


def compute_next(stopping: Stopping = lambda: False) -> bool:
    """Compute the next queued row; False if there was none. `stopping` says whether this worker has to stop."""
    attempt = states.claim_next(COUNTERFACTUALS)
    if attempt is None:
        return False
    row = attempt.row.first()
    if row is None:
        return True
    with guarded(attempt):
        _compute(attempt, row, stopping)
    return True


def _compute(attempt: Attempt[Counterfactual], row: Counterfactual, stopping: Stopping) -> None:
    try:
        load_kernels(attempt, kernels.needed_by(recorded_policy(row.policy, row.parameters)), stopping)
        if stopping():
            raise Stopped
        watch = _Watch(attempt, stopping)
        found = _replayed(row, watch)
    except Stopped:
        states.release(attempt)
    except InvalidField as error:
        states.fail(attempt, f"The market could not have been decided by {row.policy}: {error.problem}.")
    except (SchedulingError, ValueError, LookupError) as error:
        states.fail(attempt, f"{type(error).__name__}: {error}")
    else:
        counted = {"decided": found.decided, "changed": found.changed}
        # The last events, or all of a short record, were replayed after the last look.
        states.finish(attempt, result=found.to_json(), replayed=watch.total, events=watch.total, **counted)


def _replayed(row: Counterfactual, watch: _Watch) -> Comparison:
    record = Record(row.market_id, version=row.version, slot=row.slot, submitted=row.submitted)
    return compare(record, recorded_policy(row.policy, row.parameters), since=row.since, progress=watch)
