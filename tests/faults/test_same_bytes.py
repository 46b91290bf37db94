"""The same bids give the same receipts, byte for byte, in any process and on either database."""

from pathlib import Path

import pytest

from tests.conftest import Tables
from tests.draws import fresh, rounds
from tests.faults import crowd
from tests.processes import python_env

pytestmark = [pytest.mark.slow, pytest.mark.services]


def test_receipts_are_the_same_in_any_process_and_on_either_database(
    tmp_path: Path, postgres_tables: str, make_tables: Tables
) -> None:
    digests = set()
    seeds = list(map(str, fresh()[0].choice(1000, rounds(2, longer=3), replace=False)))
    for seed, another in zip(seeds, [*seeds[1:], seeds[0]], strict=True):
        extra = {"DATABASE_URL": postgres_tables} if seed == seeds[0] else {}
        directory = tmp_path / seed
        directory.mkdir()
        env = python_env(directory, PYTHONHASHSEED=seed, **extra)
        if not extra:
            make_tables(env)
        digests.add(crowd.call("script", env=env))
        verdict = crowd.verdict(env | {"PYTHONHASHSEED": another})
        assert (verdict.replayed, verdict.mismatches, verdict.broken) == (120, 0, {})
    assert len(digests) == 1
