"""A live demo: twenty seconds with viewers, until jobs of five markets have trained, ended by Ctrl-C.

`python -m tests.soak_demo` is the long run with viewers.
"""

import json
import os
import signal
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from demo.scenarios import SCENARIOS, TRAINING
from tests import soak_demo
from tests.conftest import Tables
from tests.forks import libraries
from tests.processes import DATABASE, children, python_env, wait_until
from tests.soak_demo import Answer, Soak

SECONDS = 20.0
SLOT_TAKES_S = 5.0
PART_OF_TIME = 0.1
"""Part of the planned time that a step of a training takes. On a busy machine starts take long; a job that is not
complete by the end of its slots has trained in vain.
"""


@dataclass(frozen=True)
class Ended:
    """A demo that has ended."""

    var: Path
    found: Soak
    started: list[int]
    """Its processes."""
    status: int
    printed: str


def rows(var: Path, query: str) -> list[Any]:
    """Return what the database of a demo has."""
    with closing(sqlite3.connect(f"file:{var / DATABASE}?mode=ro", uri=True)) as database:
        return database.execute(query).fetchall()


def trained(var: Path) -> dict[str, list[tuple[float, float]]]:
    """Return the first and the last loss of each training of the demo that finished, by cluster."""
    query = (
        "select c.name, t.id, p.loss from execution_progress p"
        " join execution_generation g on g.id = p.generation_id"
        " join execution_training t on t.id = g.training_id join execution_program o on o.id = t.program_id"
        " join cluster_cluster c on c.id = o.cluster_id where t.state = 'finished' order by p.step"
    )
    losses: dict[tuple[str, int], list[float]] = {}
    for name, training, loss in rows(var, query):
        losses.setdefault((name, training), []).append(loss)
    found: dict[str, list[tuple[float, float]]] = {}
    for (name, _), seen in losses.items():
        found.setdefault(name, []).append((seen[0], seen[-1]))
    return found


def hurry(var: Path) -> None:
    """Let trainings take a part of the time that their markets plan for, and give way to no other process."""
    with closing(sqlite3.connect(var / DATABASE)) as database, database:
        programs = database.execute("SELECT id, arguments FROM execution_program").fetchall()
        assert len(programs) == len(TRAINING)
        for program, text in programs:
            arguments = json.loads(text)
            place = arguments.index("--sample-s") + 1
            arguments[place] = str(float(arguments[place]) * PART_OF_TIME)
            changed = json.dumps(arguments), program
            database.execute("UPDATE execution_program SET arguments = ? WHERE id = ?", changed)
        database.execute("UPDATE execution_execution SET niceness = 0")


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory, make_tables: Tables) -> Iterator[Ended]:
    """A demo that viewers looked at, that trained jobs, and that Ctrl-C ended."""
    var = tmp_path_factory.mktemp("demo")
    make_tables(python_env(var))
    names = {scenario.name for scenario in TRAINING}
    with soak_demo.demo(var, "--slot-takes", str(SLOT_TAKES_S)) as world:
        process = world.process
        hurry(var)
        found = soak_demo.watch(world, seconds=SECONDS)
        ends = "a training of each market"
        wait_until(lambda: set(trained(var)) == names or not process.alive, what=ends, seconds=240, every=0.5)
        running = "SELECT 1 FROM execution_process WHERE state = 'running'"
        wait_until(lambda: bool(rows(var, running)) or not process.alive, what="a process of a job that Ctrl-C meets")
        assert process.alive, process.text()
        started = [*children(process.pid), *children(world.server["supervisor"])]
        os.kill(process.pid, signal.SIGINT)
        yield Ended(var, found, started, process.popen.wait(soak_demo.STOP_S), process.text())


@pytest.mark.slow
def test_viewers_and_bids_at_once_meet_no_failure_of_the_server(ended: Ended) -> None:
    found = ended.found
    assert found.problems() == []
    asked = {answer.what for answer in found.answers}
    assert {"/", "/healthz", "/markets/M/", "/markets/M/tiles.json", "/markets/M/figures/schedule.json"} <= asked
    assert found.bids >= soak_demo.BULK
    assert found.memory


@pytest.mark.slow
def test_jobs_of_five_markets_really_train(ended: Ended) -> None:
    for losses in trained(ended.var).values():
        assert all(last < first for first, last in losses)
    for scenario in TRAINING:
        assert list((ended.var / "execution" / scenario.name / "processes" / "live").iterdir()) == []
    audit = libraries().complete([sys.executable, "manage.py", "audit"], env=python_env(ended.var), seconds=60)
    assert audit.returncode == 0, audit.stdout


@pytest.mark.slow
def test_ctrl_c_ends_every_process_and_stops_the_clocks(ended: Ended) -> None:
    assert ended.status == 0, ended.printed
    assert "carries on" in ended.printed
    assert len(ended.started) == 4, "the server, its two processes, and the executor"
    assert not [process for process in ended.started if Path(f"/proc/{process}").exists()]
    assert rows(ended.var, "SELECT name FROM cluster_cluster WHERE clock_running") == []
    takes_s = dict(rows(ended.var, "SELECT name, slot_seconds / clock_speed FROM cluster_cluster"))
    assert takes_s == {one.name: pytest.approx(one.slot_takes_s or SLOT_TAKES_S) for one in (*SCENARIOS, *TRAINING)}


def test_a_failure_of_the_server_is_a_problem_and_a_busy_database_is_none() -> None:
    fine, busy = Answer("/", 200, 0.1, 1.0), Answer("/", 503, 0.1, 1.0)
    assert Soak(1.0, [fine, busy]).problems() == []
    assert len(Soak(1.0, [fine, Answer("/", 500, 0.1, 1.0), Answer("/", 0, 60.0, 1.0)]).problems()) == 2
    assert Soak(1.0, [busy]).problems() == ["no page was answered"]
    assert len(Soak(1.0, [fine], undecided=1).problems()) == 1


def test_a_late_hundredth_of_the_answers_is_a_problem_of_a_long_run() -> None:
    fine, late = Answer("/", 200, 0.1, 1.0), Answer("/", 200, 0.4, 1.0)
    health = Answer("/healthz", 200, 9.0, 1.0)
    assert Soak(480.0, [fine] * 995 + [late] * 5 + [health] * 50).problems() == []
    assert Soak(480.0, [fine] * 980 + [late] * 20).problems() == ["1 % of answers take 400 ms or more"]
    assert Soak(30.0, [fine] * 980 + [late] * 20).problems() == []


def test_memory_that_grows_over_the_later_half_of_a_long_run_is_a_problem() -> None:
    fine, times = [Answer("/", 200, 0.1, 1.0)], range(0, 480, 2)
    level = Soak(480.0, fine, [(at, {"web": 200.0, "worker": 100.0 + min(at, 200)}) for at in times])
    grows = Soak(
        480.0, fine, [(at, {"web": 200.0 + at / 6, "worker": 100.0}) for at in times]
    )  # by 40 MB in four minutes
    assert level.problems() == []
    assert any("memory grows" in problem for problem in grows.problems())
