"""A few histories of every policy in each run; `python -m tests.histories` and a soak run thousands."""

from pathlib import Path

import pytest

from tests.conftest import Tables
from tests.draws import fresh_seed, rounds, some
from tests.forks import project
from tests.histories.history import POLICY_NAMES
from tests.processes import DATABASE, python_env

pytestmark = pytest.mark.slow

PLANTED = """
import sys
from contextlib import contextmanager
from pathlib import Path
from auctions.domain.lock import lock
from auctions.engine import decision_queue
from auctions.state import book
from tests.histories import __main__ as histories
histories.set_up(Path(sys.argv[1]))
{}
print(any(histories.run([seed]).broken for seed in range(1, {})))
"""
DEFECTS = {
    "a process does not catch up": "book._catch_up = lambda book, market: True",
    "a decision is no transaction": "decision_queue.locked_market = contextmanager(lambda one: (yield lock(one)))",
}
"""Defects of the project's code that histories find."""
ENOUGH = 60
ARCHIVING = """
import sys
from pathlib import Path
from tests.histories import __main__ as histories
histories.set_up(Path(sys.argv[1]))
from tests.histories.archiving import differences
for faults in (False, True):
    for problem in differences({}, Path(sys.argv[2], str(faults)), faults=faults):
        print(problem)
print("done")
"""


@pytest.fixture(scope="module")
def tables(make_tables: Tables, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of a migrated database without a row, which the processes copy: a migration takes seconds."""
    directory = tmp_path_factory.mktemp("tables")
    make_tables(python_env(directory))
    return str(directory / DATABASE)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """The environment of a process with a database in memory."""
    return python_env(tmp_path, DATABASE_URL="sqlite://:memory:", DJANGO_SETTINGS_MODULE="tests.settings")


def test_whatever_fails_nothing_is_lost_decided_twice_or_over_capacity(env: dict[str, str], tables: str) -> None:
    first = fresh_seed() % 10**6
    last = first + rounds(len(POLICY_NAMES)) - 1
    command = ["python", "-m", "tests.histories", "--seeds", f"{first}-{last}", "--tables", tables]
    text = project(env).run(command, env=env, seconds=1200)
    assert f"{last - first + 1} histories" in text
    assert ": 0 broken" in text


def test_a_seed_gives_the_same_events_and_receipts_again(env: dict[str, str], tables: str) -> None:
    command = ["python", "-m", "tests.histories", "--seeds", str(fresh_seed()), "--show", "--tables", tables]
    first, second = (project(env).run(command, env=env, seconds=120) for _ in range(2))
    assert "have the digest" in first
    assert first.split("1 histories")[0] == second.split("1 histories")[0]


@pytest.mark.parametrize("policy", some(POLICY_NAMES, 3))
def test_archives_change_no_event_and_no_receipt(policy: str, env: dict[str, str], tables: str, tmp_path: Path) -> None:
    seed = fresh_seed() % 10**6 * len(POLICY_NAMES) + POLICY_NAMES.index(policy)
    command = ["python", "-c", ARCHIVING.format(seed), tables, str(tmp_path)]
    text = project(env).run(command, env=env, seconds=300)
    assert text == "done\n"


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_found(defect: str, env: dict[str, str], tables: str) -> None:
    code = PLANTED.format(DEFECTS[defect], ENOUGH)
    assert project(env).run(["python", "-c", code, tables], env=env, seconds=300).endswith("True\n")
