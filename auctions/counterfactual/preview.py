"""Preview of a policy change: how many of the latest decisions the policy would have changed."""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Final

from auctions.counterfactual.comparison import Comparison, Enough, compare
from auctions.counterfactual.record import Record
from auctions.domain.errors import NotReady
from auctions.kernels import warming
from auctions.models import Market
from scheduling.model.errors import InvalidField, SchedulingError
from scheduling.policies.base import Policy

DECISIONS: Final = 200
SECONDS: Final = 4.0
PATIENCE_S: Final = 4.0
"""Seconds to wait for the kernels of another policy; loading compiled ones takes one second."""


@dataclass(frozen=True)
class Preview:
    """The result that can be computed in a few seconds."""

    requested: int
    """Number of decisions that were to be replayed."""
    comparison: Comparison | None
    """None if it could not be computed."""
    problem: str = ""
    """Reason why there is no comparison; empty if there is one."""

    @property
    def words(self) -> str:
        """The result in one sentence."""
        found = self.comparison
        if found is None:
            return self.problem
        words = f"This would have changed {found.changed} of the last {found.decided} decisions."
        if not found.whole:
            # Events are replayed in order, so the decisions that are missing are the latest ones.
            words = (
                f"This would have changed {found.changed} of {found.decided} decisions, the earliest of the last"
                f" {self.requested}: time was up before the others were made again."
            )
        return f"{words}{_failures(found)}"


def _failures(found: Comparison) -> str:
    """Return a sentence that says on how many bids and plans the policy failed; empty if on none."""
    counts = ((found.other.quarantined - found.recorded.quarantined, "bids"), (found.failed_plans, "plans"))
    words = " and ".join(f"{count} {what}" for count, what in counts if count > 0)
    return f" The policy would have failed on {words}." if words else ""


def preview(market: Market, policy: Policy, *, decisions: int = DECISIONS, seconds: float = SECONDS) -> Preview:
    """Replay the last decisions under another policy, from the state before them; return its errors as a problem."""
    try:
        warming.check(policy, patience_s=PATIENCE_S)
    except NotReady as error:
        return Preview(0, None, str(error))
    record = Record.of(market)
    version = record.first_of_last(decisions)
    if version is None:
        return Preview(0, None, "Nothing was decided yet.")
    requested = record.decided_since(version).count()
    try:
        return Preview(requested, compare(record, policy, decided_from=version, progress=_until(seconds)))
    except Enough:
        return Preview(requested, None, f"The comparison was not computed within {seconds:g} s.")
    except InvalidField as error:
        why = "; ".join(one.problem for one in error.all_wrong)
        return Preview(requested, None, f"The market could not have decided its last bids by {policy.name}: {why}.")
    except (SchedulingError, ValueError) as error:
        return Preview(requested, None, f"The comparison cannot be computed: {error}.")


def _until(seconds: float) -> Callable[[int, int], None]:
    end = monotonic() + seconds

    def progress(done: int, total: int) -> None:
        if monotonic() > end:
            raise Enough

    return progress
