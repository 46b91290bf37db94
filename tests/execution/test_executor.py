"""The executor runs what the market's commitments say, slot by slot; the engine is a fake in memory."""

import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from auctions.models import BidState, Commitment
from auctions.state import book
from cluster.models import Server
from execution import launching, lease
from execution.engines.base import EngineError, Limits, Start
from execution.engines.local import LocalEngine
from execution.engines.slurm import SlurmEngine
from execution.executor import Executor, engine_of
from execution.models import (
    Ending,
    EngineKind,
    Execution,
    Generation,
    GenerationState,
    Lease,
    Process,
    ProcessState,
    Training,
    TrainingState,
)
from execution.readings import training_of
from execution.records import files_of, newest_checkpoint
from tests.auctions.worlds import add_server
from tests.execution.worlds import World, make_world

pytestmark = [pytest.mark.thorough, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> World:
    book.forget()
    return make_world(monkeypatch, settings, tmp_path)


def endings(world: World) -> list[str]:
    return list(Generation.objects.order_by("pk").values_list("ending", flat=True))


def test_a_rigid_job_runs_on_its_machines_from_its_first_slot_to_its_last(world: World) -> None:
    world.go(1)
    bid = world.submit(epochs=2, steps=100)
    assert bid.state == BidState.PLANNED
    held = {(c.server.name, c.machine_type.name): c.count for c in Commitment.objects.filter(bid=bid)}
    world.go(98)
    assert world.engine.launches == []
    world.go(6)
    assert len(world.engine.alive()) == sum(held.values())
    on = [one.start.server for one in world.engine.processes.values()]
    assert sorted(on) == sorted(name for (name, _), count in held.items() for _ in range(count))
    world.go(100 * (bid.completion_slot or 0) - (world.slot * 100) + 20)
    assert world.engine.alive() == []
    generation = Generation.objects.get()
    assert (generation.state, generation.ending) == (GenerationState.ENDED, Ending.PROMISE_OVER)
    assert world.training(bid).state == TrainingState.STOPPED
    assert world.training(bid).reason == "0% done: step 0 of 100."


def test_its_processes_know_each_other_and_their_files(world: World) -> None:
    world.submit(steps=7)
    world.go(105)
    starts = [one.start for one in world.engine.processes.values()]
    roles = [start.environment["SHADOWPRICE_ROLE"] for start in starts]
    workers = roles.count("worker")
    assert roles.count("ps") >= 1
    assert workers >= 1
    for start in starts:
        of = start.environment
        assert start.arguments == ("python3", "train.py", "--fast")
        assert of["WORLD_SIZE"] == str(roles.count(of["SHADOWPRICE_ROLE"]))
        assert of["SHADOWPRICE_ARCHITECTURE"] == "ps"
        assert len(of["SHADOWPRICE_WORKERS"].split(",")) == workers
        assert of["SHADOWPRICE_WORKERS"].split(",")[0] == f"{of['MASTER_ADDR']}:{of['MASTER_PORT']}"
        assert (of["SHADOWPRICE_STEPS"], of["SHADOWPRICE_RESUME"], of["SHADOWPRICE_GENERATION"]) == ("7", "", "0")
        assert Path(of["SHADOWPRICE_CHECKPOINTS"]).is_dir()
    ports = [place for start in starts[:1] for place in start.environment["SHADOWPRICE_WORKERS"].split(",")]
    assert len(set(ports)) == len(ports)


@pytest.mark.parametrize(
    ("user", "fields", "starts"),
    [
        (0, {"allow_root": False}, False),
        (0, {"allow_root": True}, True),
        (1_000, {"allow_root": False}, True),
        (1_000, {"first_uid": 20_000}, False),
    ],
)
def test_nothing_runs_as_root_or_as_a_user_that_cannot_be_chosen(
    world: World, monkeypatch: pytest.MonkeyPatch, user: int, fields: dict[str, Any], starts: bool
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    Execution.objects.update(**fields)
    world.submit(epochs=8)
    world.go(110)
    assert bool(world.engine.launches) is starts


def test_limits_of_the_cluster_hold_for_each_process(world: World) -> None:
    Execution.objects.update(memory_mb=900, file_mb=None)
    world.submit(epochs=8)
    world.go(110)
    limits = {one.start.limits for one in world.engine.processes.values()}
    assert limits == {Limits(memory_mb=900, open_files=4_096, file_mb=None, processes=10_000, niceness=10)}


def test_a_failed_process_ends_its_generation_which_is_started_again_from_the_newest_checkpoint(world: World) -> None:
    bid = world.submit(epochs=8)
    world.go(110)
    first = world.engine.alive()
    checkpoints = Path(world.engine.processes[first[0]].start.environment["SHADOWPRICE_CHECKPOINTS"])
    (checkpoints / "step-20").mkdir()
    (checkpoints / "writing-step-30").mkdir()
    world.engine.exit(next(key for key in first if "-w" in key), 7, output=b"one\nno memory\n")
    world.go(30)
    second = world.engine.alive()
    assert len(second) == len(first)
    assert set(second).isdisjoint(first)
    start = world.engine.processes[second[0]].start
    assert start.environment["SHADOWPRICE_RESUME"] == str(checkpoints / "step-20")
    assert start.environment["SHADOWPRICE_GENERATION"] == "1"
    assert endings(world) == [Ending.FAULT, ""]
    assert world.training(bid).retries == 1


def test_a_job_resumes_from_the_newest_checkpoint_that_its_program_has_not_deleted(world: World) -> None:
    bid = world.submit(epochs=8)
    world.go(110)
    for generation, step in enumerate((30, 15)):  # the second start resumes from step 10
        checkpoints = files_of(world.training(bid)).checkpoints(generation)
        for made in {10, step}:
            (checkpoints / f"step-{made}").mkdir()
        files_of(world.training(bid)).progress(generation).write_text(f'{{"step": {step}}}\n')
        world.go(2, every=1)
        newest = newest_checkpoint(world.training(bid))
        assert newest is not None
        assert newest.step == step
        (checkpoints / f"step-{step}").rmdir()
        world.engine.exit(next(key for key in world.engine.alive() if "-w" in key), 7)
        world.go(10, every=1)
        resumed = {world.engine.processes[key].start.environment["SHADOWPRICE_RESUME"] for key in world.engine.alive()}
        assert resumed == {str(files_of(world.training(bid)).checkpoints(0) / "step-10")}


def test_a_checkpoint_whose_whole_directory_is_away_is_not_said_to_be_deleted(world: World) -> None:
    bid = world.submit(epochs=8)
    world.go(110)
    checkpoints = files_of(world.training(bid)).checkpoints(0)
    (checkpoints / "step-10").mkdir()
    files_of(world.training(bid)).progress(0).write_text('{"step": 10}\n')
    world.go(2, every=1)
    checkpoints.rename(checkpoints.with_name("away"))
    world.engine.exit(next(key for key in world.engine.alive() if "-w" in key), 7)
    world.go(10, every=1)
    resumed = {world.engine.processes[key].start.environment["SHADOWPRICE_RESUME"] for key in world.engine.alive()}
    assert resumed == {str(checkpoints / "step-10")}


def test_a_job_that_failed_while_the_clock_was_ahead_does_not_wait_once_it_was_set_back(world: World) -> None:
    bid = world.submit(epochs=8)
    world.go(110)
    first = set(world.engine.alive())
    world.engine.exit(next(key for key in first if "-w" in key), 7)
    world.go(1.5, every=0.5)
    assert world.training(bid).state == TrainingState.WAITING
    Training.objects.update(wait_until=world.now + 3_600)
    reading = training_of(bid)
    assert reading is not None
    assert reading.next_try_at is None
    world.go(3, every=1)
    assert len(world.engine.alive()) == len(first)
    assert first.isdisjoint(world.engine.alive())


def test_a_refused_launch_is_tried_again_in_time_though_the_clock_was_set_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(start: Start) -> None:
        raise EngineError("expected sbatch to answer, got nothing")

    world.submit(epochs=8)
    set_back = [0.0]
    executor = Executor("one", lambda _: world.engine, now=lambda: world.now, tick=lambda: world.now + set_back[0])
    with monkeypatch.context() as refused:
        refused.setattr(world.engine, "launch", refuse)
        world.go(110, executor=executor)
    assert world.engine.launches == []
    world.wall[0] -= 5
    set_back[0] += 65
    executor.once()
    assert world.engine.alive()


def test_a_job_that_fails_five_times_without_a_newer_step_fails_in_the_market_with_its_last_lines(world: World) -> None:
    bid = world.submit(epochs=8)
    world.go(100)
    for _ in range(200):
        for key in world.engine.alive():
            if "-w" in key:
                world.engine.exit(key, 1, output=b"Traceback\nValueError: no data\n")
        world.go(2, every=1)
        bid.refresh_from_db()
        if bid.state == BidState.FAILED:
            break
    world.go(60)
    bid.refresh_from_db()
    assert bid.state == BidState.FAILED
    assert "exited with code 1" in bid.end_reason
    assert "ValueError: no data" in bid.end_reason
    assert bid.refund == 0
    assert Generation.objects.count() == 5
    assert world.training(bid).state == TrainingState.FAILED
    assert world.engine.alive() == []


def test_a_program_that_leaves_with_143_unasked_has_failed_with_its_last_lines(world: World) -> None:
    bid = world.submit(epochs=8)
    world.go(101)
    first = next(key for key in world.engine.alive() if "-w" in key)
    world.engine.exit(first, 143, output=b"I leave\n")
    while world.training(bid).state != TrainingState.WAITING:
        world.go(0.5, every=0.5)
    assert world.training(bid).reason == "Worker 0 exited with code 143.\nI leave"


def test_the_market_knows_the_end_of_a_long_output(world: World) -> None:
    bid = world.submit(epochs=8)
    world.go(100)
    output = b"a line of a long stack of calls\n" * 30 + b"ValueError: no data\n"
    for _ in range(40):
        for key in world.engine.alive():
            if "-w" in key:
                world.engine.exit(key, 1, output=output)
        world.go(1, every=1)
    bid.refresh_from_db()
    assert (bid.state, len(bid.end_reason)) == (BidState.FAILED, 400)
    assert bid.end_reason.startswith("Worker 0 exited with code 1.\n")
    assert bid.end_reason.endswith("\nValueError: no data")


def test_the_reason_is_the_process_that_failed_first(world: World) -> None:
    bid = world.submit(epochs=8)
    world.go(101)
    first, *_, last = (key for key in world.engine.alive() if "-w" in key)
    world.engine.exit(last, 137, output=b"too large\n")
    world.engine.exit(first, 1, at=world.engine.now() + 0.2, output=b"a worker is gone\n")
    while world.training(bid).state != TrainingState.WAITING:
        world.go(0.5, every=0.5)
    assert world.training(bid).reason == f"Worker {last.rpartition('w')[2]} exited with code 137.\ntoo large"


def test_a_training_that_failed_shortly_before_its_end_says_why_it_did_not_run_at_last(world: World) -> None:
    bid = world.submit(epochs=1)
    world.go(100.0 * (bid.completion_slot or 0) - world.slot * 100 - 15)
    for _ in range(30):
        for key in world.engine.alive():
            world.engine.exit(key, 1, output=b"ValueError: no data\n")
        world.go(1, every=1)
    training = world.training(bid)
    assert (training.state, 0 < training.retries < 5) == (TrainingState.STOPPED, True)
    assert training.reason.startswith("Its promise is over at step 0. It had failed and was not started again in time")
    assert training.reason.endswith(" exited with code 1.\nValueError: no data")


def test_a_training_that_failed_as_its_last_slot_ended_says_how(world: World) -> None:
    bid = world.submit(epochs=1, steps=10)
    world.go(100.0 * (bid.completion_slot or 0) - world.slot * 100 - 9.9)  # SIGTERM came 0.1 s before
    world.engine.exit(next(key for key in world.engine.alive() if "-w" in key), 1, output=b"ValueError: no data\n")
    world.go(20, every=1)
    training = world.training(bid)
    assert (training.state, endings(world)) == (TrainingState.STOPPED, [Ending.PROMISE_OVER])
    assert training.reason.startswith("0% done: step 0 of 10. Its last slot ended. Worker ")
    assert training.reason.endswith(" exited with code 1.\nValueError: no data")


def test_a_cancelled_job_is_stopped(world: World) -> None:
    from auctions.engine import jobs

    bid = world.submit(epochs=8)
    world.go(110)
    assert world.engine.alive()
    bid.refresh_from_db()
    jobs.cancel_job(bid)
    world.go(10)
    assert world.engine.alive() == []
    assert endings(world) == [Ending.CANCELLED]
    assert world.training(bid).state == TrainingState.STOPPED


def test_a_process_that_ignores_the_signal_is_gone_when_its_slots_end(world: World) -> None:
    bid = world.submit(epochs=1)
    world.go(110)
    for key in world.engine.alive():
        world.engine.processes[key].frozen = True
    end = 100.0 * (bid.completion_slot or 0)
    world.go(end - world.slot * 100)
    assert world.engine.alive() == []
    assert all(at <= world.now for at, _, what in world.engine.history if what == "ended")


def test_a_lost_process_is_recorded_once_and_its_job_is_started_again(world: World) -> None:
    world.submit(epochs=8)
    world.go(110)
    world.engine.lose(world.engine.alive()[0])
    world.go(20)
    assert endings(world) == [Ending.LOST, ""]
    assert Process.objects.filter(state=ProcessState.LOST).count() == 1
    assert world.engine.alive()


def test_a_process_that_nobody_wants_is_killed(world: World) -> None:
    world.engine.launch(Start("stranger", "edge-0", ("x",), {}, Path("/"), world.now + 1e6, 1.0))
    world.go(10)
    assert world.engine.alive() == []
    assert "stranger" in world.engine.retired


def test_switching_execution_off_stops_what_runs(world: World) -> None:
    bid = world.submit(epochs=8)
    world.go(110)
    Execution.objects.update(is_on=False)
    world.go(10)
    assert world.engine.alive() == []
    assert endings(world) == [Ending.SWITCHED_OFF]
    assert world.training(bid).reason == "The cluster stopped executing"


def test_a_server_that_cannot_be_reached_is_tried_again(world: World) -> None:
    world.submit(epochs=8)
    world.engine.refuses = {"edge-0", "edge-1", "cloud"}
    world.go(120)
    assert world.engine.alive() == []
    assert Generation.objects.count() == 1
    world.engine.refuses = set()
    world.go(5)
    assert len(world.engine.alive()) == Process.objects.count()


def test_a_launch_that_is_refused_is_tried_later_and_later_and_said_once(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tried: dict[str, list[float]] = {}

    def refuse(start: Start) -> None:
        tried.setdefault(start.key, []).append(world.now)
        raise EngineError("the server is away")

    monkeypatch.setattr(world.engine, "launch", refuse)
    monkeypatch.setattr(launching, "LONGEST_DELAY_S", 8.0)
    world.submit(epochs=8)
    world.go(140, every=1.0)
    assert tried
    for times in tried.values():
        waits = [later - sooner for sooner, later in pairwise(times)]
        assert waits == [1.0, 2.0, 4.0, *[8.0] * (len(waits) - 3)]
        assert len(waits) > 4
    said = [record for record in caplog.records if "was not started: the server is away" in record.getMessage()]
    assert len(said) == len(tried)


def test_a_job_whose_programs_end_well_is_complete_in_the_market_at_once(world: World) -> None:
    bid = world.submit(epochs=8)
    world.go(110)
    for key in world.engine.alive():
        world.engine.exit(key, 0)
    world.go(10)
    bid.refresh_from_db()
    assert bid.state == BidState.COMPLETED
    assert world.training(bid).state == TrainingState.FINISHED


def test_one_executor_is_active_and_another_one_takes_over_when_its_lease_has_run_out(world: World) -> None:
    one, other = world.executor("one"), world.executor("other")
    assert one.once()
    assert not other.once()
    world.wall[0] += 14
    assert one.once()
    assert not other.once()
    world.wall[0] += 16
    assert other.once()
    assert not one.once()
    held = Lease.objects.get().until
    lease.give_back("one", now=world.now)
    assert Lease.objects.get().until == held, "who does not hold the lease gives nothing back"
    other.close()
    assert Lease.objects.get().until == world.now  # pages say since when none is active
    assert one.once()


def test_a_lease_that_ends_far_ahead_is_over_when_nobody_has_renewed_it_for_as_long_as_it_lasts(world: World) -> None:
    ticks = [0.0]
    other = Executor("other", lambda _: world.engine, now=lambda: world.now, tick=lambda: ticks[0])
    one = world.executor("one")
    world.wall[0] += 100_000
    assert one.once()
    fence = Lease.objects.get().fence
    world.wall[0] -= 100_000  # the clock of the host was ahead for a moment, and the executor died
    assert not other.once()
    ticks[0] += 14
    world.wall[0] += 100_001
    assert one.once()
    world.wall[0] -= 100_001
    ticks[0] += 1
    assert not other.once(), "it was renewed meanwhile, or so it looks"
    ticks[0] += 15
    assert other.once()
    assert Lease.objects.get().fence == fence + 1
    assert Lease.objects.get().until == world.now + lease.LASTS_S
    assert not one.once()


def test_progress_is_read_once_also_by_the_next_executor(world: World) -> None:
    bid = world.submit(epochs=8, steps=50)
    world.go(110)
    path = Path(world.engine.processes[world.engine.alive()[0]].start.environment["SHADOWPRICE_PROGRESS"])
    lines = (
        b'{"step": 1, "loss": 2.5, "seconds": 0.1}\nnot json\n{"step": true}\n[]\n{"step": 2, "loss": 2.0}\n{"step": 3'
    )
    path.write_bytes(lines)
    world.go(5)
    path.write_bytes(lines + b', "loss": 1.5, "seconds": -1}\n')
    world.go(5)
    world.go(5, executor=world.executor())
    rows = list(Generation.objects.get().progress.values_list("step", "loss", "seconds"))
    assert rows == [(1, 2.5, 0.1), (2, 2.0, None), (3, 1.5, None)]
    assert (world.training(bid).step, world.training(bid).loss) == (3, 1.5)


def test_a_link_or_a_pipe_instead_of_a_progress_file_is_not_read(world: World, tmp_path: Path) -> None:
    world.submit(epochs=8, steps=50)
    world.go(110)
    path = Path(world.engine.processes[world.engine.alive()[0]].start.environment["SHADOWPRICE_PROGRESS"])
    assert {folder.stat().st_mode & 0o777 for folder in (path.parent, path.parent / "checkpoints")} == {0o700}
    other = tmp_path / "progress of another job"
    other.write_bytes(b'{"step": 7}\n')
    path.symlink_to(other)
    world.go(5)
    path.unlink()
    os.mkfifo(path)
    world.go(5)
    assert not Generation.objects.get().progress.exists()
    path.unlink()
    path.write_bytes(b'{"step": 1}\n')
    world.go(5)
    assert Generation.objects.get().progress.get().step == 1


def test_a_server_that_was_added_or_renamed_since_the_executor_began_runs_jobs(world: World) -> None:
    executor = Executor("one", engine_of)
    first = executor.engine(Execution.objects.get())
    assert isinstance(first, LocalEngine)
    first.python = ("/bin/false",)  # nothing runs
    add_server(world.market.cluster, "edge-9", units=4)
    Server.objects.filter(name="edge-0").update(name="edge-8")
    for server in ("edge-8", "edge-9"):
        engine = executor.engine(Execution.objects.get())
        engine.launch(Start(server, server, ("true",), {}, Path("/"), until=0.0, grace_s=1.0))
    assert executor.engine(Execution.objects.get()).list().keys() == {"edge-8", "edge-9"}


def test_a_server_that_is_renamed_after_a_refusal_is_tried_by_its_new_name(world: World) -> None:
    world.engine.refuses = {"edge-0", "edge-1", "cloud"}
    executor = world.executor()
    world.submit(epochs=8)
    world.go(10, executor=executor)
    assert Process.objects.exists()
    assert world.engine.launches == []
    before = list(Process.objects.order_by("-role", "rank").values_list("server__name", flat=True))
    for server in Server.objects.all():
        Server.objects.filter(pk=server.pk).update(name=f"{server.name}-b")
    world.go(30, executor=executor)
    on = [one.start.server for one in world.engine.processes.values()]
    assert on == [f"{name}-b" for name in before]


def test_settings_of_slurm_that_change_hold_for_the_next_start(world: World) -> None:
    executor = Executor("one", engine_of)
    for option in ("--partition=old", "--partition=new"):
        Execution.objects.update(engine=EngineKind.SLURM, sbatch_options=[option])
        engine = executor.engine(Execution.objects.get())
        assert isinstance(engine, SlurmEngine)
        assert engine.options == (option,)
