"""The trainings of a market as the executor knows them: it reads only rows that may have changed.

Trainings, generations and processes are written under the fence of the active executor, and what is written is also
set in its objects. So what was read holds as long as the fence, unless a loop ended with an error: then all is read
again. The market changes bids at any time, so their states are read in each loop.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from django.db.models import Q, QuerySet

from auctions.models import BidState, Market
from cluster.database.prepared import Prepared
from execution.engines.base import Phase, Seen
from execution.models import OVER, Generation, GenerationState, Process, ProcessState, Training
from execution.steps import Allocation, Job, Live, Machines, Observed, Wanted, merged
from execution.wanted import GOING

MANY: Final = 500
"""If more trainings than these have to be read, all are read."""
_LARGE: Final = ("bid__body", "bid__resolved_request", "bid__core_bid")
"""Documents of bids, which take long to read and are rarely needed."""
_PHASES: Final[Mapping[str, Phase]] = {
    ProcessState.RUNNING: Phase.RUNNING,
    ProcessState.EXITED: Phase.EXITED,
    ProcessState.LOST: Phase.LOST,
}


@dataclass
class Work:
    """A training with its live generation, if it has one, and the processes of that."""

    training: Training
    generation: Generation | None
    processes: list[Process]

    def job(self, wanted: Wanted | None, seen: Mapping[str, Seen], *, switched_off: bool) -> Job:
        """Return it as `next_steps` compares it with what is wanted."""
        return Job(
            name=self.training.pk,
            wanted=wanted,
            live=None if self.generation is None else _live(self.generation, self.processes, seen),
            wait_until=self.training.wait_until,
            over=self.training.state in OVER,
            cancelled=self.training.bid.state in (BidState.CANCELLED, BidState.FAILED),
            switched_off=switched_off,
        )

    def occupied(self, seen: Mapping[str, Seen]) -> Allocation:
        """Return the machines on which the engine sees something of it, whatever else its rows say."""
        return merged(
            Machines(one.role, one.server_id, one.machine_type_id, 1)
            for one in self.processes
            if one.key in seen and seen[one.key].phase not in (Phase.EXITED, Phase.LOST)
        )


class Works:
    """The trainings of markets that may need something.

    A training that is over still needs something while a generation lives, or while its bid holds machines.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, dict[int, Work]]] = {}
        """The fence under which they were read, and the trainings by key, by key of the market."""

    def take(self, fence: int, market: Market) -> list[Work]:
        """Return the trainings of a market; unless they are kept afterwards, they are read again next time."""
        before, known = self._known.pop(market.pk, (fence, {}))
        if before != fence:
            known = {}
        rows = _STATES(market.pk)
        changed = {pk for pk, state, bid_state in rows if not _is_known(known.get(pk), state, bid_state)}
        if changed:
            known |= _read(market, changed)
        return [known[pk] for pk, _, _ in rows if pk in known]

    def keep(self, fence: int, market: Market, works: Collection[Work]) -> None:
        """Keep what `take` has returned, which is still what the rows say."""
        self._known[market.pk] = fence, {work.training.pk: work for work in works}


def _is_known(work: Work | None, state: str, bid_state: str) -> bool:
    return work is not None and work.training.state == state and work.training.bid.state == bid_state


def _live_generations(market: Market | int) -> QuerySet[Generation]:
    return Generation.objects.exclude(state=GenerationState.ENDED).filter(training__bid__market=market)


def _needing(market: Market | int) -> QuerySet[Training]:
    rows = Training.objects.filter(bid__market=market)
    live = _live_generations(market).values("training")
    return rows.filter(Q(bid__state__in=GOING) | ~Q(state__in=OVER) | Q(pk__in=live))


_STATES = Prepared(
    lambda market: _needing(market).order_by("bid__sequence").values_list("pk", "state", "bid__state"), int
)


def _read(market: Market, trainings: Collection[int]) -> dict[int, Work]:
    """Return these trainings by key, and maybe more, in three queries."""
    rows, live = _needing(market), _live_generations(market)
    if len(trainings) <= MANY:
        rows, live = rows.filter(pk__in=trainings), live.filter(training__in=trainings)
    generations = {one.training_id: one for one in live.select_related("resumed_from")}
    processes: dict[int, list[Process]] = defaultdict(list)
    for process in Process.objects.filter(generation__in=live).order_by("-role", "rank"):
        processes[process.generation_id].append(process)
    works = {}
    for training in rows.select_related("bid").defer(*_LARGE):
        training.bid.market = market
        generation = generations.get(training.pk)
        works[training.pk] = Work(training, generation, [] if generation is None else processes[generation.pk])
    return works


def _live(generation: Generation, processes: Collection[Process], seen: Mapping[str, Seen]) -> Live:
    return Live(
        allocation=tuple(Machines(*row) for row in generation.allocation),
        state=generation.state,
        until=generation.until,
        processes=tuple(_observed(process, seen) for process in processes),
        ending=generation.ending,
        stopped=0.0 if generation.stopped_at is None else generation.stopped_at.timestamp(),
    )


def _observed(process: Process, seen: Mapping[str, Seen]) -> Observed:
    """Return a process as its row says, which is what was seen, or unknown if it has not been seen yet."""
    phase = _PHASES.get(process.state)
    if phase is None and process.key in seen:
        phase = seen[process.key].phase
    return Observed(process.key, process.role, phase, process.code)
