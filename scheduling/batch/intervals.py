"""The interval scheduler: jobs are collected until the end of an interval and run as one batch (A_online, A_dual).

The intervals end with slots tau_i = 1, 2, 4, 8, ... A job that has arrived by tau_i and is not scheduled is in batch i,
which is packed in rounds of tau_i slots. Each round is one call of A_maxweight for the jobs that earlier rounds did not
place.
"""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Interval:
    """The last interval that ended: it ended with slot `tau`, and the next one has `length` slots.

    In the paper, length = tau. In a live market the horizon is finite, so intervals cannot double for ever. They stop
    at the largest power of two whose batch fits in the horizon (`capped`). A longer job is then placed wherever it
    fits, because the intervals of the paper would have grown until it fits.
    """

    tau: int
    length: int

    @property
    def capped(self) -> bool:
        """Whether the interval of the paper would be longer."""
        return self.length < self.tau

    def rounds(self, alpha: int, *, now: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield first slot and latest completion of each round of the batch as in the paper, from alpha x tau on.

        There are `alpha` rounds (weighted completion, Algorithms 1 and 2). A round of tau slots has tau - 1 usable
        slots: a job that starts in its slot t for L slots needs t + L <= tau (7b).
        """
        begin = self.tau + (alpha - 1) * self.length
        for start in range(begin, begin + alpha * self.length, self.length):
            yield max(now, start + 1), min(start + self.length, end)

    def chained(self, free: int, *, end: int) -> Iterator[tuple[int, int]]:
        """Yield the rounds from slot `free` on, when the earlier batch is complete, until the horizon ends."""
        for start in range(free - 1, end, self.length):
            yield start + 1, min(start + self.length, end)


def last_interval(now: int, *, slots: int, alpha: int) -> Interval | None:
    """Return the last interval that ended before slot `now`; None before the end of the first one, slot 1.

    Parameters
    ----------
    slots
        Length of the horizon, in which a batch must fit.
    alpha
        Number of rounds of a batch.
    """
    passed = now - 1
    if passed < 1:
        return None
    longest = _power(max(1, slots // (2 * alpha)))
    if passed < longest:
        return Interval(_power(passed), _power(passed))
    return Interval(passed // longest * longest, longest)


def next_end(now: int, *, slots: int, alpha: int) -> int:
    """Return the last slot of the interval that contains slot `now`."""
    last = last_interval(now, slots=slots, alpha=alpha)
    return 1 if last is None else last.tau + last.length


def _power(number: int) -> int:
    """Return the largest power of two that is at most `number`."""
    return 1 << (number.bit_length() - 1)
