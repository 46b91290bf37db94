"""Compile every kernel before the tests: once, on all cores, not in each of the processes that need one first.

Run as `python -m tests.kernels`. Where they are compiled already, it takes a few seconds.
"""

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

from scheduling import elastic, fluid_prices, planner, rigid
from scheduling.offline import Covers, Question, best_bound
from scheduling.preemptive import warming as queues
from scheduling.split_learning import warming as split_learning


def bounds() -> None:
    """What upper bounds need."""
    ledger, bid = rigid.smallest_problem()
    best_bound(Question((bid,), ledger.inventory, 0, ledger.end, covers=Covers.RIGID), lambda: 60.0)


KERNELS: tuple[Callable[[], None], ...] = (
    elastic.warm_up,
    split_learning.warm_up,
    rigid.warm_up,
    planner.warm_up,
    queues.warm_up,
    fluid_prices.warm_up,
    bounds,
)
"""Those that take longest come first."""


def main() -> None:
    """Compile them all; an error in one is raised once the others are through."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for begun in [pool.submit(warm_up) for warm_up in KERNELS]:
            begun.result()


if __name__ == "__main__":
    main()
