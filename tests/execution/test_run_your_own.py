"""The guide to programs is true: its scripts run as written, and its table is the contract that the examples read."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.execution.examples import checkpoints, environment, free_addresses, progress
from tests.processes import ROOT, Process, wait_until

PAGE: Final = (ROOT / "docs/users/run-your-own.md").read_text()
OF_TORCHRUN: Final = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}
READ: Final = re.compile(r"\"((?:SHADOWPRICE|MASTER)_[A-Z_]+|RANK|WORLD_SIZE)\"")


def blocks(language: str) -> list[str]:
    """The fenced blocks of the page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)


SMALLEST, RESUMABLE, REPORTING = blocks("python")
TRIED, EXAMPLE = blocks("sh")


@pytest.mark.slow
def test_the_smallest_script_runs_in_every_rank(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(SMALLEST)
    for rank in range(2):
        env = {"RANK": str(rank), "WORLD_SIZE": "2"}
        said = subprocess.run(
            [sys.executable, tmp_path / "job.py"], env=env, capture_output=True, text=True, check=True
        )
        assert len(said.stdout.splitlines()) == (10 if rank == 0 else 0)


@pytest.mark.slow
def test_the_script_with_checkpoints_stops_and_resumes(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(RESUMABLE)
    (tmp_path / "checkpoints").mkdir()

    def begin(generation: int) -> Process:
        env = environment(tmp_path, role="worker", rank=0, workers=free_addresses(1), generation=generation)
        return Process([sys.executable, "job.py"], log=tmp_path / "log", env=env, cwd=tmp_path)

    job = begin(0)
    try:
        wait_until(lambda: len(progress(tmp_path)) >= 3, what="three steps", every=0.02)
        job.popen.send_signal(signal.SIGTERM)
        assert job.popen.wait(60) == 143, job.text()
    finally:
        job.end(seconds=0)
    assert [path.name for path in checkpoints(tmp_path)] == [f"step-{len(progress(tmp_path))}"]
    job = begin(1)
    try:
        assert job.popen.wait(60) == 0, job.text()
    finally:
        job.end(seconds=0)
    assert [line["step"] for line in progress(tmp_path)] == list(range(1, 61))
    assert json.loads((checkpoints(tmp_path)[-1] / "state.json").read_text())["weight"] == pytest.approx(5 * 0.9**60)


@pytest.mark.slow
@pytest.mark.parametrize("script", [SMALLEST, RESUMABLE])
def test_the_scripts_do_nothing_where_they_are_started_as_a_parameter_server(tmp_path: Path, script: str) -> None:
    (tmp_path / "job.py").write_text(script)
    (tmp_path / "checkpoints").mkdir()
    worker, server = free_addresses(2)
    env = environment(tmp_path, role="ps", rank=0, workers=[worker], servers=[server])
    command = [sys.executable, "job.py"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoints", "job.py"]
    assert checkpoints(tmp_path) == []


@pytest.mark.slow
def test_a_script_for_torchrun_is_started_as_a_worker_alone(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("import sys; print(sys.argv)")
    shell, option, line, name = json.loads(blocks("json")[0])
    here = [shell, option, line.replace("/opt/training/.venv/bin/python", sys.executable), name, "--seed", "a b"]
    said = {
        role: subprocess.run(
            here,
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "SHADOWPRICE_ROLE": role},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for role in ("worker", "ps")
    }
    assert said == {"worker": "['job.py', '--seed', 'a b']\n", "ps": ""}


@pytest.mark.slow
def test_the_commands_to_try_it_run_as_written(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(RESUMABLE)
    env = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", TRIED], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
    code, last = done.stdout.splitlines()
    assert code == "exit code 143", done.stderr
    assert json.loads(last)["step"] == 40
    example = subprocess.run(
        ["bash", "-ec", EXAMPLE], cwd=ROOT / "examples", env=env, capture_output=True, text=True, timeout=60
    )
    assert "step 60 of 60" in example.stdout


def test_the_bodies_are_json() -> None:
    wrapped, program, bid = (json.loads(block) for block in blocks("json"))
    assert wrapped[-1] == "job.py"
    assert set(program) == {"name", "arguments", "working_directory", "environment"}
    assert bid["program"]["name"] == program["name"]


def test_the_table_has_the_variables_of_the_contract(tmp_path: Path) -> None:
    listed = set(re.findall(r"`([A-Z_]{4,})`", PAGE.split("### The contract")[1].split("| exit code")[0]))
    given = set(environment(tmp_path, role="worker", rank=0, workers=["127.0.0.1:1"])) - {"PATH"}
    assert listed == given
    read = {name for path in (ROOT / "examples").glob("*.py") for name in READ.findall(path.read_text())}
    assert read <= listed
    assert listed - read <= OF_TORCHRUN | {"SHADOWPRICE_ROLE_RANK"}


def test_the_options_of_the_trainer_are_on_the_page() -> None:
    help_text = subprocess.run(
        [sys.executable, str(ROOT / "examples/train.py"), "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert set(re.findall(r"--[a-z-]+", help_text)) - {"--help"} == set(re.findall(r"`(--[a-z-]+)`", PAGE))
