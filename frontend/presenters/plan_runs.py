"""Runs of a plan as its page shows them: their rows, and the batch that is drawn."""

from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import QuerySet

from frontend.figures import plan_run
from frontend.figures.base import Drawing
from frontend.presenters.states import PLAN_RUN_LOOKS, Look
from studies.background import states
from studies.background.models import JobState
from studies.job_tables import PLAN_RUNS
from studies.models import Plan, PlanRun
from studies.split_learning.plans.readings import names
from studies.split_learning.plans.readings import pieces_of as planned_pieces
from studies.split_learning.runs import readings

MOST_ROWS = 20
"""Runs in the table of the page; REST has all."""

Query = Mapping[str, str]


@dataclass(frozen=True)
class RunRow:
    """A run in the table of a plan's page."""

    run: PlanRun
    look: Look
    place: int | None
    """Its place in the queue; None unless it is queued."""
    planned_s: float
    measured_s: float | None
    """Mean of the measured makespans, seconds; None before it is completed, as are the next fields."""
    longer: float | None
    first_loss: float | None
    last_loss: float | None


def rows_of(plan: Plan) -> list[RunRow]:
    """Return the newest runs of a plan."""
    return [_row(run) for run in _runs(plan).defer(*readings.LARGE)[:MOST_ROWS]]


def _runs(plan: Plan) -> "QuerySet[PlanRun]":
    return PlanRun.objects.filter(plan=plan).select_related("owner", "cluster", "plan").order_by("-pk")


def _row(run: PlanRun) -> RunRow:
    batches, planned = readings.batches_of(run), readings.planned_s(run)
    figures: tuple[float | None, ...] = (None,) * 4
    if batches:
        measured = sum(batch.measured_s for batch in batches) / len(batches)
        figures = measured, measured / planned - 1, batches[0].mean_loss, batches[-1].mean_loss
    look, place = PLAN_RUN_LOOKS[JobState(run.state)], states.place_of_row(PLAN_RUNS, run)
    return RunRow(run, look, place, planned, *figures)


def chosen(plan: Plan, query: Query) -> tuple[PlanRun | None, int]:
    """Return the run and the batch that the address says; by default the newest completed run and its last batch."""
    done = _runs(plan).filter(state=JobState.COMPLETED)
    number, batch = (_number(query.get(name, "")) for name in ("run", "batch"))
    run = done.filter(pk=number).first() if number is not None else None
    run = run or done.first()
    if run is None:
        return None, 0
    return run, min(run.batches - 1, run.batches - 1 if batch is None else batch)


def choices(plan: Plan, query: Query) -> tuple[list[tuple[int, bool]], list[tuple[int, bool]]]:
    """Return completed runs and the batches of the chosen one, and whether each is chosen."""
    run, batch = chosen(plan, query)
    if run is None:
        return [], []
    runs = _runs(plan).filter(state=JobState.COMPLETED).values_list("pk", flat=True)[:MOST_ROWS]
    return [(pk, pk == run.pk) for pk in runs], [(n, n == batch) for n in range(run.batches)]


def drawing(plan: Plan, query: Query) -> Drawing:
    """Return the chart of planned and measured passes."""
    run, batch = chosen(plan, query)
    if run is None:
        note = "No run of this plan is completed yet."
        return plan_run.figure([], [], [], ends=(0, 0), slot_ms=0, note=note)
    one = readings.batches_of(run)[batch]
    note = (
        f"Batch {batch} of run {run.pk}: planned {one.planned_s:.3f} s (outlined, dotted line), measured"
        f" {one.measured_s:.3f} s (solid)."
    )
    return plan_run.figure(
        planned_pieces(plan),
        readings.pieces_of(run, batch),
        names(plan)[0],
        ends=(one.planned_s / run.slot_s, one.measured_s / run.slot_s),
        slot_ms=run.slot_s * 1000,
        note=note,
    )


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None
