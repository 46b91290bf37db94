"""The benchmark of the executor's loop: it runs, with few jobs."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from django.conf import LazySettings

from benchmarks.execution_loop import __main__ as benchmark


@pytest.mark.django_db
def test_it_prints_what_a_loop_costs(
    tmp_path: Path,
    settings: LazySettings,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The database of tests needs no `migrate`; the code of the other command runs here."""
    settings.EXECUTION_DIR = tmp_path
    commands: list[str] = []

    def run(command: Sequence[str], *, env: Mapping[str, str], check: bool) -> None:
        assert check
        assert Path(env["SHADOWPRICE_VAR"]).is_dir()
        assert env["DATABASE_URL"].startswith(f"sqlite:///{env['SHADOWPRICE_VAR']}/")
        commands.append(command[2])
        if command[2] == "shell":
            exec(command[-1])

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr("sys.argv", ["x", "--jobs", "3", "--loops", "1"])
    benchmark.main()
    assert commands == ["migrate", "shell"]
    assert "3 jobs run" in capsys.readouterr().out
