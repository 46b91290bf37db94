"""Programs of jobs run as system users of their own, which cannot open the files of the database."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import DEFAULT_DB_ALIAS, connections

from cluster.database.sqlite3.base import DatabaseWrapper


@pytest.fixture(autouse=True)
def _open_umask(django_db_blocker: Any) -> Iterator[None]:
    before = os.umask(0)
    with django_db_blocker.unblock():
        yield
    os.umask(before)


def written(path: Path) -> dict[str, int]:
    """Open a database, write, and return the permissions of its files by the ends of their names."""
    made = DatabaseWrapper({**connections[DEFAULT_DB_ALIAS].settings_dict, "NAME": str(path)}, "elsewhere")
    made.set_autocommit(False)
    with made.cursor() as cursor:
        cursor.execute("CREATE TABLE t (n)")
    made.commit()
    found = {file.name.removeprefix(path.name): file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    made.close()
    return found


def test_files_of_a_new_database_are_the_services_alone(tmp_path: Path) -> None:
    assert written(tmp_path / "file") == dict.fromkeys(("", "-wal", "-shm", "-turn", "-next"), 0o600)


def test_of_a_database_that_all_could_read_the_group_alone_keeps_its_rights(tmp_path: Path) -> None:
    for name in ("file", "file-turn"):
        (tmp_path / name).touch(0o664)
    modes = written(tmp_path / "file")
    assert modes == {"": 0o660, "-wal": 0o660, "-shm": 0o660, "-turn": 0o660, "-next": 0o600}
