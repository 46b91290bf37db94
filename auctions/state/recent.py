"""A memory of the results that were used last in this process, safe for its threads."""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=tuple[Any, ...])
V = TypeVar("V")


class Recent(Generic[K, V]):
    """The `size` values that were stored or read last, by key; older ones are dropped."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._values: OrderedDict[K, V] = OrderedDict()
        self._making: dict[K, Lock] = {}
        """Locks of the keys whose values are being made."""
        self._guard = Lock()

    def __len__(self) -> int:
        return len(self._values)

    def known(self) -> Iterable[K]:
        """Return the stored keys."""
        with self._guard:
            return list(self._values)

    def get(self, key: K) -> V | None:
        """Return the value of a key; None if it is not stored."""
        with self._guard:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def made_once(self, key: K, make: Callable[[], V]) -> V:
        """Return the value of a key, which the first thread that asks makes and stores; others wait for it."""
        with self._guard:
            making = self._making.setdefault(key, Lock())
        try:
            with making:
                found = self.get(key)
                if found is None:
                    found = make()
                    self.store(key, found)
                return found
        finally:
            with self._guard:
                self._making.pop(key, None)

    def store(self, key: K, value: V) -> None:
        """Store a value, and drop those that were not used for the longest time."""
        with self._guard:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self.size:
                self._values.popitem(last=False)

    def clear(self) -> None:
        """Drop all values."""
        with self._guard:
            self._values.clear()
