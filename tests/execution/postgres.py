"""A job under two executors on PostgreSQL, with an engine in memory; a process of its own runs this."""

import tempfile
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection

from execution.lease import Fenced, fenced
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
