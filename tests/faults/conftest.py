from pathlib import Path

import pytest
import redis

from tests.processes import python_env


@pytest.fixture
def env(tmp_path: Path, postgres_tables: str, redis_url: str) -> dict[str, str]:
    """The environment of one process of the larger installation, its tables made and empty, and no task in Redis."""
    with redis.Redis.from_url(redis_url) as client:
        client.flushall()
    return python_env(
        tmp_path, DATABASE_URL=postgres_tables, REDIS_URL=redis_url, SHADOWPRICE_SECRET_KEY="only for this test"
    )
