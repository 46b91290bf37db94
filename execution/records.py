"""Rows of execution: only this module writes the states of trainings, generations and processes.

    training: waiting <-> running -> finished | stopped | failed
    generation: running -> stopping -> ended
    process: sent -> running -> exited | lost

Each function writes under the fence of the active executor, and before the engine is called: so an executor that was
killed leaves at most a call that has to be repeated.
"""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Final, NamedTuple

from django.db import transaction
from django.db.models import Max

from auctions.domain.errors import WrongState
from auctions.models import Bid
from cluster import clock
from cluster.database.updating import update_rows
from execution import thinning
from execution.dead_processes import FAILURES, after_failure
from execution.engines.base import Phase, Seen
from execution.lease import fenced
from execution.models import (
    OVER,
    Checkpoint,
    Ending,
    Generation,
    GenerationState,
    Process,
    ProcessState,
    Program,
    Progress,
    Training,
    TrainingState,
)
from execution.places import MOST_CHECKPOINTS, JobFiles, Point, checkpoints_in
from execution.steps import Wanted
from execution.thinning import Stored, thin, thinned
from execution.wanted import Timeline
from scheduling.model.types import Json

_STATES: Final[Mapping[Phase, ProcessState]] = {
    Phase.RUNNING: ProcessState.RUNNING,
    Phase.EXITED: ProcessState.EXITED,
    Phase.LOST: ProcessState.LOST,
}


class Report(NamedTuple):
    """Steps that a generation reported."""

    training: Training
    generation: Generation
    points: Collection[Point]


def create_training(fence: int, bid: Bid, program: Program, document: Json, starts_from: Checkpoint | None) -> Training:
    """Create the training of a bid that names a program, unless it exists."""
    fields: dict[str, object] = {"program": program, "arguments": document.get("arguments", [])}
    fields |= {"steps": document.get("steps"), "starts_from": starts_from}
    if starts_from is not None:
        fields["step"] = starts_from.step
    with fenced(fence):
        training, _ = Training.objects.get_or_create(bid=bid, defaults=fields)
    return training


def begin(fence: int, training: Training, wanted: Wanted, *, slot: int) -> Generation:
    """Create the next generation of a training with its processes; they are launched afterwards."""
    with fenced(fence):
        last = Generation.objects.filter(training=training).order_by("-number").first()
        generation = Generation.objects.create(
            training=training,
            number=0 if last is None else last.number + 1,
            fence=fence,
            allocation=[list(machines) for machines in wanted.allocation],
            slot=slot,
            resumed_from=newest_checkpoint(training) or training.starts_from,
            until=wanted.until,
            created_at=clock.now(),
        )
        Process.objects.bulk_create(_processes(generation, wanted))
        _set(training, TrainingState.RUNNING)
    return generation


def _processes(generation: Generation, wanted: Wanted) -> Iterable[Process]:
    """Yield the processes of a generation, numbered in the order of its machines."""
    ranks: dict[str, int] = {}
    local: dict[int, int] = {}
    for role, server, machine, count in wanted.allocation:
        for _ in range(count):
            rank = ranks[role] = ranks.get(role, -1) + 1
            here = local[server] = local.get(server, -1) + 1
            yield Process(
                generation=generation,
                role=role,
                rank=rank,
                local_rank=here,
                server_id=server,
                machine_type_id=machine,
                key=f"{generation.training.token.hex[:12]}-g{generation.number}-{role[0]}{rank}",
            )


def newest_checkpoint(training: Training) -> Checkpoint | None:
    """Return the checkpoint of the greatest step; None if there is none, or all were deleted."""
    kept = Checkpoint.objects.filter(generation__training=training, deleted_at=None)
    return kept.order_by("-step", "-pk").first()


def forget_checkpoints(fence: int, generation: Generation) -> None:
    """Record that the checkpoints of a generation are deleted, so that nothing resumes from them."""
    with fenced(fence):
        Checkpoint.objects.filter(generation=generation, deleted_at=None).update(deleted_at=clock.now())


def _forget_removed(training: Training) -> None:
    """Record which checkpoints a program has deleted itself, from the newest to the first one that is there.

    Where their whole directory is missing a disk may be away, and they count.
    """
    kept = Checkpoint.objects.filter(generation__training=training, deleted_at=None)
    gone = takewhile(_is_removed, kept.order_by("-step", "-pk"))
    kept.filter(pk__in=[one.pk for one in gone]).update(deleted_at=clock.now())


