"""The number of random cases: a few new ones in every run, and many in `make soak`, which runs only these tests.

Whatever is drawn follows from one seed, which the end of a run prints: `SHADOWPRICE_SEED` draws the same again.
"""

import os
from collections.abc import Iterable
from typing import Final, TypeVar
from zlib import crc32

import numpy as np
import pytest
from hypothesis import strategies as st

T = TypeVar("T")
SOAK: Final = os.environ.get("SHADOWPRICE_SOAK") == "1"
VARIABLE: Final = "SHADOWPRICE_SEED"
MARKER: Final = "soak"
"""Marker of tests that try more in a soak."""


DRAWING: Final = frozenset({"fresh_seed", "fresh", "rounds"})
"""What tests that draw call."""
LONGER: Final = 30
"""Factor of the number of cases in a soak."""


def rounds(count: int, *, longer: int = LONGER) -> int:
    """Return the number of cases: this number in an ordinary run, and `longer` times as much in a soak."""
    return count * longer if SOAK else count


def some(names: Iterable[T], count: int) -> list[T]:
    """Return this many of the names, in order: others in every run, all of them in a soak.

    For parameters of tests whose every case takes long. Such a test has the marker of a soak itself.
    """
    known = list(names)
    if SOAK:
        return known
    rng = np.random.default_rng([choose_seed(), crc32(repr(known).encode())])
    return [known[i] for i in sorted(rng.choice(len(known), count, replace=False))]


def choose_seed() -> int:
    """The seed of this run, which its worker processes inherit: the one that is asked for, or a new one."""
    return int(os.environ.setdefault(VARIABLE, str(np.random.default_rng().integers(1 << 32))))


def fresh_seed() -> int:
    """A seed for the test that runs now: another one in every run, unless the seed of the run is asked for."""
    test = os.environ["PYTEST_CURRENT_TEST"].removesuffix(" (call)")
    return int(np.random.default_rng([choose_seed(), crc32(test.encode())]).integers(1 << 31))


def integers(low: int, high: int) -> st.SearchStrategy[int]:
    """Whole numbers from `low` to `high` that are new in every run, from the first one on.

    Of its own integers Hypothesis tries the simplest first, so a test with one example would always draw the same.
    """

    def moved(number: int) -> int:
        """Move it, round the end, by as much as follows from the seed of the run."""
        move = int(np.random.default_rng([fresh_seed(), low, high]).integers(high - low + 1))
        return low + (number - low + move) % (high - low + 1)

    return st.integers(low, high).map(moved)


def fresh() -> tuple[np.random.Generator, int]:
    """A generator of such a seed, and the seed, for the message of a failure."""
    seed = fresh_seed()
    return np.random.default_rng(seed), seed


def is_random(item: pytest.Item) -> bool:
    """Whether a test draws: from a seed of the run, or by Hypothesis."""
    function = getattr(item, "function", None)
    names = getattr(getattr(function, "__code__", None), "co_names", ())
    return getattr(function, "is_hypothesis_test", False) or not DRAWING.isdisjoint(names)


def summary() -> str:
    """What to do to draw the same again."""
    seed = choose_seed()
    return f"Random tests: {'soak, ' if SOAK else ''}seed {seed} ({VARIABLE}={seed} draws the same again)."
