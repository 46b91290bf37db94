"""Compile every kernel before the tests: once, on all cores, not in each of the processes that need one first.

Run as `python -m tests.kernels`. Where they are compiled already, it takes a few seconds.
"""

import gc
import os
from concurrent.futures import ProcessPoolExecutor

from auctions.kernels import compiling
from scheduling import kernels

LONGEST = (kernels.SPLIT_LEARNING, kernels.PLANNER, kernels.ELASTIC, kernels.RIGID, kernels.QUEUES, kernels.BOUNDS)
"""Groups that take longest to compile: they come first."""


def main() -> None:
    """Compile them all; an error in one is raised once the others are through."""
    with ProcessPoolExecutor(os.cpu_count(), initializer=gc.set_threshold, initargs=compiling.SELDOM) as pool:
        groups = (*LONGEST, *kernels.GROUPS.values())
        for begun in [pool.submit(compiling.compile_part, name) for name in kernels.parts_of(groups)]:
            begun.result()


if __name__ == "__main__":
    main()
