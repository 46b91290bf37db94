"""The executor gives orders to an engine and to the market only as often as it has to, and again if they fail."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from auctions.domain.refunds import Refund
from auctions.engine import jobs
from auctions.models import Bid, BidState
from auctions.state import book
from cluster.models import Cluster
from execution import archives, executor, launching, lease, places, records, starting, steps
from execution.archives import BadArchive
from execution.engines.base import EngineError, Start
from execution.models import Defect, Ending, Execution, Generation, Lease, Process, Program, TrainingState
from execution.places import archive_file
from execution.records import files_of
from execution.steps import PATIENCE_S, End
from execution.tokens import token_of
from tests.auctions.worlds import SLOT_S
from tests.execution.worlds import World, make_world

pytestmark = [pytest.mark.thorough, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> World:
    book.forget()
    return make_world(monkeypatch, settings, tmp_path)


def test_what_a_shim_does_not_stop_is_killed_by_the_executor(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    bid = world.submit(epochs=8)
    one = world.executor()
    world.go(1.1 * SLOT_S, executor=one)
    monkeypatch.setattr(world.engine, "pass_time", lambda: None)
    bid.refresh_from_db()
    jobs.cancel_job(bid)
    world.go(10 + PATIENCE_S - 1, executor=one, every=1)
    assert world.engine.alive()
    assert world.training(bid).state == TrainingState.RUNNING
    world.go(5, executor=one, every=1)
    assert world.engine.alive() == []
    assert {process.seen.code for process in world.engine.processes.values()} == {137}
    assert world.training(bid).state == TrainingState.STOPPED


def test_processes_hold_their_machines_for_longer_if_the_clock_is_put_back(world: World) -> None:
    world.submit(epochs=8)
    one = world.executor()
    world.go(1.1 * SLOT_S, executor=one)
    before = {key: process.until for key, process in world.engine.processes.items()}
    cluster = Cluster.objects.get()
    assert cluster.epoch is not None
    cluster.epoch += timedelta(seconds=5)
    cluster.save()
    world.go(1, executor=one, every=1)
    after = {key: process.until for key, process in world.engine.processes.items()}
    assert after == {key: pytest.approx(until + 5) for key, until in before.items()}
    assert Generation.objects.get().until == pytest.approx(next(iter(after.values())))


def test_processes_that_never_started_are_stopped_for_good(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine may start late what it was given."""
    bid = world.submit(epochs=8)
    one = world.executor()
    given: list[str] = []
    monkeypatch.setattr(world.engine, "launch", lambda start: given.append(start.key))
    world.go(1.1 * SLOT_S, executor=one)
    assert given
    bid.refresh_from_db()
    jobs.cancel_job(bid)
    world.go(5, executor=one)
    assert world.engine.never >= set(Process.objects.values_list("key", flat=True))
    assert Generation.objects.get().ending == Ending.CANCELLED


