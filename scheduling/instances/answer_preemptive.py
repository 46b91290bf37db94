"""Answers to instances of preemptive edge-cloud scheduling."""

from dataclasses import dataclass
from fractions import Fraction
from math import floor

from scheduling.instances.families import Options
from scheduling.instances.preemptive import PreemptiveInstance, read_preemptive
from scheduling.model.errors import InvalidField
from scheduling.model.types import Json
from scheduling.model.validation import check_fraction
from scheduling.preemptive.dispatch import Dispatch, dispatch
from scheduling.preemptive.queues import Queues
from scheduling.preemptive.record import Ran
from scheduling.preemptive.workers import LATEST


@dataclass(frozen=True)
class Results:
    """Results of an instance, by job in the order of the file; times in slots."""

    completion: tuple[Fraction | None, ...]
    """None for a job with nowhere to go."""
    dispatched: tuple[Dispatch | None, ...]
    ran: tuple[Ran, ...]


def answer(document: object, options: Options) -> Json:
    """Run the jobs of an instance; raises InvalidField naming a field or an option."""
    options.only("preemptive", "policy", "cloud", "storage", "ageing")
    if options.policy not in (None, "preemptive"):
        raise InvalidField("--policy", f"expected a policy for preemptive instances, got {options.policy}")
    instance = read_preemptive(document)
    ageing = Fraction(0) if options.ageing is None else check_fraction("--ageing", options.ageing)
    limited = options.storage == "limited"
    return to_document(instance, run(instance, options.cloud or "jobmax", limited=limited, ageing=ageing))


def run(instance: PreemptiveInstance, rule: str, *, limited: bool = False, ageing: Fraction = Fraction(0)) -> Results:
    """Dispatch jobs as they arrive and let all workers work to the end.

    `limited`: servers store what they can. `ageing`: rank added per slot of arrival, rounded down to a unit of time.
    """
    order = sorted(range(len(instance.bids)), key=lambda j: instance.bids[j].arrival)
    queues = Queues(instance.inventory, now=0, ticks=1)
    ran: list[Ran] = []
    found: dict[int, Dispatch | None] = {}
    done: dict[str, int] = {}
    for j in order:
        bid = instance.bids[j]
        ran.append(queues.advance(bid.arrival))
        done |= ran[-1].completed
        room = queues.room(bid) if limited else None
        task = queues.task(bid)
        usable = task is not None and task.worker == instance.types[j]
        handicap = min(LATEST, floor(ageing * bid.arrival))
        sent = dispatch(bid, queues, rule=rule, room=room, handicap=handicap) if usable else None
        found[j] = sent
        if sent is not None:
            sent.send(bid, queues)
    end = max((window.completion for window in queues.windows().values()), default=queues.now)
    ran.append(queues.advance(end))
    done |= ran[-1].completed
    ends = (done.get(bid.id) for bid in instance.bids)
    completion = tuple(None if end is None else Fraction(end, instance.scale) for end in ends)
    return Results(completion, tuple(found[j] for j in range(len(instance.bids))), tuple(ran))


def to_document(instance: PreemptiveInstance, results: Results) -> Json:
    """Return the result of each job, in the order of the file, in the result format of instance files."""
    rows, total = [], Fraction(0)
    for j, bid in enumerate(instance.bids):
        sent, end = results.dispatched[j], results.completion[j]
        took = None if end is None else end - Fraction(bid.arrival, instance.scale)
        total += took or 0
        rows.append(
            {
                "id": instance.ids[j],
                "completion": _shown(end),
                "jct": _shown(took),
                "dispatch": [] if sent is None else [instance.number(w) for w in sent.order.tolist()],
            }
        )
    preemptions = sum(len(ran.preemptions) for ran in results.ran)
    return {"jobs": rows, "total_jct": _shown(total), "preemptions": preemptions}


def _shown(number: Fraction | None) -> int | str | None:
    """A whole number, or an exact fraction such as "7/3"."""
    if number is None:
        return None
    return number.numerator if number.denominator == 1 else str(number)
