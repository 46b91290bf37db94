"""Two markets spend the credits of the same teams at the same time on PostgreSQL: no team spends more than it has."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import psycopg2
import pytest

from tests.faults.installation import shell
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


SET: Final = """
from accounts.models import Team
from auctions.engine.budgets import set_budget
from auctions.models import BudgetKind
print(set_budget(Team.objects.get(name="vision"), period=BudgetKind.MONTH, amount=7).amount)
"""
WAITS: Final = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


def test_of_two_first_budgets_of_a_team_at_once_the_later_one_holds(env: dict[str, str], tmp_path: Path) -> None:
    shell("from accounts.teams import create_team; create_team('vision', 'Vision')", env)
    with closing(psycopg2.connect(env["DATABASE_URL"])) as first, first.cursor() as cursor:
        cursor.execute("SELECT id FROM accounts_team FOR NO KEY UPDATE")  # as the function does
        cursor.execute(
            "INSERT INTO auctions_budget (team_id, period, amount) VALUES (%s, 'week', 5)", cursor.fetchone()
        )
        second = Process(["python", "-c", SET], log=tmp_path / "second.log", env=env, parent=project(env))
        try:
            with closing(psycopg2.connect(env["DATABASE_URL"])) as other, other.cursor() as look:
                other.autocommit = True
                wait_until(lambda: _count(look) > 0 or not second.alive, what="the second one waits")
            first.commit()
            assert second.popen.wait(60) == 0, second.text()
        finally:
            second.end()
        cursor.execute("SELECT period, amount FROM auctions_budget")
        assert cursor.fetchall() == [("month", 7)]


def _count(cursor: Any) -> int:
    cursor.execute(WAITS)
    return int(cursor.fetchone()[0])
