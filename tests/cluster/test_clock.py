"""The one reader of time."""

from datetime import UTC, datetime, timedelta

import pytest

from cluster import clock
from cluster.models import ClockKind, Cluster

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
    """The wall clock: set its only entry."""
    now = [EPOCH]
    monkeypatch.setattr("cluster.clock.timezone.now", lambda: now[0])
    return now


def cluster(**changes: object) -> Cluster:
    facts = {"name": "lab", "title": "Lab", "epoch": EPOCH, "slot_seconds": 60, "horizon_slots": 10}
    return Cluster(**{**facts, **changes})


def test_real_time_counts_from_the_epoch(wall: list[datetime]) -> None:
    wall[0] = EPOCH + timedelta(seconds=90)
    instant = clock.read(cluster())
    assert (instant.seconds, instant.slot, instant.next_slot) == (90, 1, 2)


def test_a_slot_that_begins_now_can_still_be_used_whole(wall: list[datetime]) -> None:
    wall[0] = EPOCH + timedelta(seconds=120)
    instant = clock.read(cluster())
    assert (instant.slot, instant.next_slot) == (2, 2)


@pytest.mark.django_db
def test_a_virtual_clock_starts_stops_and_changes_speed_without_a_jump(wall: list[datetime]) -> None:
    lab = cluster(clock_kind=ClockKind.VIRTUAL, clock_running=False)
    lab.save()
    wall[0] += timedelta(seconds=100)
    assert clock.read(lab).seconds == 0
    clock.set_clock(lab, running=True, speed=10)
    wall[0] += timedelta(seconds=6)
    assert clock.read(lab).seconds == 60
    clock.set_clock(lab, speed=2)
    assert clock.read(lab).seconds == 60
    wall[0] += timedelta(seconds=5)
    assert clock.read(lab).seconds == 70
    clock.set_clock(lab, running=False)
    wall[0] += timedelta(seconds=500)
    assert clock.read(Cluster.objects.get(pk=lab.pk)).seconds == 70
    clock.set_clock(lab, at_s=3600)
    assert clock.read(lab).slot == 60


@pytest.mark.django_db
def test_real_time_cannot_be_set(wall: list[datetime]) -> None:
    with pytest.raises(ValueError, match="real time"):
        clock.set_clock(cluster(), speed=2)
    with pytest.raises(ValueError, match="clock_speed"):
        clock.set_clock(cluster(clock_kind=ClockKind.VIRTUAL), speed=float("nan"))
