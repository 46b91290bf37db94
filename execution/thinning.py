"""The limit on stored steps of a training: of more than these, every second, fourth, eighth ... step is kept.

So a program that reports steps without end cannot fill the database, and a long training keeps a curve of its loss from
the first step to the last.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from execution.models import Progress, Training

MOST_STEPS: Final = 4_000
"""Stored steps of a training after it was thinned."""
SLACK: Final = 1_000
"""Steps above `MOST_STEPS` that are stored before a training is thinned again."""
NEWEST: Final = 200
"""Newest steps of the newest generation, which are all kept: rates and durations of steps are taken from them."""
STARTS: Final = 200
"""Newest generations whose first and last steps are kept: costs of restarts are taken from them."""
_AT_ONCE: Final = 900
_MANY: Final = 64
"""Number of factors 2 that step 0 counts as; the greatest step has fewer."""


class Stored(NamedTuple):
    """A stored step; in the order of generations and steps."""

    generation: int
    """Number of the generation."""
    step: int
    row: int = 0
    """Key of the row."""


def thinned(steps: Sequence[Stored], most: int = MOST_STEPS) -> list[Stored]:
    """Return the steps that are kept, at most `most`: of the others, multiples of the smallest power of 2 that fits.

    Parameters
    ----------
    steps
        Sorted.
    most
        At least `NEWEST` + 2 * `STARTS`.

    Examples
    --------
    >>> from execution.thinning import Stored, thinned
    >>> kept = thinned([Stored(0, step) for step in range(10_000)])
    >>> [one.step for one in kept[:3]], kept[-1].step, len(kept)
    ([0, 4, 8], 9999, 2650)
    """
    if len(steps) <= most:
        return list(steps)
    always = _always(steps)
    factors = [_factors_2(one.step) for one in steps]
    counts = Counter(number for one, number in zip(steps, factors, strict=True) if one not in always)
    left, least = counts.total(), 0
    while left > most - len(always):
        left -= counts[least]
        least += 1
    return [one for one, number in zip(steps, factors, strict=True) if number >= least or one in always]


def _always(steps: Sequence[Stored]) -> set[Stored]:
    """Return the first and last step of the newest generations, and the newest steps of the last one."""
    last = steps[-1].generation
    ends = [steps[0], steps[-1]]
    ends += [one for pair in pairwise(steps) if pair[0].generation != pair[1].generation for one in pair]
    numbers = sorted({one.generation for one in ends})[-STARTS:]
    newest = [one for one in steps[-NEWEST:] if one.generation == last]
    return {one for one in ends if one.generation >= numbers[0]} | set(newest)


def _factors_2(step: int) -> int:
    return (step & -step).bit_length() - 1 if step else _MANY


def thin(training: Training) -> int:
    """Delete the rows of a training that are not kept, and return the number of those that are."""
    rows = Progress.objects.filter(generation__training=training).order_by("generation__number", "step")
    steps = [Stored(*columns) for columns in rows.values_list("generation__number", "step", "pk")]
    kept = thinned(steps)
    gone = [one.row for one in set(steps).difference(kept)]
    for begin in range(0, len(gone), _AT_ONCE):
        Progress.objects.filter(pk__in=gone[begin : begin + _AT_ONCE]).delete()
    return len(kept)
