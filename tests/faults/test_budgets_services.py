"""Two markets spend the credits of the same teams at the same time on PostgreSQL: no team spends more than it has."""

import json
from pathlib import Path

import pytest

from tests.faults.spending import MARKETS, TEAMS
from tests.forks import project
from tests.processes import Process, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.services]

COMMAND = ("python", "-m", "tests.faults.spending")
BIDS = 120


def test_no_team_spends_more_than_it_has_where_two_markets_decide_at_once(env: dict[str, str], tmp_path: Path) -> None:
    start = tmp_path / "start"
    project(env).run([*COMMAND, "prepare", str(BIDS)], env=env, seconds=120)
    workers = [
        Process([*COMMAND, "decide", name, str(start)], log=tmp_path / f"{name}.log", env=env, parent=project(env))
        for name in MARKETS
    ]
    try:
        wait_until(lambda: all("ready" in one.text() or not one.alive for one in workers), what="both workers")
        start.touch()
        wait_until(lambda: not any(one.alive for one in workers), what="all decisions", seconds=120)
        assert [one.text().split()[-1] for one in workers] == [str(BIDS)] * 2
    finally:
        for one in workers:
            one.end()
    found = json.loads(project(env).run([*COMMAND, "verdict"], env=env, seconds=120).splitlines()[-1])
    assert (found["undecided"], found["broken"]) == (0, {})
    assert all(left >= 0 for left in found["left"].values())
    assert set(found["left"]) == set(TEAMS)
    assert found["over_budget"] > 0
    assert found["turns"] > 0, "the markets spent one after the other"
