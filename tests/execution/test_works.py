"""The executor reads only rows that may have changed, and all of them if it cannot know that."""

from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.db.models.sql.compiler import SQLCompiler
from django.test.utils import CaptureQueriesContext

from auctions.state import book
from execution import executor as executing
from execution import lease, records
from execution.executor import Executor
from execution.models import Ending, Execution, Generation, Program, Progress, Training
from tests.execution.worlds import World, make_world

pytestmark = [pytest.mark.thorough, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> World:
    book.forget()
    return make_world(monkeypatch, settings, tmp_path)


def queries_of(world: World, executor: Executor) -> list[str]:
    """Return the queries of one loop."""
    world.wall[0] += 1
    with CaptureQueriesContext(connection) as queries:
        assert executor.once()
    return [query["sql"] for query in queries]


def transactions(queries: list[str]) -> int:
    return sum(sql.startswith("BEGIN") for sql in queries)


def run_jobs(world: World, count: int) -> Executor:
    """Let this number of jobs run for a while."""
    for _ in range(count):
        world.submit(epochs=4, steps=9)
    executor = world.executor()
    world.go(110, executor=executor)
    assert Training.objects.count() == count
    return executor


def progress_files(world: World) -> set[Path]:
    starts = [world.engine.processes[key].start for key in world.engine.alive()]
    return {Path(start.environment["SHADOWPRICE_PROGRESS"]) for start in starts}


def test_more_jobs_do_not_ask_more_queries_while_nothing_changes(world: World) -> None:
    executor = run_jobs(world, 1)
    alone = queries_of(world, executor)
    world.submit(epochs=4, steps=9)
    world.go(100, executor=executor)
    assert Generation.objects.filter(ended_at=None).count() == 2
    assert len(queries_of(world, executor)) <= len(alone)


def test_a_round_in_which_nothing_happens_builds_no_query_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = run_jobs(world, 2)
    quiet = queries_of(world, executor)
    built: list[SQLCompiler] = []
    as_sql = SQLCompiler.as_sql

    def build(compiler: SQLCompiler, *given: Any, **more: Any) -> Any:
        built.append(compiler)
        return as_sql(compiler, *given, **more)

    monkeypatch.setattr(SQLCompiler, "as_sql", build)
    assert len(queries_of(world, executor)) == len(quiet)
    assert built == []


def test_what_many_jobs_report_is_recorded_in_one_transaction(world: World) -> None:
    executor = run_jobs(world, 2)
    files = progress_files(world)
    assert len(files) == 2
    quiet = queries_of(world, executor)
    for path in files:
        path.write_bytes(b'{"step": 1, "loss": 2.5}\n{"step": 2, "loss": 2.0}\n')
    busy = queries_of(world, executor)
    assert transactions(busy) == transactions(quiet) + 1
    assert Progress.objects.count() == 4
    assert set(Training.objects.values_list("step", "loss")) == {(2, 2.0)}
    assert len(queries_of(world, executor)) == len(quiet)


def test_many_reports_are_recorded_in_several_transactions(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = run_jobs(world, 2)
    quiet = queries_of(world, executor)
    monkeypatch.setattr(executing, "POINTS_AT_ONCE", 2)
    for path in progress_files(world):
        path.write_bytes(b'{"step": 1}\n{"step": 2}\n')
    assert transactions(queries_of(world, executor)) == transactions(quiet) + 2
    assert Progress.objects.count() == 4


def test_what_could_not_be_recorded_is_read_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = run_jobs(world, 1)
    (path,) = progress_files(world)
    path.write_bytes(b'{"step": 1}\n')

    def refuse(*_: object) -> None:
        raise OSError("no space")

    with monkeypatch.context() as broken:
        broken.setattr(records, "keep_progress", refuse)
        queries_of(world, executor)
    assert not Progress.objects.exists()
    queries_of(world, executor)
    assert Progress.objects.get().step == 1


def test_an_executor_that_becomes_active_again_knows_what_another_one_did_meanwhile(world: World) -> None:
    first = run_jobs(world, 1)
    world.wall[0] += lease.LASTS_S
    other = world.executor("other")
    assert other.once()
    world.engine.lose(world.engine.alive()[0])
    world.go(20, executor=other)
    alive = world.engine.alive()
    assert list(Generation.objects.order_by("pk").values_list("ending", flat=True)) == [Ending.LOST, ""]
    other.close()
    assert first.once()
    assert world.engine.alive() == alive


def test_a_launch_that_was_refused_starts_the_program_as_it_is_now(world: World) -> None:
    world.engine.refuses = {"edge-0", "edge-1", "cloud"}
    executor = run_jobs(world, 1)
    assert world.engine.alive() == []
    Program.objects.update(arguments=["python3", "mended.py"])
    world.engine.refuses = set()
    world.go(70, executor=executor)
    assert {one.start.arguments[1] for one in world.engine.processes.values()} == {"mended.py"}


def test_a_training_that_ends_says_how_far_it_came_by_what_was_reported_over_http(world: World) -> None:
    executor = run_jobs(world, 1)
    queries_of(world, executor)
    Training.objects.update(step=6)
    Execution.objects.update(is_on=False)
    world.go(500, executor=executor)
    assert Training.objects.get().reason == "66% done: step 6 of 9."
