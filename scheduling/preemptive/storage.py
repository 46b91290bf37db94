"""What servers store: the data of a chunk stays where it was sent until its whole job is complete (Section VI)."""

from collections.abc import Mapping, Sequence

import numpy as np

from scheduling.model.inventory import Inventory
from scheduling.model.types import Ints

PLENTY = 1 << 60
"""Chunks a server without a limit has room for."""


class Stored:
    """How many chunks of which job each server stores, and how much that is; changed in place.

    Whole numbers of any size: what a million chunks of a petabyte take does not fit 64 bits.
    """

    def __init__(self, servers: int) -> None:
        self._chunks: dict[str, dict[int, int]] = {}
        self._total = [0] * servers

    @property
    def total(self) -> tuple[int, ...]:
        """What each server stores, S."""
        return tuple(self._total)

    def copy(self) -> "Stored":
        """An independent one with the same contents."""
        other = Stored(0)
        other._chunks = {job: dict(chunks) for job, chunks in self._chunks.items()}
        other._total = list(self._total)
        return other

    def of(self, job: str) -> Mapping[int, int]:
        """Chunks of a job by server, complete ones too."""
        return self._chunks.get(job, {})

    def add(self, job: str, server: int, count: int, *, size: int) -> None:
        """So many chunks more, or fewer, of a job are on a server; nothing is kept of chunks that take nothing."""
        if size:
            mine = self._chunks.setdefault(job, {})
            mine[server] = mine.get(server, 0) + count
            self._total[server] += count * size

    def forget(self, job: str, *, size: int) -> None:
        """The job is over: its data is deleted everywhere."""
        for server, count in self._chunks.pop(job, {}).items():
            self._total[server] -= count * size


def room(limits: Sequence[int | None], taken: Sequence[int], size: int) -> Ints | None:
    """For how many more chunks of this size each server has storage, S; None if nothing limits them."""
    if not size or all(limit is None for limit in limits):
        return None
    left = (None if limit is None else limit - held for limit, held in zip(limits, taken, strict=True))
    return np.array([PLENTY if free is None else min(PLENTY, max(0, free // size)) for free in left], dtype=np.int64)


def fits(inventory: Inventory, size: int, chunks: int, *, edge: Sequence[int], clouds: Sequence[int]) -> bool:
    """Whether servers that store nothing else have room for so many chunks, on these of the edge or on one cloud."""
    empty = room(inventory.storage, [0] * len(inventory.servers), size)
    if empty is None:
        return True
    at_edge = int(empty[list(edge)].clip(max=chunks).sum())
    return at_edge >= chunks or bool((empty[list(clouds)] >= chunks).any())
