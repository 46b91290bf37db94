"""Assignments of clients to helpers as columns of a program, and its solution."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from scheduling.model.types import Floats, Ints
from scheduling.split_learning.instance import Flags

OTHERS = 2
"""The makespan, and slots by which rows may be more."""


@dataclass(frozen=True, eq=False)
class Columns:
    """A column for each allowed pair of a helper and a client; OTHERS more follow them (IntervalRows.matrix)."""

    allowed: Flags
    """I x J."""

    def __len__(self) -> int:
        return len(self.pairs)

    @cached_property
    def pairs(self) -> Ints:
        """Helper times J plus client of each column."""
        return np.flatnonzero(self.allowed.ravel())

    @cached_property
    def clients(self) -> Ints:
        """Client of each column."""
        clients: Ints = self.pairs % self.allowed.shape[1]
        return clients

    @cached_property
    def place(self) -> Ints:
        """Column of each pair, I x J, or -1."""
        place = np.full(self.allowed.size, -1, dtype=np.int64)
        place[self.pairs] = np.arange(len(self))
        return place.reshape(self.allowed.shape)

    def once(self) -> "scipy.sparse.csr_array":
        """A row for each client that counts it, J x (columns and OTHERS)."""
        at = (self.clients, np.arange(len(self)))
        return scipy.sparse.csr_array(
            scipy.sparse.coo_array((np.ones(len(self)), at), shape=(self.allowed.shape[1], len(self) + OTHERS))
        )

    def share(self, values: Floats) -> Floats:
        """Return the part of each client that each helper has, I x J."""
        share = np.zeros(self.allowed.size)
        share[self.pairs] = values[: len(self)]
        return share.reshape(self.allowed.shape)

    def assignment(self, values: Floats) -> Ints:
        """The helper of each client in whole numbers, J."""
        most: Ints = self.share(values).argmax(axis=0)
        return most


def helpers_of(values: Floats, columns: Mapping[tuple[int, int], int]) -> Ints:
    """The helper of each client, J: of columns of a helper and a client, one for each client is 1 and the others 0."""
    return np.array([i for _, i in sorted((j, i) for (i, j), column in columns.items() if values[column] > 0.5)])
