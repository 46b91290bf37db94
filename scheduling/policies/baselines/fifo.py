"""First in, first out."""

from dataclasses import dataclass

from scheduling.book.state import Cause
from scheduling.model.parameters import parameter
from scheduling.policies.baselines.base import FixedGangs, seed_parameter
from scheduling.policies.baselines.pass_state import PassState


@dataclass(frozen=True)
class Fifo(FixedGangs):
    """Jobs start in order of arrival, as fixed gangs (`gang.fixed_gang`), and run to their end.

    At every arrival and in every slot the job at the head of the line starts if its gang has a place now
    (`gang.find_place`), then the next. With `blocking` the first that has none stops the line; without, it is passed
    over (backfill). A job that has become impossible because servers were removed does not block others.

    References
    ----------
    Weighted completion, Section 7 (i).
    """

    blocking: bool = parameter(True, "A job that does not fit holds up all behind it.")
    seed: int = seed_parameter()

    name = "fifo"
    title = "FIFO: jobs run in order of arrival, nobody pays"

    def arrange(self, floor: PassState, cause: Cause | None) -> None:
        """Start jobs from the head of the line."""
        for task in floor.in_line():
            gang = self.gang(task.job.bid, floor)
            if gang is not None and not floor.start(task, gang) and self.blocking:
                return
