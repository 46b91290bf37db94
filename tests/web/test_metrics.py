"""Processes that count: files of their own, which any of them adds up."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.test import RequestFactory

from tests.processes import ROOT, python_env
from web import metrics

COUNT = """
import os, sys
import django; django.setup()
from web import metrics
for child in range(int(sys.argv[1])):
    if os.fork() == 0:
        laps = metrics.Laps("decide"); laps.lap("lock"); laps.count(policy="dps")
        os._exit(0)
    os.wait()
laps = metrics.Laps("decide"); laps.lap("lock"); laps.count(policy="dps")
print(metrics.exposition().decode())
"""
SAMPLE = 'shadowprice_step_seconds_count{policy="dps",step="lock",work="decide"}'


def run(tmp_path: Path, code: str, *arguments: str) -> str:
    env = python_env(tmp_path, DJANGO_SETTINGS_MODULE="tests.settings")
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], env=env, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.slow
def test_several_processes_and_their_children_are_added_up_once_each(tmp_path: Path) -> None:
    assert f"{SAMPLE} 3.0" in run(tmp_path, COUNT, "2").splitlines()
    assert f"{SAMPLE} 5.0" in run(tmp_path, COUNT, "1").splitlines()  # with what the first ones have counted
    forgotten = run(tmp_path, COUNT.replace("for child", "metrics.forget()\nfor child"), "0")
    assert f"{SAMPLE} 1.0" in forgotten.splitlines()


ZEROS = """
import django; django.setup()
from web import metrics
metrics.begin_at_zero()
print(metrics.exposition().decode())
"""


@pytest.mark.slow
def test_a_counter_of_a_web_process_begins_at_zero_under_every_label(tmp_path: Path) -> None:
    written = set(re.findall(r'^(\w+)_total\{\w+="([a-z ]+)"\} 0\.0$', run(tmp_path, ZEROS), re.M))
    assert written == {(counter._name, label) for counter, labels in metrics.KNOWN_LABELS for label in labels}
    for room in ("web", "frontend"):
        code = "".join(file.read_text() for file in sorted((ROOT / room).rglob("*.py")))
        named = re.findall(r'(?:add_one\(CONNECTIONS_ENDED, |_close\(|_refuse\(|_ask\()"([a-z ]+)"', code)
        assert set(named) <= {label for _, label in written}
    assert ("shadowprice_connections_ended", "large head") in written


def test_the_space_of_a_file_is_reserved_before_it_is_written(tmp_path: Path) -> None:
    name = tmp_path / "histogram_1.db"
    counts: Any = metrics._Reserved(str(name))
    for i in range(3000):
        counts.write_value(f"key {i:0100d}", float(i), 0.0)
    assert counts.read_value(f"key {2999:0100d}")[0] == 2999.0
    size = name.stat().st_size
    assert size > metrics.RESERVED_BYTES
    assert name.stat().st_blocks * 512 >= size  # no hole that a full disk could not fill
    counts.close()


def test_a_full_disk_stops_no_work(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(metrics.STEPS, "labels", full)
    laps = metrics.Laps("decide")
    laps.lap("lock")
    laps.count(policy="dps")
    assert "is not counted" in caplog.text


def test_a_method_that_a_client_invents_makes_no_label() -> None:
    from django.http import HttpResponse

    answer = metrics.count_answers(lambda request: HttpResponse())
    answer(RequestFactory().generic("INVENTED", "/"))
    answer(RequestFactory().get("/"))
    text = metrics.exposition().decode()
    assert 'method="other",route="unknown",status="200"' in text
    assert "INVENTED" not in text
