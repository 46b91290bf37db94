"""Simulated processes of an installation: each has its own memory of markets, and dies with it."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, Final

from auctions.domain import waking
from auctions.engine import intake, waiting_bids
from auctions.readings import publications, sums
from auctions.runtime import stay
from auctions.state import book, owner_turns
from auctions.state.recent import Recent

MEMORY: Final[tuple[tuple[Any, str, Callable[[], Any]], ...]] = (
    (book, "_books", dict),
    (book, "_shelves", dict),
    (owner_turns, "_queues", dict),
    (intake, "_terms", lambda: Recent(100)),
    (intake, "_lines", dict),
    (waiting_bids, "_decided", lambda: Recent(100)),
    (waking, "_woken", dict),
    (waking, "_resting_until", float),
    (publications, "_summaries", lambda: Recent(64)),
    (stay, "_turned_away", set),
    (stay, "_staying", Lock),
    *((one, "_known", OrderedDict) for one in (sums._ended, sums._decisions, sums._completions, sums._admissions)),
)
"""What a process remembers of markets: module or object, name and initial value."""


class Node:
    """A simulated process."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_busy = False
        self._memory = _fresh()

    def restart(self) -> None:
        """Forget everything, as a process that was killed and started again."""
        self._memory = _fresh()

    @property
    def books(self) -> dict[Any, book.LiveBook]:
        """The books that its decisions change, by the market's token."""
        books: dict[Any, book.LiveBook] = self._memory[0]
        return books

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let the code of the block run in this process."""
        assert not self.is_busy
        outer = _present()
        _set(self._memory)
        self.is_busy = True
        try:
            yield
        finally:
            self.is_busy = False
            self._memory = _present()
            _set(outer)


def _fresh() -> list[Any]:
    return [make() for _, _, make in MEMORY]


def _present() -> list[Any]:
    return [getattr(module, name) for module, name, _ in MEMORY]


def _set(memory: list[Any]) -> None:
    for (module, name, _), value in zip(MEMORY, memory, strict=True):
        setattr(module, name, value)
