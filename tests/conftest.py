"""What every test may need from the machine: skipped in one line where it is missing, a failure under CI=true."""

import os
from collections.abc import Iterator

import pytest

from tests import processes

INSTALL = "apt-get install postgresql redis-server"


def missing(what: str, *, install: str) -> None:
    """Skip this test, or fail it where a skip would hide that nothing was tested."""
    message = f"needs {what}: {install}"
    if os.environ.get("CI") == "true":
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


@pytest.fixture(scope="module")
def postgres_url() -> Iterator[str]:
    """An empty database on a PostgreSQL server of its own."""
    if processes.binary("initdb") is None:
        missing("PostgreSQL", install=INSTALL)
    with processes.postgres() as url:
        yield url


@pytest.fixture(scope="module")
def redis_url() -> Iterator[str]:
    """A Redis server of its own."""
    if processes.binary("redis-server") is None:
        missing("Redis", install=INSTALL)
    with processes.redis() as url:
        yield url
