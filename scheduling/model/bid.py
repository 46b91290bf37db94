"""Bids: a training job and its utility."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from typing import Final

from scheduling.model.errors import InvalidField, refuse_all
from scheduling.model.types import Json
from scheduling.model.utility import Utility, utility_from_json
from scheduling.model.validation import MOST_NAMED

TIMES_KEPT: Final = 4096


class Architecture(StrEnum):
    """The way in which a job's workers exchange gradients."""

    PS = "ps"
    """Through parameter servers."""
    RING = "ring"
    """Workers exchange gradients among themselves: Ring-AllReduce."""


@dataclass(frozen=True)
class Bid:
    """One data-parallel training job, in core units (DPS, Section 3.1).

    Times are exact rationals in slots. With parameter servers a mini-batch takes `worker_time[w] + ps_time[p]`, plus
    `transfer_time[w]` (gradients pushed and parameters pulled) where workers and PSs are not all on one server. In a
    ring of N workers it takes `worker_time[w] + reduce_time (N - 1) / N`, plus `transfer_time[w] (N - 1) / N` where
    they are not all on one server (weighted completion, eq. 14).

    Raises
    ------
    InvalidField
        If counts are below 1 or times below 0; it names them all.

    Examples
    --------
    >>> from scheduling.model.bid import Bid
    >>> from scheduling.model.example import job
    >>> bid = job()
    >>> bid.work
    4
    >>> Bid.from_json(bid.to_json()) == bid
    True
    """

    id: str
    arrival: int
    """Slot of arrival; the value is a function of completion - arrival."""
    epochs: int
    chunks: int
    """Number of data chunks, which is also the largest number of workers usable at once."""
    minibatches: int
    """Mini-batches in one chunk."""
    worker_time: tuple[Fraction, ...]
    """Slots a worker of each type needs for a mini-batch, W numbers."""
    ps_time: tuple[Fraction, ...]
    """Slots a PS of each type needs to update the parameters, P numbers."""
    transfer_time: tuple[Fraction, ...]
    """Slots to push and pull over the network with each worker type, W numbers."""
    delay: tuple[int, ...]
    """Slots after arrival until each server can be used (upload), S numbers."""
    utility: Utility
    architecture: Architecture = Architecture.PS
    reduce_time: Fraction = Fraction(0)
    """Slots that a worker of a ring needs to reduce the gradients of one mini-batch."""
    chunk_size: int = 0
    """Storage that the data of one chunk takes on a server, in the unit of `Inventory.storage`."""

    def __post_init__(self) -> None:
        refuse_all(list(islice(self._wrong(), MOST_NAMED)))

    def _wrong(self) -> Iterator[InvalidField]:
        for name in ("epochs", "chunks", "minibatches"):
            if getattr(self, name) < 1:
                yield InvalidField(name, f"expected a whole number of at least 1, got {getattr(self, name)}")
        for name in ("worker_time", "ps_time", "transfer_time", "delay"):
            for i, number in enumerate(getattr(self, name)):
                if number < 0:
                    yield InvalidField(f"{name}[{i}]", f"expected at least 0, got {number}")
        for name in ("reduce_time", "chunk_size"):
            if getattr(self, name) < 0:
                yield InvalidField(name, f"expected at least 0, got {getattr(self, name)}")

    @property
    def work(self) -> int:
        """Total number of mini-batches: E D M."""
        return self.epochs * self.chunks * self.minibatches

    def to_json(self) -> Json:
        """Return a document with rationals as exact strings; `from_json` reads it back."""
        return {
            "id": self.id,
            "arrival": self.arrival,
            "epochs": self.epochs,
            "chunks": self.chunks,
            "minibatches": self.minibatches,
            "worker_time": [str(x) for x in self.worker_time],
            "ps_time": [str(x) for x in self.ps_time],
            "transfer_time": [str(x) for x in self.transfer_time],
            "delay": list(self.delay),
            "utility": self.utility.to_json(),
            "architecture": str(self.architecture),
            "reduce_time": str(self.reduce_time),
            "chunk_size": self.chunk_size,
        }

    @classmethod
    def from_json(cls, document: Json) -> "Bid":
        """Read what `to_json` wrote."""
        return cls(
            id=document["id"],
            arrival=document["arrival"],
            epochs=document["epochs"],
            chunks=document["chunks"],
            minibatches=document["minibatches"],
            worker_time=_exact(tuple(document["worker_time"])),
            ps_time=_exact(tuple(document["ps_time"])),
            transfer_time=_exact(tuple(document["transfer_time"])),
            delay=tuple(document["delay"]),
            utility=utility_from_json(document["utility"]),
            # Bids stored before rings and storage were supported lack these fields.
            architecture=Architecture(document.get("architecture", Architecture.PS)),
            reduce_time=Fraction(document.get("reduce_time", 0)),
            chunk_size=document.get("chunk_size", 0),
        )


@lru_cache(TIMES_KEPT)
def _exact(times: tuple[str, ...]) -> tuple[Fraction, ...]:
    """Parse and cache exact times: jobs of the same model share them, which halves the reading time."""
    return tuple(map(Fraction, times))
