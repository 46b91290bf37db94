"""The demo as a whole, in a data directory of its own: once, twice, interrupted."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from demo.run import DemoError, choose_port
from demo.scenarios import SCENARIOS
from tests.conftest import Tables
from tests.forks import libraries
from tests.processes import Process, free_port, python_env, wait_until

pytestmark = pytest.mark.slow

ROW = "2017-10-01 00:00:{:02d},7200.0,2,14400.0,a\n"


def demo(var: Path, *arguments: str, seconds: float = 120.0) -> subprocess.CompletedProcess[str]:
    """Run the demo's command to its end."""
    command = [sys.executable, "manage.py", "demo", *arguments]
    return libraries().complete(command, env=python_env(var), seconds=seconds)


def figures(output: str, label: str) -> list[str]:
    """What the summary tables say under a label, one table after the other."""
    return [line.split()[-1] for line in output.splitlines() if line.startswith(f"  {label}  ")]


def test_one_round_is_audited_and_a_second_carries_on_until_reset(tmp_path: Path) -> None:
    first = demo(tmp_path, "--once", "--bids", "8", "--port", str(free_port()))
    assert first.returncode == 0, first.stdout + first.stderr
    assert figures(first.stdout, "in the market") == ["8"] * len(SCENARIOS)
    assert "FAIL" not in first.stdout
    second = demo(tmp_path, "--once", "--bids", "3", "--port", str(free_port()))
    assert second.returncode == 0, second.stdout + second.stderr
    assert figures(second.stdout, "in the market") == ["11"] * len(SCENARIOS)
    assert demo(tmp_path, "--reset").returncode == 0
    assert not (tmp_path / "shadowprice.sqlite3").exists()


def test_a_trace_is_fed_and_its_malformed_rows_are_reported(tmp_path: Path, make_tables: Tables) -> None:
    make_tables(python_env(tmp_path))
    trace = tmp_path / "small.csv"
    heading = "timestamp,duration,num_gpus,gpu_time,cluster\n"
    trace.write_text("\ufeff" + heading + ROW.format(0) + "nonsense\n" + ROW.format(30))
    done = demo(tmp_path, "--once", "--trace", str(trace), "--port", str(free_port()))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "line 3 is no job" in done.stdout
    assert "2 rows sent, 0 sent before, 1 malformed" in done.stdout
    assert figures(done.stdout, "in the market") == ["2"]


def test_a_file_that_is_no_trace_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n")
    done = demo(tmp_path, "--once", "--trace", str(other), "--port", str(free_port()))
    assert done.returncode == 1
    assert "expected the columns" in done.stderr
    assert not (tmp_path / "shadowprice.sqlite3").exists()


def test_a_long_wait_for_the_next_row_is_reported(tmp_path: Path, make_tables: Tables) -> None:
    make_tables(python_env(tmp_path))
    trace = tmp_path / "sparse.csv"
    late = "2017-10-03 00:00:00,7200.0,2,14400.0,a\n"
    trace.write_text("timestamp,duration,num_gpus,gpu_time,cluster\n" + ROW.format(0) + late)
    command = [sys.executable, "manage.py", "demo", "--trace", str(trace), "--port", str(free_port())]
    process = Process(command, log=tmp_path / "log", env=python_env(tmp_path), parent=libraries())
    try:
        wait_until(lambda: "The next job arrives in 4" in process.text(), what="a word")  # 48 slots of a second
        os.kill(process.pid, signal.SIGINT)
        assert process.popen.wait(30) == 0, process.text()
    finally:
        process.end()


@pytest.mark.parametrize(
    "wrong",
    [
        *("--port=0", "--port=99999", "--port=web", "--seed=-3", "--seed=x"),
        *("--bids=0", "--bids=-5", "--slot-takes=0", "--slot-takes=-1", "--slot-takes=nan", "--slot-takes=inf"),
    ],
)
def test_a_wrong_option_is_said_in_words_before_anything_is_made(tmp_path: Path, wrong: str) -> None:
    done = demo(tmp_path, wrong)
    assert done.returncode != 0
    assert "expected a" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "shadowprice.sqlite3").exists()


def test_a_busy_port_is_said_in_words() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(DemoError, match="in use"):
            choose_port(taken.getsockname()[1])
