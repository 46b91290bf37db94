"""Ctrl-C while the demo reads its database: the clocks stop, though another process has written since."""

from pathlib import Path

from tests.conftest import Tables
from tests.processes import python_env, run_python

INTERRUPTED = """
import os
import sqlite3
from contextlib import closing
from datetime import UTC, datetime

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
django.setup()

from django.db import connection

from cluster.models import Cluster, ClockKind
from demo.run import time_passing


def read_and_interrupt(execute, *statement):
    execute(*statement)
    with closing(sqlite3.connect(connection.settings_dict["NAME"])) as other:
        other.execute("UPDATE cluster_cluster SET title = 'of another process'")
        other.commit()
    raise KeyboardInterrupt


cluster = Cluster.objects.create(
    name="one", slot_seconds=60, horizon_slots=10, epoch=datetime(2026, 1, 1, tzinfo=UTC), clock_kind=ClockKind.VIRTUAL
)
try:
    with time_passing(takes_s=1.0, others={}) as start:
        start(cluster)
        assert Cluster.objects.get().clock_running
        with connection.execute_wrapper(read_and_interrupt):
            cluster.refresh_from_db()
except KeyboardInterrupt:
    print("interrupted")
found = Cluster.objects.get()
print(found.title, found.clock_running)
"""


def test_clocks_stop_after_a_read_that_was_interrupted(tmp_path: Path, make_tables: Tables) -> None:
    env = python_env(tmp_path)
    make_tables(env)
    assert run_python("-c", INTERRUPTED, env=env).splitlines() == ["interrupted", "of another process False"]
