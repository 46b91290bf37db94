"""Intervals of means over seeds."""

from typing import Final

import numpy as np

from scheduling.model.types import Floats

LEVEL: Final = 0.95
"""Probability that an interval covers the mean over all seeds, if runs are normally distributed."""


def half_width(samples: Floats) -> Floats | None:
    """Return half the width of the interval of the mean over the last axis, by Student's t; None of one sample.

    Examples
    --------
    >>> import numpy as np
    >>> from studies.experiments.intervals import half_width
    >>> half_width(np.array([[1.0, 2.0, 3.0]])).round(3).tolist()
    [2.484]
    """
    count = samples.shape[-1]
    if count < 2:
        return None
    from scipy.special import stdtrit  # noqa: PLC0415 (an eighth of the start of a process)

    quantile = float(stdtrit(count - 1, (1 + LEVEL) / 2))
    half: Floats = quantile * samples.std(axis=-1, ddof=1) / np.sqrt(count)
    return half