def _is_removed(checkpoint: Checkpoint) -> bool:
    path = Path(checkpoint.path)
    return path.parent.is_dir() and not os.path.lexists(path)


def note_refusal(fence: int, process: Process, problem: str) -> None:
    """Record why a process could not be started so far."""
    with fenced(fence):
        Process.objects.filter(pk=process.pk, state=ProcessState.SENT).update(reason=problem)
    process.reason = problem


def observe(fence: int, process: Process, seen: Seen | None, time: Timeline) -> None:
    """Record what an engine sees of a process, once for each change; a running process that is unknown is lost."""
    if seen is None:
        if process.state == ProcessState.SENT:
            return
        seen = Seen(process.key, Phase.LOST, reason="The engine does not know it any more.")
    state = _STATES.get(seen.phase)
    if state is None or state == process.state or process.state in (ProcessState.EXITED, ProcessState.LOST):
        return
    fields: dict[str, object] = {"state": state, "reason": seen.reason, "code": seen.code}
    if seen.started_s is not None:
        fields |= {"started_at": _moment(seen.started_s), "started_slot": time.slot_at(seen.started_s)}
    if state != ProcessState.RUNNING:
        ended_s = time.now_s if seen.ended_s is None else seen.ended_s
        fields |= {"ended_at": _moment(ended_s), "ended_slot": time.slot_at(ended_s)}
    with fenced(fence):
        if not Process.objects.filter(pk=process.pk, state=process.state).update(**fields):
            return
    for name, value in fields.items():
        setattr(process, name, value)


def hold(fence: int, generation: Generation, until: float) -> None:
    """Record the time until which a generation may run."""
    with fenced(fence):
        generation.until = until
        generation.save(update_fields=["until"])


def stop(fence: int, generation: Generation, ending: Ending) -> None:
    """Record that a generation has to end, and why; the first reason stays."""
    if generation.state != GenerationState.RUNNING:
        return
    with fenced(fence):
        stopping = {"state": GenerationState.STOPPING, "ending": ending, "stopped_at": clock.now()}
        Generation.objects.filter(pk=generation.pk, state=GenerationState.RUNNING).update(**stopping)
    generation.refresh_from_db()


def end(fence: int, training: Training, generation: Generation, *, now: float, reason: str) -> None:
    """Record that nothing of a generation is left, and what follows for its training."""
    keep_checkpoints(fence, [(training, generation)])
    ending = Ending(generation.ending)
    with fenced(fence):
        done = Generation.objects.filter(pk=generation.pk, state=GenerationState.STOPPING)
        if not done.update(state=GenerationState.ENDED, ended_at=clock.now()):
            return
        Process.objects.filter(generation=generation, state=ProcessState.SENT).update(
            state=ProcessState.LOST, reason="It was never started.", ended_at=clock.now()
        )
        _forget_removed(training)
        if ending == Ending.FINISHED:
            _set(training, TrainingState.FINISHED, "The program finished.")
        elif ending in FAILURES:
            _count_failure(training, generation, now=now, reason=reason)
        elif ending == Ending.PROMISE_OVER and reason:  # it may hold nothing more, so no later start says it
            _set(training, TrainingState.WAITING, f"{ending.label}. {reason}")
        else:
            _set(training, TrainingState.WAITING, ending.label)


def _count_failure(training: Training, generation: Generation, *, now: float, reason: str) -> None:
    retry = after_failure(training.retries, has_newer_step=generation.checkpoints.exists(), now=now)
    training.retries, training.wait_until = retry.failures, retry.wait_until
    _set(training, TrainingState.FAILED if retry.is_over else TrainingState.WAITING, reason)


def finish(fence: int, training: Training, state: TrainingState, reason: str) -> None:
    """Record that nothing more is started for a training."""
    with fenced(fence):
        _set(training, state, reason)


def _set(training: Training, state: TrainingState, reason: str = "") -> None:
    left = Training.objects.filter(pk=training.pk).exclude(state__in=OVER)
    fields = {"state": state, "reason": reason, "retries": training.retries, "wait_until": training.wait_until}
    if left.update(**fields):
        training.state, training.reason = state, reason


