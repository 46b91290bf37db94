"""The only module that reads the clock. Every operation reads it once and passes the reading on."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from cluster.models import LARGEST_SECONDS, LARGEST_SPEED, ClockKind, Cluster


@dataclass(frozen=True)
class ClockReading:
    """One reading of a cluster's clock."""

    wall: datetime
    seconds: float
    """Cluster time, seconds after the epoch."""
    slot: int
    """The slot under way: floor(seconds / slot_seconds)."""
    next_slot: int
    """The first slot that can still be used whole: ceil(seconds / slot_seconds)."""


def read(cluster: Cluster) -> ClockReading:
    """Read the cluster's clock."""
    wall = timezone.now()
    seconds = _seconds(cluster, wall)
    # Floor division of doubles is exact; a quotient could round up to the next slot.
    slot, next_slot = seconds // cluster.slot_seconds, -(-seconds // cluster.slot_seconds)
    return ClockReading(wall=wall, seconds=seconds, slot=int(slot), next_slot=int(next_slot))


def now() -> datetime:
    """Return the wall clock's time, for operations that belong to no cluster."""
    return timezone.now()


def instant_of_slot(cluster: Cluster, slot: int) -> datetime:
    """Return when a slot begins, in cluster time."""
    return cluster.epoch + timedelta(seconds=slot * cluster.slot_seconds)


def set_clock(
    cluster: Cluster, *, running: bool | None = None, speed: float | None = None, at_s: float | None = None
) -> None:
    """Start, stop, speed up or set a virtual clock; arguments that are not given stay unchanged.

    Time is continuous at a change of speed: the new speed applies from the instant of the change.

    Raises
    ------
    ValueError
        If the clock is real, or the speed or the time is out of range.
    """
    if cluster.clock_kind != ClockKind.VIRTUAL:
        raise ValueError(f"{cluster.name} runs on real time; only a virtual clock can be set")
    if speed is not None and not 0 < speed <= LARGEST_SPEED:
        raise ValueError(f"clock_speed: expected a number above 0 and at most {LARGEST_SPEED:g}, got {speed}")
    if at_s is not None and not 0 <= at_s <= LARGEST_SECONDS:
        raise ValueError(f"clock_offset_s: expected 0 to {LARGEST_SECONDS:g} seconds, got {at_s}")
    wall = timezone.now()
    cluster.clock_offset_s = _seconds(cluster, wall) if at_s is None else at_s
    cluster.clock_origin = wall
    if running is not None:
        cluster.clock_running = running
    if speed is not None:
        cluster.clock_speed = speed
    cluster.save(update_fields=["clock_offset_s", "clock_origin", "clock_running", "clock_speed"])


def _seconds(cluster: Cluster, wall: datetime) -> float:
    if cluster.clock_kind == ClockKind.REAL:
        return (wall - cluster.epoch).total_seconds()
    if not cluster.clock_running or cluster.clock_origin is None:
        return cluster.clock_offset_s
    return cluster.clock_offset_s + cluster.clock_speed * (wall - cluster.clock_origin).total_seconds()
