"""A job under two executors on PostgreSQL, with an engine in memory; a process of its own runs this."""

import os
import tempfile
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
from django.conf import settings
from django.db import connection

from execution.engines.base import Seen
from execution.lease import Fenced, fenced
from execution.management.commands.execute import Command
from execution.models import Generation, Lease, Process, TrainingState
from tests.execution.worlds import make_world


def main() -> None:
    """Run a job from its first slot to its last, while another executor takes over."""
    if connection.vendor != "postgresql":
        raise AssertionError(f"expected PostgreSQL, got {connection.vendor}")
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        world = make_world(patch, settings, Path(folder))
        bid = world.submit(epochs=2, steps=100)
        one, other = world.executor("one"), world.executor("other")
        world.go(110, executor=one)
        alive = world.engine.alive()
        assert len(alive) == Process.objects.filter(state="running").count() > 0
        assert not other.once(), "the lease is held"
        world.wall[0] += 16
        assert other.once(), "the lease has run out"
        assert not one.once()
        assert Lease.objects.get().fence == 2
        with pytest.raises(Fenced), fenced(1):
            Generation.objects.all().delete()
        assert world.engine.alive() == alive, "the job runs on"
        world.go(100 * (bid.completion_slot or 0) + 20 - 100 * world.slot, executor=other)
        assert world.engine.alive() == []
        training = world.training(bid)
        assert (training.state, training.generations.count()) == (TrainingState.STOPPED, 1)
        print("done")


def lose_connection() -> None:
    """Let the command execute while the server ends its connection between two transactions."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        world = make_world(patch, settings, Path(folder))
        world.submit(epochs=2, steps=100)
        stopped, stop = os.pipe()
        listed = []

        def end_connection() -> dict[str, Seen]:
            listed.append(world.wall[0])
            if len(listed) == 1:
                with closing(psycopg2.connect(os.environ["DATABASE_URL"])) as other:
                    other.cursor().execute("SELECT pg_terminate_backend(%s, 5000)", [backend()])
            else:
                os.write(stop, b".")
            return {}

        patch.setattr(world.engine, "list", end_connection)
        Command()._loop(world.executor(), stopped, {"every": 0.0, "quiet": True})
        assert len(listed) == 2
        print("done")


def backend() -> int:
    """Return the number of the server's process of this connection."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])
