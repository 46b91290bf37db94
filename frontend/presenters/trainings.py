"""The training of a bid as its page shows it: state with reason, progress, generations and processes."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.models import User
from django.urls import reverse

from accounts.rights import operates
from auctions.models import Bid, BidState, Market
from cluster import clock
from execution.models import (
    OVER,
    Defect,
    Execution,
    Generation,
    Lease,
    Process,
    ProcessRole,
    Training,
    TrainingState,
)
from execution.readings import Held, training_of
from execution.records import newest_checkpoint
from execution.wanted import GOING, timeline
from frontend.figures import gantt
from frontend.presenters.states import TRAINING_LOOKS


def executor_runs() -> bool:
    """Return whether an executor is active."""
    return Lease.objects.filter(until__gt=clock.now().timestamp()).exists()


def mark(bid: Bid) -> tuple[object, ...]:
    """Return what changes when the training does."""
    training = Training.objects.filter(bid=bid).values_list("pk", "state", "reason", "step", "loss", "retries").first()
    failed = Defect.objects.filter(bid=bid).exists()
    if training is None:
        return bid.state, executor_runs(), failed
    mine = Generation.objects.filter(training=training[0])
    live = Process.objects.filter(generation__training=training[0]).order_by("pk")
    newest = live.filter(generation=mine.order_by("-number").values("pk")[:1])
    return (
        *(training, bid.state, executor_runs(), failed),
        tuple(mine.order_by("-number").values_list("number", "state")[:1]),
        tuple(newest.values_list("pk", "state", "code")),
    )


def context(market: Market, bid: Bid, chosen: str, viewer: User) -> dict[str, Any]:
    """Return the context of the section; `chosen` is the number of the generation whose processes are shown."""
    execution = Execution.objects.filter(cluster=market.cluster).first()
    program = bid.body.get("program")
    reading = training_of(bid)
    training = None if reading is None else reading.row
    number = int(chosen) if chosen.isdecimal() and len(chosen) < 9 else None
    shown: dict[str, Any] = {
        "market": market,
        "bid": bid,
        "training_section": execution is not None or program is not None,
        "training": training,
        "program": program,
        "training_query": "" if number is None else f"?{urlencode({'generation': number})}",
        "training_words": _words(execution, bid, training),
        "can_complete": training is not None and operates(viewer, bid.market.cluster) and bid.state == BidState.RUNNING,
    }
    if reading is None or training is None:
        return shown
    starts = reading.generations[::-1]
    first, _, rest = training.reason.partition("\n")
    return shown | {
        "training_look": TRAINING_LOOKS[TrainingState(training.state)],
        "reason": first,
        "last_lines": rest.strip(),
        "percent": reading.percent,
        "next_try_at": reading.next_try_at,
        "forecast": reading.forecast,
        "starts": [(one, _machines(one.machines)) for one in starts],
        "truncated": reading.truncated,
        "chosen": next((one for one in starts if one.row.number == number), next(iter(starts), None)),
        "rest": _rest(bid, training),
        "checkpoint": newest_checkpoint(training),
        "continues": reading.continues,
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
    if Defect.objects.filter(bid=bid).exists():
        return "The executor failed on this job and will try again. Operators find the cause on the page Execution."
    return "" if training is not None else "It waits for its machines: nothing was started yet."


def _rest(bid: Bid, training: Training) -> str:
    """Return the address of a form for the remaining steps; empty unless the job's promise ended before they did."""
    ended = training.state == TrainingState.STOPPED and bid.state == BidState.COMPLETED
    if not (ended and training.steps and training.step < training.steps):
        return ""
    query = urlencode({"from": bid.sequence, **({"continue": 1} if newest_checkpoint(training) else {})})
    return f"{reverse('submit', args=[bid.market.cluster.name])}?{query}"


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


def _machines(machines: Sequence[Held]) -> str:
    """Return the numbers of workers and parameter servers as text."""
    workers, ps = (sum(one.count for one in machines if one.role == role) for role in ProcessRole.values)
    more = f", {ps} parameter server{'s' * (ps != 1)}" if ps else ""
    return f"{workers} worker{'s' * (workers != 1)}{more}"
