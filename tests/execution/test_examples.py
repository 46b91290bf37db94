"""The shipped trainer, as real processes: every world trains, stops, resumes and fails as the contract says."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.draws import fresh, rounds
from tests.execution.examples import (
    TRAIN,
    checkpoints,
    environment,
    free_addresses,
    progress,
    samples,
    started,
    weights,
)
from tests.processes import wait_until

STEPS, BATCH = 40, 96
WORLDS = [(1, 0), (2, 0), (3, 0), (2, 2)]
"""Numbers of workers and parameter servers."""
DONE, FAILED, STOPPED = 0, 1, 143
SLOW = "--step-s=0.1"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job of one worker that nobody disturbed."""
    folder = tmp_path_factory.mktemp("alone")
    with started(folder, workers=1, steps=STEPS) as job:
        assert job.codes() == [DONE]
    return folder


@pytest.mark.parametrize(("workers", "servers"), WORLDS)
def test_every_world_trains_to_the_same_weights(tmp_path: Path, alone: Path, workers: int, servers: int) -> None:
    with started(tmp_path, workers=workers, servers=servers, steps=STEPS) as job:
        assert job.codes() == [DONE] * (workers + servers), job.said()
    lines = progress(tmp_path)
    assert [line["step"] for line in lines] == list(range(1, STEPS + 1))
    assert all(set(line) == {"step", "loss", "seconds"} and line["seconds"] > 0 for line in lines)
    assert lines[-1]["loss"] < lines[0]["loss"] / 10
    assert samples(tmp_path) == STEPS * BATCH
    np.testing.assert_allclose(weights(tmp_path), weights(alone), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("workers", "servers"), [(3, 0), (2, 2)])
def test_a_stopped_and_resumed_job_ends_with_the_same_bytes(tmp_path: Path, workers: int, servers: int) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    with started(whole, workers=workers, servers=servers, steps=STEPS) as job:
        assert set(job.codes()) == {DONE}
    with started(parts, SLOW, workers=workers, servers=servers, steps=STEPS) as job:
        job.wait_for_step(3)
        job.terminate()
        assert set(job.codes()) == {STOPPED}, job.said()
    assert 3 <= len(progress(parts)) < STEPS
    assert checkpoints(parts)[-1].name == f"step-{len(progress(parts))}"
    with started(parts, workers=workers, servers=servers, steps=STEPS, generation=1) as job:
        assert set(job.codes()) == {DONE}, job.said()
    assert [line["step"] for line in progress(parts)] == list(range(1, STEPS + 1))
    names = [(folder / "checkpoints" / f"step-{STEPS}") for folder in (whole, parts)]
    assert (names[0] / "weights.npy").read_bytes() == (names[1] / "weights.npy").read_bytes()


def test_a_job_that_is_stopped_or_killed_at_any_time_ends_with_the_same_bytes(tmp_path: Path) -> None:
    """Steps that were not saved are done again after a kill, and none is after a stop."""
    rng, seed = fresh()
    workers, servers = ((3, 0), (2, 1))[rng.integers(2)]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    with started(whole, workers=workers, servers=servers, steps=STEPS) as job:
        assert set(job.codes()) == {DONE}
    for generation in range(rounds(3)):
        killed, again = rng.random() < 0.5, len(progress(parts))
        arguments = ("--step-s=0.05", "--checkpoint-every=4", *(["--start-s=1"] if killed else []))
        world = {"workers": workers, "servers": servers, "steps": STEPS, "generation": generation}
        with started(parts, *arguments, **world) as job:
            time.sleep(rng.uniform(0.2, 1.0))
            if killed:
                job.all[rng.integers(workers + servers)].popen.send_signal(signal.SIGKILL)
                job.codes()
            else:
                job.terminate()
                # -SIGTERM: Python had not read the script yet, or had ended it.
                assert set(job.codes()) <= {DONE, STOPPED, -signal.SIGTERM}, (seed, job.said())
                saved = int(checkpoints(parts)[-1].name.removeprefix("step-")) if checkpoints(parts) else 0
                assert len(progress(parts)) == again or progress(parts)[-1]["step"] == saved, (seed, job.said())
    with started(parts, workers=workers, servers=servers, steps=STEPS, generation=1000) as job:
        assert set(job.codes()) == {DONE}, (seed, job.said())
    assert {line["step"] for line in progress(parts)} == set(range(1, STEPS + 1)), seed
    names = [(folder / "checkpoints" / f"step-{STEPS}") for folder in (whole, parts)]
    assert (names[0] / "weights.npy").read_bytes() == (names[1] / "weights.npy").read_bytes(), seed


