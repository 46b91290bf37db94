"""The training of a bid as its page shows it: state with reason, progress, generations and processes."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.models import User
from django.db.models import Max, Min
from django.urls import reverse

from auctions.models import Bid, BidState, Commitment, Market
from cluster import clock
from cluster.operators import is_operator
from execution.models import (
    OVER,
    Checkpoint,
    Execution,
    Generation,
    GenerationState,
    Lease,
    Process,
    ProcessRole,
    Progress,
    Training,
    TrainingState,
)
from execution.wanted import GOING, timeline
from frontend.figures import gantt
from frontend.presenters.states import TRAINING_LOOKS

NEWEST = 30
"""Generations that the page shows at most."""


@dataclass(frozen=True)
class Start:
    """One generation, as a row of the table."""

    generation: Generation
    machines: str
    resumed: int | None
    """Step of the checkpoint that it resumed from; None if it began at the start."""
    pause_s: float | None
    """Seconds in which nothing of the job ran before it."""
    again: int | None
    """Steps that had been done before, and that it has to do again."""
    ending: str


def executor_runs() -> bool:
    """Return whether an executor is active."""
    return Lease.objects.filter(until__gt=clock.now().timestamp()).exists()


def mark(bid: Bid) -> tuple[object, ...]:
    """Return what changes when the training does."""
    training = Training.objects.filter(bid=bid).values_list("pk", "state", "reason", "step", "loss", "retries").first()
    if training is None:
        return bid.state, executor_runs()
    mine = Generation.objects.filter(training=training[0])
    live = Process.objects.filter(generation__training=training[0]).order_by("pk")
    newest = live.filter(generation=mine.order_by("-number").values("pk")[:1])
    return (
        *(training, bid.state, executor_runs()),
        tuple(mine.order_by("-number").values_list("number", "state")[:1]),
        tuple(newest.values_list("pk", "state", "code")),
    )


def context(market: Market, bid: Bid, chosen: str, viewer: User) -> dict[str, Any]:
    """Return the context of the section; `chosen` is the number of the generation whose processes are shown."""
    execution = Execution.objects.filter(cluster=market.cluster).first()
    program = bid.body.get("program")
    training = Training.objects.filter(bid=bid).select_related("program").first()
    number = int(chosen) if chosen.isdecimal() and len(chosen) < 9 else None
    shown: dict[str, Any] = {
        "market": market,
        "bid": bid,
        "training_section": execution is not None or program is not None,
        "training": training,
        "program": program,
        "training_query": "" if number is None else f"?{urlencode({'generation': number})}",
        "training_words": _words(execution, bid, training),
        "can_complete": training is not None and is_operator(viewer) and bid.state == BidState.RUNNING,
    }
    if training is None:
        return shown
    generations = list(
        Generation.objects.filter(training=training).select_related("resumed_from").order_by("-number")[: NEWEST + 1]
    )
    if number not in [one.number for one in generations]:
        number = generations[0].number if generations else None
    shown_now = [one for one in generations if one.number == number]
    processes = Process.objects.filter(generation__in=shown_now)
    first, _, rest = training.reason.partition("\n")
    return shown | {
        "training_look": TRAINING_LOOKS[TrainingState(training.state)],
        "reason": first,
        "last_lines": rest.strip(),
        "percent": _percent(training),
        "foreseen": _foreseen(market, bid, training),
        "starts": starts(generations),
        "more": len(generations) > NEWEST,
        "chosen": number,
        "processes": processes.select_related("server", "machine_type").order_by("-role", "rank"),
        "rest": _rest(bid, training),
        "checkpoint": Checkpoint.objects.filter(generation__training=training).order_by("-step", "-pk").first(),
    }


def _words(execution: Execution | None, bid: Bid, training: Training | None) -> str:
    """Return why nothing runs, or will run, for a bid; empty if something does."""
    if bid.body.get("program") is None:
        return "This bid names no program, so nothing runs for it."
    if training is not None and training.state in OVER:
        return ""
    if execution is None or not execution.is_on:
        return "This cluster does not execute jobs at present: nothing is started."
    if training is None and bid.state not in (*GOING, BidState.SUBMITTED, BidState.STANDING):
        return "Nothing was started for this bid."
    if not executor_runs():
        return "No executor is active: nothing is started until an operator starts one (manage.py execute)."
    return "" if training is not None else "It waits for its machines: nothing was started yet."


def _percent(training: Training) -> int | None:
    """Return the share of the steps that are done, rounded down; None if the bid states no steps."""
    return min(100, 100 * training.step // training.steps) if training.steps else None


def _rest(bid: Bid, training: Training) -> str:
    """Return the address of a form for the remaining steps; empty unless the job's promise ended before they did."""
    if training.state != TrainingState.STOPPED or bid.state != BidState.COMPLETED or not training.steps:
        return ""
    left = training.steps - training.step
    query = urlencode({"from": bid.sequence, "steps": left})
    return f"{reverse('submit', args=[bid.market.cluster.name])}?{query}" if left > 0 else ""


