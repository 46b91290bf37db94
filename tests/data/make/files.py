"""Every generated file, and what makes it."""

from collections.abc import Callable

from tests.data.make import counterexamples, dps, oasis, preemptive, split_learning, weighted

MAKERS: dict[str, Callable[[], str]] = {
    **dps.MAKERS,
    **oasis.MAKERS,
    **counterexamples.MAKERS,
    **weighted.MAKERS,
    **preemptive.MAKERS,
    **split_learning.MAKERS,
}
"""The text of each file, by its path in `tests/data`."""
