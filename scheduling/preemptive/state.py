"""The arrays of all queues that kernels change."""

from dataclasses import dataclass

import numpy as np

from scheduling.model.types import Ints, Json
from scheduling.preemptive import kernel
from scheduling.preemptive.kernel import HEAD, JOB, NONE


@dataclass
class State:
    """Arrays that kernels change; one block and one job a row."""

    workers: Ints
    blocks: Ints
    free: Ints
    """The first unused block."""
    jobs: Ints
    unused: list[int]
    """Rows of `jobs`."""

    def copy(self) -> "State":
        """Return an independent state with the same contents."""
        arrays = (self.workers.copy(), self.blocks.copy(), self.free.copy(), self.jobs.copy())
        return State(*arrays, list(self.unused))

    def to_json(self) -> Json:
        """Return all numbers as a document that `from_json` reads."""
        arrays = {"workers": self.workers, "blocks": self.blocks, "free": self.free, "jobs": self.jobs}
        return {**{name: array.tolist() for name, array in arrays.items()}, "unused": list(self.unused)}

    @classmethod
    def from_json(cls, document: Json) -> "State":
        """Read what `to_json` wrote."""
        columns = {"workers": kernel.WORKER_COLUMNS, "blocks": kernel.BLOCK_COLUMNS, "jobs": kernel.JOB_COLUMNS}
        arrays = {name: np.array(document[name], dtype=np.int64).reshape(-1, n) for name, n in columns.items()}
        return cls(**arrays, free=np.array(document["free"], dtype=np.int64), unused=list(document["unused"]))

    def row(self) -> int:
        """Return a row for a new job."""
        if not self.unused:
            size = len(self.jobs)
            more = np.zeros((max(size, 16), kernel.JOB_COLUMNS), dtype=np.int64)
            self.jobs = np.concatenate([self.jobs, more])
            self.unused = list(range(size, len(self.jobs)))
        return self.unused.pop()

    def grow(self) -> None:
        """Make room for more blocks when no unused block is left."""
        size = len(self.blocks)
        more = np.zeros((max(size, 64), kernel.BLOCK_COLUMNS), dtype=np.int64)
        more[:, kernel.NEXT] = np.arange(size + 1, size + len(more) + 1)
        more[-1, kernel.NEXT] = NONE
        self.blocks, self.free[0] = np.concatenate([self.blocks, more]), size

    def join(self, joining: Ints, block: tuple[int, ...]) -> None:
        """Put a block into the queues of workers, as in `kernel.join`."""
        same, row = np.array(block, dtype=np.int64), 0
        while (row := kernel.join(row, joining, same, self.workers, self.blocks, self.free)) < len(joining):
            self.grow()

    def block_of(self, worker: int, job: int) -> int:
        """Return the last block of a job in a worker's queue; NONE if it has none there."""
        found, k = NONE, int(self.workers[worker, HEAD])
        while k != NONE:
            found = k if self.blocks[k, JOB] == job else found
            k = int(self.blocks[k, kernel.NEXT])
        return found