def test_a_launch_that_is_refused_after_one_that_was_not_is_said_again_and_tried_soon(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tried: dict[str, list[float]] = {}

    def launch(start: Start) -> None:
        times = tried.setdefault(start.key, [])
        times.append(world.now)
        if len(times) != 3:
            raise EngineError("the server is away")

    monkeypatch.setattr(world.engine, "launch", launch)
    monkeypatch.setattr(launching, "LONGEST_DELAY_S", 8.0)
    world.submit(epochs=8)
    world.go(130, every=1.0, executor=world.executor())
    assert tried
    for times in tried.values():
        assert [time - times[0] for time in times[:6]] == [0, 1, 3, 4, 5, 7]
    said = [record for record in caplog.records if "was not started: the server is away" in record.getMessage()]
    assert len(said) == 2 * len(tried)


@pytest.mark.parametrize(("at_once", "expected"), [(1, [1, 1]), (2, [1, 1]), (3, [2]), (5, [2])])
def test_steps_of_many_jobs_are_recorded_together_up_to_a_number(
    world: World, monkeypatch: pytest.MonkeyPatch, at_once: int, expected: list[int]
) -> None:
    bids = [world.submit(epochs=8, steps=50) for _ in range(2)]
    one = world.executor()
    world.go(1.1 * SLOT_S, executor=one)
    assert [world.training(bid).state for bid in bids] == [TrainingState.RUNNING] * 2
    kept: list[int] = []
    keep = records.keep_progress

    def keep_progress(fence: int, reports: Any) -> None:
        kept.append(len(reports))
        keep(fence, reports)

    monkeypatch.setattr(records, "keep_progress", keep_progress)
    monkeypatch.setattr(executor, "POINTS_AT_ONCE", at_once)
    for bid in bids:
        files_of(world.training(bid)).progress(0).write_text('{"step": 1}\n{"step": 2}\n')
    world.go(1, executor=one, every=1)
    assert kept == expected
    assert [world.training(bid).step for bid in bids] == [2, 2]


def test_a_job_that_cannot_be_failed_is_seen(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError("broken")

    monkeypatch.setattr(records, "create_training", fails)
    monkeypatch.setattr(jobs, "fail_job", fails)
    bid = world.submit(epochs=8)
    one = world.executor()
    world.go(SLOT_S + 1, executor=one)
    Defect.objects.update(failures=7)
    two = world.executor("two")
    world.wall[0] += 20
    world.go(3, executor=two, every=1)
    assert Defect.objects.get().failures == 9, "the job, and the end of it in the market"
    assert Defect.objects.get().bid == bid


@pytest.mark.parametrize(("reason", "expected"), [("x" * 401, "x" * 400), ("", "The program failed.")])
def test_the_market_gets_a_reason_of_a_length_that_it_takes(world: World, reason: str, expected: str) -> None:
    bid = world.submit(epochs=8)
    executor._fail(bid, reason, Refund.NONE)
    bid.refresh_from_db()
    assert (bid.state, bid.end_reason) == (BidState.FAILED, expected)
    executor._fail(bid, "again", Refund.NONE)
    executor._complete(bid)
    assert Bid.objects.get().end_reason == expected


def test_a_lease_is_given_back_by_its_holder_alone_and_held_until_its_end(world: World) -> None:
    world.executor("one").once()
    first = Lease.objects.get()
    other = Lease.objects.create(name="another", holder="one", fence=7, since=0.0, until=first.until)
    lease.give_back("one", now=world.now)
    assert Lease.objects.get(pk=first.pk).until == world.now
    lease.give_back("one", now=world.now + 5)
    assert Lease.objects.get(pk=first.pk).until == world.now, "it stays over since then"
    other.refresh_from_db()
    assert (other.until, other.fence) == (first.until, 7)
    assert lease.take("two", now=world.now, wait=lease.Wait(), tick=0.0) == first.fence + 1
    for fence, holds in ((first.fence + 1, True), (first.fence, False), (7, False)):
        if holds:
            with lease.fenced(fence):
                pass
        else:
            with pytest.raises(lease.Fenced), lease.fenced(fence):
                pass


def test_engines_are_made_once_for_each_kind(world: World) -> None:
    made: list[str] = []

    def make(execution: Any) -> Any:
        made.append(execution.engine)
        return replace(world.engine)

    one = executor.Executor("one", make, now=lambda: world.now)
    kinds = ((1, "local"), (1, "local"), (1, "slurm"), (2, "local"))
    engines = [one.engine(Execution(pk=pk, engine=engine)) for pk, engine in kinds]
    assert made == ["local", "slurm", "local"]
    assert engines[0] is engines[1]


def test_programs_know_the_addresses_of_the_service_and_of_each_other(world: World) -> None:
    addresses = {"edge-0": "10.0.0.1", "edge-1": "10.0.0.2"}
    Execution.objects.update(service_url="https://example.org/", addresses=addresses)
    world.submit(epochs=8)
    world.go(1.1 * SLOT_S)
    rows = {process.key: process for process in Process.objects.all()}
    ports = {process.key: starting.FIRST_PORT + process.pk % starting.PORTS for process in rows.values()}
    hosts = {key: f"{addresses.get(row.server.name, '127.0.0.1')}:{ports[key]}" for key, row in rows.items()}
    assert rows
    for key, process in world.engine.processes.items():
        of = process.start.environment
        assert of["SHADOWPRICE_URL"] == "https://example.org/api/v1/progress"
        assert of["SHADOWPRICE_TOKEN"] == token_of(rows[key].generation)
        for name, role in (("SHADOWPRICE_WORKERS", "worker"), ("SHADOWPRICE_PS", "ps")):
            mine = sorted((row for row in rows.values() if row.role == role), key=lambda row: row.rank)
            assert of[name].split(",") == [hosts[row.key] for row in mine]
        assert (of["RANK"], of["LOCAL_RANK"]) == (str(rows[key].rank), str(rows[key].local_rank))
        assert (process.start.server, process.start.user) == (rows[key].server.name, None)
    assert starting.user_of(Execution(first_uid=20_000), 7) == 20_007


@pytest.mark.parametrize("sha256", ["", "ab" * 32])
def test_the_archive_of_a_program_is_unpacked_before_the_launch(
    world: World, monkeypatch: pytest.MonkeyPatch, sha256: str
) -> None:
    unpacked: list[tuple[str, Path, int | None]] = []

    def provide(file: Path, sha256: str, place: Path, *, user: int | None) -> None:
        assert not world.engine.launches
        assert file == archive_file("lab", sha256)
        unpacked.append((sha256, place, user))
        raise BadArchive("expected a tar archive, got none")

    monkeypatch.setattr(archives, "provide", provide)
    if sha256:
        owned = {"owner": world.owner, "archive_sha256": sha256, "archive_bytes": 1, "working_directory": ""}
        Execution.objects.update(own_programs=True, users_trust_each_other=True)
        Program.objects.update(**owned)
    world.submit(epochs=8)
    world.go(1.1 * SLOT_S)
    assert bool(world.engine.launches) is not bool(sha256)
    assert set(unpacked) == ({(sha256, places.unpacked("lab", sha256, None), None)} if sha256 else set())


def test_what_a_program_reports_while_its_end_is_noticed_is_recorded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    bid = world.submit(epochs=8, steps=50)
    one = world.executor()
    world.go(1.1 * SLOT_S, executor=one)
    path, next_steps = files_of(world.training(bid)).progress(0), steps.next_steps

    def late(*given: Any, **more: Any) -> Any:
        found = next_steps(*given, **more)
        if any(isinstance(step, End) for mine in found.values() for step in mine):
            path.write_text('{"step": 50}\n')
        return found

    monkeypatch.setattr(executor, "next_steps_of", late)
    for key in world.engine.alive():
        world.engine.exit(key, 0)
    world.go(5, executor=one, every=1)
    assert (world.training(bid).step, world.training(bid).state) == (50, TrainingState.FINISHED)