@pytest.mark.parametrize(("workers", "servers"), [(1, 0), (3, 0), (2, 1)])
def test_steps_are_mini_batches_of_each_worker_if_they_are_asked_for(
    tmp_path: Path, workers: int, servers: int
) -> None:
    arguments = ("--minibatch=32", "--checkpoint-every=4")
    with started(tmp_path, *arguments, workers=workers, servers=servers, steps=10) as job:
        assert set(job.codes()) == {DONE}, job.said()
    steps = [min(10, done) for done in range(workers, 10 + workers, workers)]
    assert [line["step"] for line in progress(tmp_path)] == steps
    assert samples(tmp_path) == 32 * workers * len(steps)
    assert checkpoints(tmp_path)[-1].name == "step-10"
    assert len(checkpoints(tmp_path)) == 3  # after 4 and after 8 mini-batches, and at the end


def test_a_job_whose_number_of_workers_changes_sees_the_same_samples(tmp_path: Path, alone: Path) -> None:
    for generation, workers in enumerate((2, 3, 1)):
        with started(tmp_path, SLOW, workers=workers, steps=STEPS, generation=generation) as job:
            if generation < 2:
                job.wait_for_step(3 * (generation + 1))
                job.terminate()
            assert set(job.codes()) == ({STOPPED} if generation < 2 else {DONE}), job.said()
    assert [line["step"] for line in progress(tmp_path)] == list(range(1, STEPS + 1))
    assert samples(tmp_path) == samples(alone) == STEPS * BATCH
    np.testing.assert_allclose(weights(tmp_path), weights(alone), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("workers", "servers", "asked"), [(3, 0, 1), (2, 1, 2)])
def test_all_stop_at_the_same_step_where_one_is_asked_to(
    tmp_path: Path, workers: int, servers: int, asked: int
) -> None:
    """The one that is asked is a worker that writes no checkpoint, or the parameter server."""
    with started(tmp_path, SLOW, workers=workers, servers=servers, steps=1000) as job:
        job.wait_for_step(3)
        job.terminate(processes=[job.all[asked]])
        assert set(job.codes()) == {STOPPED}, job.said()
    assert checkpoints(tmp_path)[-1].name == f"step-{progress(tmp_path)[-1]['step']}"


def test_a_long_step_does_not_delay_the_stop(tmp_path: Path) -> None:
    with started(tmp_path, "--step-s=3600", workers=2) as job:
        wait_until(lambda: job.said().count("begins at step 0") == 2, what="both workers", every=0.02)
        time.sleep(0.2)  # Wherever the signal finds them: while they connect, or in the first step.
        job.terminate()
        assert set(job.codes()) == {STOPPED}, job.said()


@pytest.mark.parametrize(
    ("workers", "servers", "lost", "by"),
    [
        (3, 0, 2, signal.SIGKILL),
        (2, 1, 1, signal.SIGKILL),
        (2, 1, 2, signal.SIGKILL),
        (3, 0, 2, signal.SIGSTOP),
        (2, 1, 2, signal.SIGSTOP),
    ],
)
def test_the_others_fail_where_one_is_lost_or_hangs(
    tmp_path: Path, workers: int, servers: int, lost: int, by: signal.Signals
) -> None:
    """A job that lost a process ends with an error, and its last whole step is not lost."""
    with started(tmp_path, SLOW, "--peer-s=2", workers=workers, servers=servers, steps=1000) as job:
        job.wait_for_step(3)
        job.all[lost].popen.send_signal(by)
        others = [process for process in job.all if process is not job.all[lost]]
        wait_until(lambda: not any(process.alive for process in others), what=job.said(), seconds=20)
        assert [process.popen.wait() for process in others] == [FAILED] * len(others)
        assert all("expected data from" in process.text() for process in others)
    assert checkpoints(tmp_path)[-1].name == f"step-{progress(tmp_path)[-1]['step']}"