def _foreseen(market: Market, bid: Bid, training: Training) -> str:
    """Return when the training will be done at its present rate, beside the end of its promise; empty if unknown."""
    live = Generation.objects.filter(training=training, state=GenerationState.RUNNING).first()
    end = Commitment.objects.filter(bid=bid).aggregate(end=Max("end"))["end"]
    if live is None or not training.steps or end is None:
        return ""
    seen = Progress.objects.filter(generation=live)
    first, last = seen.order_by("step").first(), seen.order_by("-step").first()
    time = timeline(market.cluster)
    if first is None or last is None or last.at <= first.at or time.slot_s == float("inf"):
        return ""
    step_s = (last.at - first.at).total_seconds() / (last.step - first.step)
    late_s = time.now_s + (training.steps - last.step) * step_s - time.wall(end)
    slots = abs(late_s) / time.slot_s
    return f"At this rate it is done {slots:.1f} slots {'after' if late_s > 0 else 'before'} the end of its promise."


def spans(bid: Bid, who: str) -> list[gantt.Span]:
    """Return what ran for a bid, and when, by the cluster's clock; one span for each kind of machine of a server."""
    rows = Process.objects.filter(generation__training__bid=bid, started_slot__isnull=False)
    kinds: dict[tuple[int, str, str, bool], list[tuple[float, float]]] = defaultdict(list)
    columns = ("generation__number", "server__name", "machine_type__name", "role", "started_slot", "ended_slot")
    now = timeline(bid.market.cluster).at
    for number, server, machine, role, start, end in rows.values_list(*columns):
        kinds[number, server, machine, role == ProcessRole.PS].append((start, now if end is None else end))
    return [
        gantt.Span(
            f"{server} · {machine}",
            f"{who}, generation {number}",
            "ran",
            machine,
            is_ps,
            len(times),
            min(start for start, _ in times),
            max(end for _, end in times),
        )
        for (number, server, machine, is_ps), times in kinds.items()
    ]


def starts(newest: Sequence[Generation]) -> list[Start]:
    """Return rows of generations that follow one another, the newest first, with what each restart cost."""
    of = Process.objects.filter(generation__in=newest).order_by()
    begun = dict(of.values_list("generation").annotate(Min("started_at")))
    reported = Progress.objects.filter(generation__in=newest).order_by()
    steps = dict(reported.values_list("generation").annotate(Max("step")))
    machines = _machines(newest)
    rows = []
    for i, one in enumerate(newest[:NEWEST]):
        last = newest[i + 1] if i + 1 < len(newest) else None
        resumed = None if one.resumed_from is None else one.resumed_from.step
        rows.append(
            Start(
                one,
                machines.get(one.pk, ""),
                resumed,
                None if last is None else _seconds(last.stopped_at or last.ended_at, begun.get(one.pk)),
                None if last is None else max(0, steps.get(last.pk, 0) - (resumed or 0)),
                one.get_ending_display() if one.ending else "",
            )
        )
    return rows


def _seconds(begin: datetime | None, end: datetime | None) -> float | None:
    return None if begin is None or end is None else max(0.0, (end - begin).total_seconds())


def _machines(generations: Sequence[Generation]) -> dict[int, str]:
    """Return the numbers of workers and parameter servers of each generation as text."""
    words = {}
    for one in generations:
        count = dict.fromkeys(ProcessRole.values, 0)
        for role, _, _, number in one.allocation:
            count[role] += number
        ps = f", {count['ps']} parameter server{'s' * (count['ps'] != 1)}" if count["ps"] else ""
        words[one.pk] = f"{count['worker']} worker{'s' * (count['worker'] != 1)}{ps}"
    return words
