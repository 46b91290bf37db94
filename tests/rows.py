"""Rows that several tests share, or several markets of one test do not."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import transaction


@contextmanager
def taken_back() -> Iterator[None]:
    """What is written in the block is gone after it, down to the keys."""
    block: Any = transaction.atomic()
    block._from_testcase = True  # decisions are durable transactions: only a test's own may be around them
    block.__enter__()
    try:
        yield
    finally:
        transaction.set_rollback(True)
        block.__exit__(None, None, None)
