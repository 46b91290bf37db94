"""Parts of claims that several figures have in common: a lead at every point, and growth at every step."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduling.model.types import Floats
from studies.experiments.intervals import half_width
from studies.papers.figure import Series

NEAR = 0.15
"""A published size counts as reached from 85 % of it; a number that varies by no more than 15 % has no trend."""


@dataclass(frozen=True)
class Lead:
    """At how many points the mean of one series is better than those of all others."""

    ahead: int
    clear: int | None
    """Points at which the interval of each difference, seed by seed, excludes 0; None with one seed."""
    points: int

    @property
    def everywhere(self) -> bool:
        """Whether it is better at every point."""
        return self.ahead == self.points

    def __str__(self) -> str:
        """Return the counts as words of a finding."""
        clear = "" if self.clear is None else f", at {self.clear} beyond the interval of the difference"
        return f"ahead at {self.ahead} of {self.points} points{clear}"


def lead(mine: Series, others: Sequence[Series], *, lower: bool = False) -> Lead:
    """Compare a series with others, seed by seed; `lower` if less is better. No difference is no lead."""
    sign = -1.0 if lower else 1.0
    difference = np.stack([sign * (mine.samples - other.samples) for other in others])
    mean, half = difference.mean(axis=2), half_width(difference)
    ahead = (mean > 0).all(axis=0)
    clear = None if half is None else int((ahead & (mean > half).all(axis=0)).sum())
    return Lead(int(ahead.sum()), clear, len(mine.x))


def rises(numbers: Floats) -> bool:
    """Whether each number is greater than the one before it."""
    return bool((np.diff(numbers) > 0).all())


def never_falls(numbers: Floats) -> bool:
    """Whether no number is less than the one before it, and the last is greater than the first."""
    return bool((np.diff(numbers) >= 0).all() and numbers[-1] > numbers[0])
