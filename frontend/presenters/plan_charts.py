"""Charts of a plan of split learning that the address changes: the helpers drawn, and the noise of times."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from frontend.figures import plan_gantt, plan_noise
from frontend.figures.base import Drawing
from scheduling.model.errors import InvalidField
from studies.models import Plan, share_above
from studies.split_learning.plans import readings
from studies.split_learning.plans.noise import KINDS, SPREAD, Draws, Noise, noise_of
from studies.split_learning.plans.readings import NothingYet

SPREADS: Final = ("0", "0.05", "0.1", "0.2", "0.3", "0.5")

Query = Mapping[str, str]
"""Parameters in the address."""


def gantt(plan: Plan, query: Query) -> Drawing:
    """Return the Gantt chart from the helper on that the address states."""
    pieces, helpers, makespan = readings.pieces_of(plan), readings.names(plan)[0], plan.makespan or 0
    none = "There is no plan to be drawn yet." if plan.result is None else "No pass takes a slot."
    return plan_gantt.figure(
        pieces, helpers, makespan=makespan, slot_ms=plan.slot_ms, first=_first_helper(query), none=none
    )


def gantt_choices(plan: Plan, query: Query) -> list[tuple[int, int, bool]]:
    """First and last helper of each drawing and whether it is chosen; none if one has all."""
    starts = plan_gantt.pages(readings.pieces_of(plan), readings.names(plan)[0])
    if len(starts) < 2:
        return []
    chosen = max((start for start in starts if start <= _first_helper(query)), default=0)
    return [(a + 1, b, a == chosen) for a, b in pairwise([*starts, plan.helpers])]


def _first_helper(query: Query) -> int:
    """The first helper to be drawn, 0 without or for an address that says none."""
    text = query.get("from", "")
    return int(text) - 1 if text.isascii() and text.isdigit() and len(text) <= 6 and int(text) else 0


@dataclass(frozen=True)
class HelperNoise:
    """One kind of helpers in the table of noise."""

    name: str
    mean: float
    worst: int
    above: float | None
    """The mean above what was planned, a share of it; negative if it is below."""


def spread_choices(query: Query) -> list[tuple[str, str, bool]]:
    """Value, words and whether it is chosen; what the address says is there as well."""
    chosen = query.get("spread", str(SPREAD))[:20]
    values = SPREADS if chosen in SPREADS else (*SPREADS, chosen)
    return [(value, _percent(value), value == chosen) for value in values]


def noise(plan: Plan, query: Query) -> Drawing:
    """Mean and worst makespans under noise."""
    found, problem = drawn(plan, query)
    if found is None:
        return plan_noise.figure([], planned=0, slot_ms=plan.slot_ms, note=problem)
    spans = {kind: found.makespans(kind) for kind in KINDS}
    bars = [
        plan_noise.Bar(plan_noise.NAMES[kind], row.mean, row.worst, plan_noise.COLOURS[kind])
        for kind, row in spans.items()
    ]
    draws = found.parameters
    note = (
        f"{draws.count} draws, seed {draws.seed}: each time of a pass or link is multiplied by a factor of its own, up"
        f" to {_percent(str(draws.spread))} more or less. The assignment stays; the dotted line was planned."
    )
    return plan_noise.figure(bars, planned=found.planned, slot_ms=plan.slot_ms, note=note)


def noise_rows(found: Noise | None) -> list[HelperNoise]:
    """The table below the chart; empty without a plan."""
    if found is None:
        return []
    spans = {kind: found.makespans(kind) for kind in KINDS}
    return [
        HelperNoise(plan_noise.NAMES[kind], row.mean, row.worst, share_above(row.mean, found.planned))
        for kind, row in spans.items()
    ]


def drawn(plan: Plan, query: Query) -> tuple[Noise | None, str]:
    """Return the result, or the reason why there is none."""
    try:
        return noise_of(plan, Draws.of_query(plan, query)), ""
    except NothingYet:
        return None, "There is no plan to be disturbed yet."
    except InvalidField as error:
        return None, f"The address asks for what cannot be drawn: {error}."


def _percent(share: str) -> str:
    try:
        return f"{100 * float(share):.4g} %"
    except ValueError:
        return share
