"""Reading, setting and speeding up a cluster's clock."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster import clock
from cluster.models import ClockKind, Cluster

EPOCH = datetime(2026, 1, 5, tzinfo=UTC)


class Wall:
    """A wall clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = EPOCH

    def pass_s(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Wall:
    standing = Wall()
    monkeypatch.setattr("cluster.clock.timezone.now", lambda: standing.now)
    return standing


def virtual(**fields: Any) -> Cluster:
    return Cluster.objects.create(
        name="lab",
        title="Lab",
        epoch=EPOCH,
        slot_seconds=100,
        horizon_slots=10,
        clock_kind=ClockKind.VIRTUAL,
        clock_running=False,
        **fields,
    )


def test_a_real_clock_counts_from_the_epoch(wall: Wall) -> None:
    cluster = Cluster(epoch=EPOCH, slot_seconds=100, clock_kind=ClockKind.REAL)
    wall.pass_s(250)
    now = clock.read(cluster)
    assert (now.seconds, now.slot, now.next_slot) == (250.0, 2, 3)


def test_a_slot_that_begins_this_instant_can_still_be_used(wall: Wall) -> None:
    cluster = Cluster(epoch=EPOCH, slot_seconds=100, clock_kind=ClockKind.REAL)
    wall.pass_s(300)
    assert (clock.read(cluster).slot, clock.read(cluster).next_slot) == (3, 3)


def test_before_the_epoch_slots_are_negative(wall: Wall) -> None:
    cluster = Cluster(epoch=EPOCH, slot_seconds=100, clock_kind=ClockKind.REAL)
    wall.pass_s(-150)
    assert (clock.read(cluster).slot, clock.read(cluster).next_slot) == (-2, -1)


@given(seconds=st.floats(0, 1e9), slot_seconds=st.integers(1, 10**6))
def test_the_slot_holds_the_instant_exactly(seconds: float, slot_seconds: int) -> None:
    now = clock.read(
        Cluster(
            epoch=EPOCH,
            slot_seconds=slot_seconds,
            clock_kind=ClockKind.VIRTUAL,
            clock_running=False,
            clock_offset_s=seconds,
        )
    )
    assert now.slot * slot_seconds <= seconds < (now.slot + 1) * slot_seconds
    assert (now.next_slot - 1) * slot_seconds < seconds <= now.next_slot * slot_seconds


@pytest.mark.django_db
def test_a_virtual_clock_starts_stops_and_is_set(wall: Wall) -> None:
    cluster = virtual()
    wall.pass_s(1000)
    assert clock.read(cluster).seconds == 0
    clock.set_clock(cluster, running=True)
    wall.pass_s(30)
    assert clock.read(cluster).seconds == 30
    clock.set_clock(cluster, running=False)
    wall.pass_s(1000)
    assert clock.read(cluster).seconds == 30
    clock.set_clock(cluster, at_s=500)
    assert clock.read(Cluster.objects.get()).seconds == 500


@pytest.mark.django_db
def test_a_new_speed_counts_from_its_change(wall: Wall) -> None:
    cluster = virtual()
    clock.set_clock(cluster, running=True, speed=10)
    wall.pass_s(30)
    clock.set_clock(cluster, speed=2)
    assert clock.read(cluster).seconds == 300
    wall.pass_s(30)
    assert clock.read(cluster).seconds == 360


@pytest.mark.django_db
@given(changes=st.lists(st.tuples(st.floats(0, 1e4), st.floats(1e-3, 1e4), st.booleans()), max_size=8))
def test_time_never_goes_back_when_speed_changes(changes: list[tuple[float, float, bool]]) -> None:
    standing, last = Wall(), 0.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cluster.clock.timezone.now", lambda: standing.now)
        Cluster.objects.all().delete()
        cluster = virtual()
        for passed, speed, running in changes:
            standing.pass_s(passed)
            before = clock.read(cluster).seconds
            clock.set_clock(cluster, running=running, speed=speed)
            after = clock.read(cluster).seconds
            assert last <= before == after
            last = after


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("field", "value"),
    [("speed", v) for v in (0.0, -1.0, float("nan"), float("inf"))]
    + [("at_s", v) for v in (-1.0, float("nan"), float("inf"))],
)
def test_nonsense_is_refused_and_changes_nothing(field: str, value: float) -> None:
    cluster = virtual()
    with pytest.raises(ValueError, match=r"clock_\w+: expected"):
        clock.set_clock(cluster, **{field: value})  # type: ignore[arg-type]
    stored = Cluster.objects.get()
    assert (stored.clock_speed, stored.clock_offset_s) == (1.0, 0.0)


def test_a_real_clock_cannot_be_set() -> None:
    with pytest.raises(ValueError, match="only a virtual clock"):
        clock.set_clock(Cluster(name="lab", clock_kind=ClockKind.REAL), running=False)


def test_a_slot_begins_at_its_multiple_of_the_slot_length() -> None:
    assert clock.instant_of_slot(Cluster(epoch=EPOCH, slot_seconds=3600), 24) == EPOCH + timedelta(days=1)
