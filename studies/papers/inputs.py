"""Digests of the workloads that were drawn for a figure, and one digest of all of them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np

Given = ParamSpec("Given")
Result = TypeVar("Result")

_noting: ContextVar[set[str] | None] = ContextVar("digests of what is drawn", default=None)


@contextmanager
def noted() -> Iterator[set[str]]:
    """Collect the digests of all that is drawn inside."""
    digests: set[str] = set()
    token = _noting.set(digests)
    try:
        yield digests
    finally:
        _noting.reset(token)


def note(digests: Iterable[str]) -> None:
    """Add digests to those that are being collected, if any are."""
    collected = _noting.get()
    if collected is not None:
        collected.update(digests)


def drew(inputs: Result) -> Result:
    """Note the digest of what was just drawn, and return it."""
    if _noting.get() is not None:
        note([digest(inputs)])
    return inputs


def digest(inputs: object) -> str:
    """SHA-256 of the values of nested dataclasses, arrays, sequences and numbers; names of fields do not count."""
    return sha256(repr(_plain(inputs)).encode()).hexdigest()


def whole(digests: Iterable[str]) -> str:
    """One SHA-256 for a set of digests, in any order."""
    return sha256("\n".join(sorted(set(digests))).encode()).hexdigest()


def _plain(value: Any) -> object:
    if is_dataclass(value):
        return [_plain(getattr(value, field.name)) for field in fields(value)]
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return [[_plain(key), _plain(of)] for key, of in value.items()]
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return str(value)


class Remembered(Generic[Given, Result]):
    """A function that keeps its latest results, each with the digests of what was drawn for it."""

    def __init__(self, function: Callable[Given, Result], size: int) -> None:
        def collect(*args: Given.args, **kwargs: Given.kwargs) -> tuple[Result, frozenset[str]]:
            with noted() as digests:
                result = function(*args, **kwargs)
            return result, frozenset(digests)

        kept = lru_cache(maxsize=size)(collect)
        self.cache_clear = kept.cache_clear
        self._kept: Callable[Given, tuple[Result, frozenset[str]]] = kept

    def __call__(self, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        """Return the result, and note what was drawn for it even if it is an earlier one."""
        result, digests = self._kept(*args, **kwargs)
        note(digests)
        return result


def remembered(size: int) -> Callable[[Callable[Given, Result]], Remembered[Given, Result]]:
    """Keep that many of the latest results of a function of hashable arguments."""
    return lambda function: Remembered(function, size)
