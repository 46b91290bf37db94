"""Jobs in queues run with the parameter servers that the market assigned to them, and keep them without a break."""

from pathlib import Path
from typing import Any

import pytest

from auctions.engine import slots
from auctions.models import PsAssignment, PsHost
from auctions.state.market_snapshot import one_version
from execution.capacity import UNLIMITED, room_of
from execution.models import Generation, Process
from execution.wanted import held_in_queues, timeline
from scheduling.preemptive import parameter_servers
from scheduling.preemptive.workers import TICKS
from tests.auctions.worlds import SLOT_S
from tests.execution.promises import assert_nothing_ran_elsewhere
from tests.execution.worlds import World, make_world

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> World:
    return make_world(monkeypatch, settings, tmp_path, policy="preemptive", parameters={"cloud": "edge"})


def places(world: World) -> list[tuple[str, int]]:
    """Role and server of each process that lives."""
    rows = Process.objects.filter(key__in=world.engine.alive()).order_by("role")
    return [(row.role, row.server_id) for row in rows]


def test_a_queued_job_has_its_parameter_server_beside_its_workers(world: World) -> None:
    bid = world.submit(chunks=2, epochs=3)
    world.go(1.3 * SLOT_S)
    row = PsAssignment.objects.get()
    assert row.host == PsHost.EDGE
    assert places(world).count(("ps", row.server_id or 0)) == 1
    assert len(places(world)) == 3
    starts = [process.start for process in world.engine.processes.values()]
    assert {start.environment["SHADOWPRICE_ARCHITECTURE"] for start in starts} == {"ps"}
    world.go(20 * SLOT_S)
    assert not places(world)
    assert Generation.objects.filter(training__bid=bid).count() == 1, "the same machines from slot to slot"
    assert_nothing_ran_elsewhere(bid, late=0.2)


def test_it_keeps_it_while_the_market_has_not_begun_the_next_slot_yet(world: World) -> None:
    world.submit(chunks=2, epochs=3)
    world.go(1.3 * SLOT_S)
    before, executor = places(world), world.executor()
    row = PsAssignment.objects.get()
    assert row.end < 2.1 * TICKS, "as far as the market has begun slots"
    world.wall[0] += 0.8 * SLOT_S
    executor.once()
    assert places(world) == before
    assert not Generation.objects.exclude(state="running").exists()
    slots.pass_slots(world.market.pk)
    executor.once()
    assert places(world) == before
    row.refresh_from_db()
    assert row.end > 2 * TICKS


def test_until_the_market_begins_the_slot_it_is_assigned_as_it_will_be(world: World) -> None:
    world.submit(chunks=2, epochs=3)
    world.wall[0] += 1.1 * SLOT_S  # its first slot has begun by the clock
    world.market.cluster.refresh_from_db()
    now = timeline(world.market.cluster)
    assert not PsAssignment.objects.exists()
    before = held_in_queues(world.market, now)
    assert sorted(one.machines.role for one in before) == ["ps", "worker", "worker"]
    slots.pass_slots(world.market.pk)
    assert PsAssignment.objects.exists()
    world.market.refresh_from_db()
    after = held_in_queues(world.market, now)
    assert [(one.bid, one.machines, one.end) for one in after] == [(one.bid, one.machines, one.end) for one in before]


def test_a_job_without_a_parameter_server_runs_as_a_ring(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    monkeypatch.setattr(parameter_servers, "_host", lambda *_: (parameter_servers.Host.NONE, None))
    world.submit(chunks=2, epochs=3)
    world.go(1.1 * SLOT_S, every=SLOT_S)
    assert set(PsAssignment.objects.values_list("host", flat=True)) == {PsHost.NONE}
    world.market.refresh_from_db()
    held = held_in_queues(world.market, timeline(world.market.cluster))
    assert sorted(one.machines.role for one in held) == ["worker", "worker"]


def test_in_the_cloud_its_parameter_server_is_there_and_always_fits(
    monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path
) -> None:
    world = make_world(monkeypatch, settings, tmp_path, policy="preemptive", parameters={"cloud": "cloud"})
    world.submit(chunks=2, epochs=3, upload_delay_s={"cloud": SLOT_S})
    world.go(2.5 * SLOT_S)
    row, cloud = PsAssignment.objects.get(), world.market.cluster.servers.get(kind="cloud")
    assert (row.host, row.server) == (PsHost.CLOUD, None)
    assert set(places(world)) == {("ps", cloud.pk), ("worker", cloud.pk)}
    with one_version():
        units = room_of(world.market).capacity
    assert UNLIMITED in units[cloud.pk]
    assert all(UNLIMITED not in units[key] for key in units if key != cloud.pk)
