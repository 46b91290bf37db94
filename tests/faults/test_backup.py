"""A copy of the database that was made while bids waited is restored: each bid is decided once."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Tables, missing
from tests.faults import crowd
from tests.faults.installation import start_web
from tests.processes import DATABASE, ROOT, Server, binary, free_port, fresh_database, manage, python_env

pytestmark = pytest.mark.slow
BIDS = 24


def decided_after_restore(env: dict[str, str], sequences: list[int], log: Path) -> None:
    """Start a server on a restored database; each bid that waited there is decided once."""
    server = start_web(free_port(), env, log)
    try:
        crowd.wait_for_decisions(env)
    finally:
        server.end()
    crowd.assert_each_bid_decided_once(env, sequences)


def test_a_copy_of_sqlite_is_restored_and_bids_that_waited_are_decided(tmp_path: Path, make_tables: Tables) -> None:
    before, after = (python_env(tmp_path / name) for name in ("before", "after"))
    for env in (before, after):
        Path(env["SHADOWPRICE_VAR"]).mkdir()
    make_tables(before)
    crowd.call("prepare", "dps", env=before)
    sequences = crowd.submit_all(before, count=BIDS)
    copy = tmp_path / "market.sqlite3"
    assert f"{copy}: " in manage("backup", str(copy), env=before)
    assert copy.stat().st_mode & 0o777 == 0o600
    crowd.submit_all(before, count=BIDS)  # these came after the copy
    shutil.copy(copy, Path(after["SHADOWPRICE_VAR"]) / DATABASE)
    manage("migrate", "-v0", env=after)
    decided_after_restore(after, sequences, tmp_path / "serve.log")


def test_a_copy_overwrites_nothing(tmp_path: Path, make_tables: Tables) -> None:
    env = python_env(tmp_path)
    make_tables(env)
    taken = tmp_path / "taken"
    taken.write_text("something else")
    with pytest.raises(AssertionError, match="expected a new file, got "):
        manage("backup", str(taken), env=env)
    assert taken.read_text() == "something else"


@pytest.mark.parametrize(("is_there", "said"), [(False, "got no file"), (True, "no such table: django_migrations")])
def test_a_database_that_is_missing_or_empty_is_not_copied(tmp_path: Path, is_there: bool, said: str) -> None:
    env = python_env(tmp_path / "var")
    database = Path(env["SHADOWPRICE_VAR"]) / DATABASE
    database.parent.mkdir()
    if is_there:
        database.touch()
    with pytest.raises(AssertionError, match=said):
        manage("backup", str(tmp_path / "copy"), env=env)
    assert not list(tmp_path.glob("copy*"))
    assert database.exists() is is_there


def test_a_damaged_copy_is_named_in_one_line(tmp_path: Path) -> None:
    env = python_env(tmp_path)
    (tmp_path / DATABASE).write_text("no database")
    command = [sys.executable, "manage.py", "audit"]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1
    assert done.stderr == (
        "The file of the database is damaged: file is not a database. Restore a copy (docs/operators/backup.md).\n"
    )


@pytest.mark.services
def test_a_copy_of_postgresql_is_restored_and_bids_that_waited_are_decided(
    tmp_path: Path, postgres_server: Server, postgres_tables: str
) -> None:
    dump, restore = binary("pg_dump"), binary("pg_restore")
    if dump is None or restore is None:
        missing("pg_dump", install="apt-get install postgresql-client")
    before = python_env(tmp_path, DATABASE_URL=postgres_tables)
    crowd.call("prepare", "dps", env=before)
    sequences = crowd.submit_all(before, count=BIDS)
    copy = str(tmp_path / "market.dump")
    run([dump, "--format=custom", f"--file={copy}", postgres_tables])
    crowd.submit_all(before, count=BIDS)  # these came after the copy
    empty = fresh_database(postgres_server)
    run([restore, "--clean", "--no-owner", "--exit-on-error", f"--dbname={empty}", copy])
    after = python_env(tmp_path, DATABASE_URL=empty)
    manage("migrate", "-v0", env=after)
    decided_after_restore(after, sequences, tmp_path / "serve.log")


def run(command: list[str]) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