def keep_checkpoints(fence: int, live: Iterable[tuple[Training, Generation]]) -> None:
    """Record the whole checkpoints of live generations that are newer than those known."""
    found = [(*one, checkpoints_in(files_of(one[0]).checkpoints(one[1].number))) for one in live]
    found = [one for one in found if one[2]]
    if not found:
        return
    newest = _newest_steps([training for training, _, _ in found])
    fresh = [
        Checkpoint(generation=generation, step=step, path=str(path), found_at=clock.now())
        for training, generation, checkpoints in found
        for step, path in checkpoints
        if step > newest[training.pk]
    ]
    if fresh:
        with fenced(fence):
            Checkpoint.objects.bulk_create(fresh, ignore_conflicts=True)
            for generation in {one.generation_id for one in fresh}:
                _forget_oldest(generation)


def _forget_oldest(generation: int) -> None:
    """Delete the rows of all but the newest checkpoints of a generation; one from which something resumed is kept."""
    rows = Checkpoint.objects.filter(generation=generation)
    older = rows.order_by("-step").values_list("pk", flat=True)[MOST_CHECKPOINTS:]
    rows.filter(pk__in=list(older), resumed=None, continued=None).delete()


def _newest_steps(trainings: Sequence[Training]) -> dict[int, int]:
    """Return the step of the newest checkpoint of each training, or of the one from which it started; -1 without."""
    kept = Checkpoint.objects.filter(generation__training__in=trainings, deleted_at=None).order_by()
    newest = dict(kept.values_list("generation__training").annotate(Max("step")))
    for training in trainings:
        if training.pk not in newest:
            newest[training.pk] = -1 if training.starts_from is None else training.starts_from.step
    return newest


def last_step(generation: Generation) -> int:
    """Return the greatest step that a generation has reported, as far as it is recorded; -1 if there is none."""
    last = Progress.objects.filter(generation=generation).aggregate(Max("step"))["step__max"]
    return -1 if last is None else last


def keep_progress(fence: int, reports: Iterable[Report]) -> None:
    """Record steps that generations reported, all in one transaction."""
    with fenced(fence):
        _keep(reports)


def report(generation: Generation, points: Collection[Point]) -> Generation:
    """Record steps that a program reported by itself; they change neither a state nor anything of the market.

    Raises
    ------
    WrongState
        If the generation has ended: what it reports then may be older than what a later one reported.
    """
    with transaction.atomic():
        held = Generation.objects.select_for_update(of=("self",)).select_related("training").get(pk=generation.pk)
        if held.state == GenerationState.ENDED:
            raise WrongState("This generation of the training has ended.")
        # The executor adds what it reads from the file to a number that it has read before.
        held.training.stored_steps = Progress.objects.filter(generation__training=held.training_id).count()
        _keep([Report(held.training, held, points)])
    return held


def thinned_points(generation: Generation, points: Iterable[Point]) -> list[Point]:
    """Return those of the steps that a generation reported which are stored at most, in their order."""
    of = {point.step: point for point in points}
    return [of[step] for _, step, _ in thinned([Stored(generation.number, step) for step in sorted(of)])]


def _keep(reports: Iterable[Report]) -> None:
    at, rows, trainings = clock.now(), [], []
    reports = list(reports)
    # Programs may have reported by HTTP since these trainings were read.
    stored = Training.objects.filter(pk__in=[one.training.pk for one in reports]).values_list("pk", "step", "loss")
    known = {key: (step, loss) for key, step, loss in stored}
    for training, generation, points in reports:
        steps = thinned_points(generation, points)
        rows += [
            Progress(generation=generation, step=one.step, loss=one.loss, seconds=one.seconds, at=at) for one in steps
        ]
        if steps:
            training.step, training.loss = known[training.pk]
            if rows[-1].step >= training.step or rows[-1].step >= last_step(generation):  # else the report is late
                training.step, training.loss = rows[-1].step, rows[-1].loss
            training.stored_steps += len(steps)
            trainings.append(training)
    Progress.objects.bulk_create(rows, ignore_conflicts=True)
    update_rows(trainings, ["step", "loss", "stored_steps"])
    for training in trainings:
        if training.stored_steps > thinning.MOST_STEPS + thinning.SLACK:
            training.stored_steps = thin(training)
            training.save(update_fields=["stored_steps"])


def files_of(training: Training) -> JobFiles:
    """Return the directories of a training."""
    return JobFiles(training.bid.market.cluster.name, training.token)


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
