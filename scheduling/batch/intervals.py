"""The interval scheduler: jobs are gathered until the end of an interval and run as one batch (A_online, A_dual).

The intervals end with slots tau_i = 1, 2, 4, 8, ... A job that has arrived by tau_i and is not scheduled is in batch i,
which is packed in rounds of tau_i slots: each is one call of A_maxweight and takes what the rounds before left over.
"""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Interval:
    """The interval that ended last: it ended with slot `tau`, and the next one is `length` slots long.

    As printed, length = tau. In a live market intervals cannot double for ever, as a horizon ends: they stay at the
    longest power of two whose batch lies within it (`capped`), and a job that is longer is placed wherever there is
    room: the printed intervals would have grown until it fits.
    """

    tau: int
    length: int

    @property
    def capped(self) -> bool:
        """Whether the printed interval would have been longer."""
        return self.length < self.tau

    def rounds(self, alpha: int, *, now: int, end: int) -> Iterator[tuple[int, int]]:
        """First slot and latest completion of each round of the printed batch, which runs from alpha x tau on.

        `alpha` rounds (weighted completion, Algorithms 1 and 2). A round of tau slots has tau - 1 that can be used: a
        job that starts in its slot t for L slots needs t + L <= tau (7b).
        """
        begin = self.tau + (alpha - 1) * self.length
        for start in range(begin, begin + alpha * self.length, self.length):
            yield max(now, start + 1), min(start + self.length, end)

    def chained(self, free: int, *, end: int) -> Iterator[tuple[int, int]]:
        """The same from slot `free` on, when the batch before is complete, as many rounds as the horizon has."""
        for start in range(free - 1, end, self.length):
            yield start + 1, min(start + self.length, end)


def last_interval(now: int, *, slots: int, alpha: int) -> Interval | None:
    """The interval that ended last before slot `now`; None before the end of the first, slot 1.

    Parameters
    ----------
    slots
        Length of the horizon, which a batch has to lie within.
    alpha
        Rounds of a batch.
    """
    passed = now - 1
    if passed < 1:
        return None
    longest = _power(max(1, slots // (2 * alpha)))
    if passed < longest:
        return Interval(_power(passed), _power(passed))
    return Interval(passed // longest * longest, longest)


def next_end(now: int, *, slots: int, alpha: int) -> int:
    """The slot with which the interval that holds slot `now` ends."""
    last = last_interval(now, slots=slots, alpha=alpha)
    return 1 if last is None else last.tau + last.length


def _power(number: int) -> int:
    """The greatest power of two that is not above `number`."""
    return 1 << (number.bit_length() - 1)
