"""The least makespan of the backward passes of one helper, by trying whatever may run in each slot."""

from collections.abc import Sequence
from functools import cache


def least_cost(there: Sequence[int], slots: Sequence[int], tail: Sequence[int], taken: set[int]) -> int:
    """Max over passes of end + tail, preemptive, in slots not taken; also tries to idle."""
    horizon = max(there, default=0) + sum(slots) + len(taken)

    @cache
    def after(t: int, left: tuple[int, ...]) -> int:
        if not any(left):
            return 0
        if t > horizon:
            return 10**9
        best = after(t + 1, left)
        if t in taken:
            return best
        for j, todo in enumerate(left):
            if todo and there[j] <= t:
                over = t + 1 + tail[j] if todo == 1 else 0
                best = min(best, max(over, after(t + 1, (*left[:j], todo - 1, *left[j + 1 :]))))
        return best

    return after(0, tuple(slots))
