from pathlib import Path

import pytest

from tests.processes import manage, python_env

MIGRATE_AND_FLUSH = """
from django.core.management import call_command
call_command("migrate", verbosity=0)
call_command("flush", interactive=False, verbosity=0)  # the database outlives a test
"""


@pytest.fixture
def env(tmp_path: Path, postgres_url: str, redis_url: str) -> dict[str, str]:
    """The environment of one process of the larger installation, its tables made and empty."""
    environment = python_env(
        tmp_path, DATABASE_URL=postgres_url, REDIS_URL=redis_url, SHADOWPRICE_SECRET_KEY="only for this test"
    )
    manage("shell", "--no-imports", "-c", MIGRATE_AND_FLUSH, env=environment)
    return environment