def test_old_checkpoints_are_deleted_and_none_is_torn(tmp_path: Path) -> None:
    torn = tmp_path / "checkpoints/writing-10"
    torn.mkdir(parents=True)
    (torn / "weights.npy").write_bytes(b"half")
    with started(tmp_path, "--checkpoint-every=10", "--step-s=0.001", workers=1, steps=STEPS) as job:
        assert job.codes() == [DONE]
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["step-20", "step-30", "step-40"]


def test_the_pause_is_that_of_the_samples_of_one_worker(tmp_path: Path) -> None:
    with started(tmp_path, "--sample-s=0.002", workers=2, steps=3) as job:
        assert job.codes() == [DONE, DONE]
    assert all(line["seconds"] >= BATCH / 2 * 0.002 for line in progress(tmp_path))


@pytest.mark.parametrize("role", ["worker", "ps"])
def test_a_process_that_waits_for_others_can_be_stopped_and_gives_up(tmp_path: Path, role: str) -> None:
    addresses = free_addresses(3)
    env = environment(tmp_path, role=role, rank=0, workers=addresses[:2], servers=addresses[2:])
    given_up = subprocess.run(
        [sys.executable, str(TRAIN), "--start-s=0.3"], env=env, capture_output=True, text=True, timeout=60
    )
    assert given_up.returncode == FAILED
    assert f"{role} 0: expected " in given_up.stderr
    assert "for 0.3 s" in given_up.stderr
    waiting = subprocess.Popen([sys.executable, str(TRAIN)], env=env, stdout=subprocess.PIPE, text=True)
    assert waiting.stdout is not None
    assert "begins at step 0" in waiting.stdout.readline()
    waiting.terminate()
    assert "stopped before the first step" in waiting.communicate(timeout=60)[0]
    assert waiting.returncode == STOPPED


def test_processes_of_two_generations_do_not_join(tmp_path: Path) -> None:
    addresses = free_addresses(2)
    ended = [
        subprocess.Popen(
            [sys.executable, str(TRAIN), "--start-s=2"],
            env=environment(tmp_path, role="worker", rank=rank, workers=addresses, generation=rank),
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    said = [process.communicate(timeout=60)[1] for process in ended]
    assert [process.returncode for process in ended] == [FAILED, FAILED]
    assert any("of generation" in text for text in said), said
    assert progress(tmp_path) == []


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"SHADOWPRICE_ROLE": "chief"}, "SHADOWPRICE_ROLE: expected worker or ps, got 'chief'"),
        ({"SHADOWPRICE_WORKERS": "here"}, "SHADOWPRICE_WORKERS: expected host:port, got 'here'"),
        ({"WORLD_SIZE": "2"}, "WORLD_SIZE: expected 1, as many as addresses of role worker, got 2"),
        ({"RANK": "1"}, "RANK: expected a number from 0 to 0, got 1"),
        ({"SHADOWPRICE_STEPS": "many"}, "SHADOWPRICE_STEPS: expected an integer, got 'many'"),
        ({"SHADOWPRICE_RESUME": "/"}, "checkpoint: expected weights.npy and state.json, got "),
    ],
)
def test_an_environment_that_is_not_the_contract_s_is_an_error(
    tmp_path: Path, changed: dict[str, str], message: str
) -> None:
    env = environment(tmp_path, role="worker", rank=0, workers=free_addresses(1)) | changed
    done = subprocess.run([sys.executable, str(TRAIN)], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == FAILED
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_checkpoint_of_another_network_is_an_error(tmp_path: Path, alone: Path) -> None:
    env = environment(alone, role="worker", rank=0, workers=free_addresses(1))
    command = [sys.executable, str(TRAIN), "--hidden=8"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == FAILED
    assert "checkpoint: expected 354 parameters, got (2762,)" in done.stderr


def test_it_also_runs_without_any_environment(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(TRAIN), "--steps=5"], env={}, capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (DONE, "")
    assert "step 5 of 5: loss " in done.stdout
    assert list(tmp_path.iterdir()) == []


LATE = """
import os, runpy, sys
class Late:
    def __del__(self, kill=os.kill, me=os.getpid()):
        kill(me, 15)
sys.late, sys.argv = Late(), sys.argv[1:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs a program to which SIGTERM comes while Python closes down."""


def test_a_job_that_is_done_is_done_also_if_it_is_stopped_while_it_ends(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LATE, str(TRAIN), "--steps=2"]
    done = subprocess.run(command, env={}, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert "step 2 of 2" in done.stdout
    assert (done.returncode, done.stderr) == (DONE, "")
