"""The measured cost of a change of machines for a job, beside the slots that the policy in force counts for it."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from statistics import median
from typing import Final

from django.db.models import F, QuerySet

from auctions.models import Market
from auctions.state.market_snapshot import market_snapshot, one_version
from execution.models import Ending, Generation, Progress
from execution.wanted import Timeline, timeline

MOST_RESTARTS: Final = 50
"""Restarts that count: the newest."""


@dataclass(frozen=True)
class RestartCost:
    """The cost of a restart in a cluster."""

    restarts: int
    """Restarts that were measured."""
    seconds: float | None
    """Median time without a new step, seconds on the wall clock; None if there were none."""
    slots: float | None
    """The same in slots."""
    parameter: str
    """Name of the parameter or fixed number by which the policy in force counts a restart: `restart` or `pause`."""
    counted_slots: int
    """Slots that the policy counts."""


@one_version()
def restart_cost(market: Market) -> RestartCost:
    """Return the median of the newest restarts, and what the policy in force counts."""
    policy = market_snapshot(market).book.policy
    name = "restart" if hasattr(policy, "restart") else "pause"
    time = timeline(market.cluster)
    costs = list(_costs(market, time)) if isfinite(time.slot_s) else []
    seconds = median(costs) if costs else None
    return RestartCost(
        restarts=len(costs),
        seconds=seconds,
        slots=None if seconds is None else seconds / time.slot_s,
        parameter=name,
        counted_slots=getattr(policy, name),
    )


def _costs(market: Market, time: Timeline) -> Iterator[float]:
    """Yield the cost of each of the newest generations that followed one whose machines changed, seconds.

    It is the time from the last step before to the first one after, less that step and less the time in which the job
    held no machines, and the duration of steps that were done again. Failures are not counted: they wait on purpose.
    """
    rows = Generation.objects.filter(training__bid__market=market, number__gt=0, progress__isnull=False).distinct()
    followed = rows.filter(training__generations__number=F("number") - 1, training__generations__ending=Ending.CHANGED)
    for row in followed.order_by("-pk")[:MOST_RESTARTS]:
        before = Generation.objects.get(training=row.training_id, number=row.number - 1)
        last, first = _steps(before).order_by("-step").first(), _steps(row).order_by("step").first()
        if last is not None and first is not None:
            idle = max(0.0, time.wall(row.slot) - before.until)
            again = max(0, last.step - first.step + 1) * (last.seconds or 0.0)
            gap = (first.at - last.at).total_seconds() - (first.seconds or 0.0)
            yield max(0.0, gap - idle) + again


def _steps(generation: Generation) -> "QuerySet[Progress]":
    return Progress.objects.filter(generation=generation)
