from pathlib import Path

import pytest

from tests.processes import manage, python_env


@pytest.fixture
def env(tmp_path: Path, postgres_url: str, redis_url: str) -> dict[str, str]:
    """The environment of one process of the larger installation, its tables made and empty."""
    environment = python_env(
        tmp_path, DATABASE_URL=postgres_url, REDIS_URL=redis_url, SHADOWPRICE_SECRET_KEY="only for this test"
    )
    manage("migrate", "-v0", env=environment)
    manage("flush", "--no-input", "-v0", env=environment)  # the database outlives a test
    return environment
