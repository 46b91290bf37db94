"""Forecasts: the time at which a running training is done at its present rate, beside the end of its promise."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite
from typing import Final

from django.db.models import QuerySet

from auctions.models import Bid, Commitment, Market
from execution.models import Generation, GenerationState, Progress, Training
from execution.wanted import Timeline, timeline

LEAST_STEPS: Final = 5
"""Steps below which a rate is not known."""
MOST_STEPS: Final = 200
"""Steps from which a rate is taken: the newest ones of the live generation."""
LONGEST_S: Final = 100 * 365 * 86_400.0
"""Longest time until the end of a training that is foreseen, seconds: calendars end, and a bid may state any steps."""
Stretch = tuple[float, float]
"""Slots [start, end) in which a bid holds machines."""


@dataclass(frozen=True)
class Forecast:
    """The time at which a training is done if it goes on as now, in the slots that its bid holds."""

    bid: int
    """Number of the bid."""
    step: int
    steps: int
    step_s: float
    """Present time from one step to the next, seconds on the wall clock."""
    done_slot: float
    promised_slot: float
    """End of the last slot that the bid holds."""
    done_at: datetime
    promised_at: datetime

    @property
    def late_slots(self) -> float:
        """Slots after the end of the promise at which it would be done; below 0 if it is done before."""
        return self.done_slot - self.promised_slot

    def __str__(self) -> str:
        side = "after" if self.late_slots > 0 else "before"
        return f"At this rate it is done {abs(self.late_slots):.1f} slots {side} the end of its promise."


def forecast_of(bid: Bid) -> Forecast | None:
    """Return the forecast of a bid; None if nothing runs, if its steps or its promise are unknown, or too early."""
    return next(_forecasts(bid.market, Generation.objects.filter(training__bid=bid)), None)


def late_ones(market: Market) -> list[Forecast]:
    """Return the forecasts of all trainings that run and will not be done in time, the latest first."""
    every = _forecasts(market, Generation.objects.filter(training__bid__market=market))
    return sorted((one for one in every if one.late_slots > 0), key=lambda one: (-one.late_slots, one.bid))


def _forecasts(market: Market, generations: "QuerySet[Generation]") -> Iterator[Forecast]:
    time = timeline(market.cluster)
    if not isfinite(time.slot_s):  # the clock stands
        return
    running = generations.filter(state=GenerationState.RUNNING, training__steps__isnull=False)
    rows = list(running.select_related("training__bid"))
    held: dict[int, list[Stretch]] = defaultdict(list)
    promised = Commitment.objects.filter(bid__in={row.training.bid_id for row in rows}, end__gt=time.at)
    for bid, start, end in promised.values_list("bid", "start", "end"):
        held[bid].append((start, end))
    for row in rows:
        points = Progress.objects.filter(generation=row).order_by("-step").values_list("step", "at")[:MOST_STEPS]
        step_s = pace([(step, at.timestamp()) for step, at in points])
        if step_s is not None and (mine := held.get(row.training.bid_id)):
            yield _forecast(row.training, time, step_s, merged(mine))


def _forecast(training: Training, time: Timeline, step_s: float, held: Sequence[Stretch]) -> Forecast:
    steps = training.steps or 0
    left_s = min(max(0, steps - training.step) * step_s, LONGEST_S)
    done, promised = done_at(left_s / time.slot_s, held, now=time.at), held[-1][1]
    return Forecast(
        bid=training.bid.sequence,
        step=training.step,
        steps=steps,
        step_s=step_s,
        done_slot=done,
        promised_slot=promised,
        done_at=datetime.fromtimestamp(time.wall(done), UTC),
        promised_at=datetime.fromtimestamp(time.wall(promised), UTC),
    )


def pace(points: Sequence[tuple[int, float]]) -> float | None:
    """Return seconds from one step to the next; None for too few steps.

    Parameters
    ----------
    points
        Steps, the newest first, each with the time at which the executor read it. It reads several at once, so the
        rate is that from the end of the first reading to the end of the last.
    """
    if not points:
        return None
    last, last_at = points[0]
    first_at = points[-1][1]
    first = next(step for step, at in points if at == first_at)
    return (last_at - first_at) / (last - first) if last - first >= LEAST_STEPS and last_at > first_at else None


def merged(stretches: Iterable[Stretch]) -> list[Stretch]:
    """Return the slots that at least one stretch has, in order."""
    found: list[Stretch] = []
    for start, end in sorted(stretches):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def done_at(left: float, held: Sequence[Stretch], *, now: float) -> float:
    """Return the slot, with a fraction, at which work is done that goes on only in these slots, and after the last one.

    Parameters
    ----------
    left
        Slots of work.
    """
    for start, end in held:
        begin = max(start, now)
        if left <= end - begin:
            return begin + left
        left -= max(0.0, end - begin)
    return max(held[-1][1], now) + left
