"""Storage of servers: the data of a chunk stays on its server until the whole job is complete (Section VI)."""

from collections.abc import Mapping, Sequence

import numpy as np

from scheduling.model.inventory import Inventory
from scheduling.model.types import Ints, Json

PLENTY = 1 << 60
"""Chunks a server without a limit has room for."""


class Stored:
    """Chunks of each job that each server stores, and the storage used; modified in place.

    Python integers are used: what a million chunks of a petabyte take does not fit 64 bits.
    """

    def __init__(self, servers: int) -> None:
        self._chunks: dict[str, dict[int, int]] = {}
        self._total = [0] * servers

    @property
    def total(self) -> tuple[int, ...]:
        """Return the storage used on each server, S."""
        return tuple(self._total)

    def copy(self) -> "Stored":
        """Return an independent object with the same contents."""
        other = Stored(0)
        other._chunks = {job: dict(chunks) for job, chunks in self._chunks.items()}
        other._total = list(self._total)
        return other

    def to_json(self) -> Json:
        """Return the chunks of each job by server, as a document that `from_json` reads."""
        return {job: sorted(chunks.items()) for job, chunks in self._chunks.items()}

    @classmethod
    def from_json(cls, document: Json, *, sizes: Mapping[str, int], servers: int) -> "Stored":
        """Read what `to_json` wrote; `sizes` has the bytes of a chunk of each job."""
        stored = cls(servers)
        for job, chunks in document.items():
            for server, count in chunks:
                stored.add(job, server, count, size=sizes[job])
        return stored

    def of(self, job: str) -> Mapping[int, int]:
        """Return the chunks of a job by server, including complete ones."""
        return self._chunks.get(job, {})

    def add(self, job: str, server: int, count: int, *, size: int) -> None:
        """Add (or, if negative, remove) `count` chunks of a job on a server; chunks of size 0 are not recorded."""
        if size:
            mine = self._chunks.setdefault(job, {})
            mine[server] = mine.get(server, 0) + count
            self._total[server] += count * size

    def forget(self, job: str, *, size: int) -> None:
        """Delete the data of a job that has ended from all servers."""
        for server, count in self._chunks.pop(job, {}).items():
            self._total[server] -= count * size


def room(limits: Sequence[int | None], taken: Sequence[int], size: int) -> Ints | None:
    """Return for how many more chunks of this size each server has storage, S; None if there is no limit."""
    if not size or all(limit is None for limit in limits):
        return None
    left = (None if limit is None else limit - held for limit, held in zip(limits, taken, strict=True))
    return np.array([PLENTY if free is None else min(PLENTY, max(0, free // size)) for free in left], dtype=np.int64)


def fits(inventory: Inventory, size: int, chunks: int, *, edge: Sequence[int], clouds: Sequence[int]) -> bool:
    """Whether empty servers could store `chunks` chunks, on these edge servers or on one cloud server."""
    empty = room(inventory.storage, [0] * len(inventory.servers), size)
    if empty is None:
        return True
    at_edge = int(empty[list(edge)].clip(max=chunks).sum())
    return at_edge >= chunks or bool((empty[list(clouds)] >= chunks).any())
