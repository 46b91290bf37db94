"""A short storm over web, worker and beat: connections end and processes die in the middle of their transactions."""

from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.draws import fresh_seed, rounds
from tests.processes import Server, python_env
from tests.storm.__main__ import storm, verdict
from tests.storm.aimed import TABLES
from tests.storm.installations import Forked

pytestmark = [pytest.mark.slow, pytest.mark.services, pytest.mark.clocked]

KINDS: Final = [
    "connection ended at a statement",
    "process killed at a statement",
    "connections ended at random",
    "worker's child killed",
    "worker stopped",
    "Redis hangs",
    "Redis emptied",
    "tasks repeated",
    "PostgreSQL hangs",
    "market's row locked",
    "waits used up",
    "copy for a restore",
    "upgrade with queued work",
    "past archived",
    "archiving killed",
    "policy changed",
    "capacity changed",
    "server out of service",
    "market or clock paused",
    "credits granted or taken back",
]
"""Faults after which no process has to be started by the test, which takes long."""
FAULTS: Final = 16


def test_no_bid_is_lost_or_decided_twice_wherever_a_transaction_is_broken(
    tmp_path: Path, postgres_server: Server, postgres_tables: str, redis_server: Server
) -> None:
    env = python_env(
        tmp_path,
        DATABASE_URL=postgres_tables,
        REDIS_URL=redis_server.url,
        SHADOWPRICE_SECRET_KEY="only for this test",
        SHADOWPRICE_SWEEP_S="1",
        SHADOWPRICE_ARCHIVES=str(tmp_path / "archives"),
    )
    with ExitStack() as started:
        installation = Forked(env, tmp_path, postgres_server, redis_server, started)
        installation.revive()
        found = storm(
            installation,
            seconds=60 * rounds(5),
            seed=fresh_seed(),
            most=rounds(FAULTS),
            kinds=KINDS,
            policies=("competition", "dps"),
            pause_s=0.8,
        )
        wrong = verdict(env, {"storm-competition nobody": [1]})
    assert found.problems == [], found.table()
    assert found.faults >= FAULTS, found.table()
    assert found.bids > len(TABLES), found.table()
    # The same rows are found wrong by clients who were answered something else.
    assert wrong["lost"] == ["storm-competition nobody: [1]"]
    assert wrong["doubled"] != []
