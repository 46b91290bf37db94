"""The executor: about once a second it compares what runs with what the market's commitments say, and closes the gap.

What it needs is in the database and in the engine's files. If it is killed, jobs run on, and the next executor goes on
from there: a row is written before each call of an engine, and each call may be repeated.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import time
from typing import Final

from auctions.domain.errors import WrongState
from auctions.domain.refunds import Refund
from auctions.engine import jobs as market_jobs
from auctions.kernels import warming
from auctions.models import Bid, BidState, Market
from auctions.state.market_snapshot import market_snapshot, one_version
from execution import lease, programs, records
from execution.engines.base import Engine, Phase, Seen
from execution.engines.local import LocalEngine
from execution.engines.slurm import SlurmEngine
from execution.housekeeping import Housekeeping
from execution.launching import Launcher
from execution.lease import Fenced
from execution.logs import shown
from execution.models import (
    OVER,
    EngineKind,
    Execution,
    Generation,
    Process,
    ProcessState,
    Training,
    TrainingState,
)
from execution.places import ProgressFile, engine_root
from execution.records import Report
from execution.steps import Begin, Demands, End, Hold, Kill, Launch, Step, Stop, Wanted
from execution.steps import next_steps as next_steps_of
from execution.wanted import GOING, Holdings, Timeline, timeline
from execution.works import Work, Works

LAST_LINES: Final = 20
"""Lines of output that are the reason of a failure."""
LAST_BYTES: Final = 4_000
UNLIMITED: Final = 2**62
"""More units of a resource than all jobs together take."""
POINTS_AT_ONCE: Final = 20_000
"""Reported steps after which a transaction ends, and the next ones come into another."""

log = logging.getLogger(__name__)

Engines = Callable[[Execution], Engine]


@dataclass(frozen=True)
class Room:
    """Capacity of the servers of a cluster, and what machines take of it."""

    capacity: Mapping[int, Sequence[int]]
    """Units of each resource, by key of the server."""
    demands: Demands


class Executor:
    """One executor; `once` does what there is to do now.

    Parameters
    ----------
    holder
        Name of this process, different for each start.
    engines
        Makes the engine of a cluster.
    now
        Returns seconds since 1970.
    """

    def __init__(self, holder: str, engines: Engines, now: Callable[[], float] = time) -> None:
        self._holder = holder
        self._make = engines
        self._now = now
        self._engines: dict[tuple[int, str], Engine] = {}
        self._files: dict[int, ProgressFile] = {}
        """The progress file of each live generation; it is read from the start again if it is unknown."""
        self._fence = 0
        self._works, self._holdings = Works(), Holdings()
        self._launcher, self._housekeeping = Launcher(), Housekeeping()

    def once(self) -> bool:
        """Do what there is to do now for all clusters; return whether this executor is active."""
        fence = lease.take(self._holder, now=self._now())
        if fence is None:
            return False
        self._fence = fence
        for execution in Execution.objects.select_related("cluster__market").filter(cluster__market__isnull=False):
            try:
                self._cluster(execution)
                self._housekeeping.go_on(fence, execution, now=self._now())
            except Fenced:
                return False
            except Exception:  # other clusters are not affected, and the next call tries again
                log.exception("execution of %s", execution.cluster.name)
        return True

    def close(self) -> None:
        """Let another executor take over at once. Jobs run on."""
        lease.give_back(self._holder)

    def engine(self, execution: Execution) -> Engine:
        """Return the engine of a cluster, which is made once."""
        key = execution.pk, execution.engine
        if key not in self._engines:
            self._engines[key] = self._make(execution)
        return self._engines[key]

    def _cluster(self, execution: Execution) -> None:
        market: Market = execution.cluster.market
        engine = self.engine(execution)
        seen = engine.list()
        if not seen and not _has_work(market):  # nothing is read of a market, and no kernels are loaded
            return
        if not warming.prepare(market.pk):
            return
        time_ = timeline(execution.cluster)
        wanted, room = self._market_now(market, time_) if execution.is_on else ({}, Room({}, {}))
        works = self._works.take(self._fence, market)
        if self._create(execution, wanted.keys() - {work.training.bid_id for work in works}):
            works = self._works.take(self._fence, market)
        _end_strangers(engine, seen, works)
        for work in works:
            for process in work.processes:
                records.observe(self._fence, process, seen.get(process.key), time_)
        self._read_progress(works)
        jobs = [work.job(wanted.get(work.training.bid_id), seen) for work in works]
        steps = next_steps_of(
            jobs, now=time_.now_s, grace_s=execution.grace_s, capacity=room.capacity, demands=room.demands
        )
        for work in works:
            for step in steps.get(work.training.pk, ()):
                self._do(execution, engine, work, step, slot=time_.slot)
        for work in works:
            if work.generation is None:
                self._settle(work.training)
        self._works.keep(self._fence, market, works)

    def _market_now(self, market: Market, time_: Timeline) -> tuple[Mapping[int, Wanted], Room]:
        """Return what bids hold now, by key of the bid, and the room of the servers, from one version of the market."""
        with one_version():
            row = market_snapshot(market).market
            return self._holdings.wanted(row, time_), room_of(row)

    def _create(self, execution: Execution, bids: Collection[int]) -> bool:
        """Create the trainings of those of these bids that name a program; return whether there are any."""
        if not bids:
            return False
        new = list(
            Bid.objects.filter(pk__in=bids, body__program__isnull=False)
            .select_related("market__cluster", "owner")
            .order_by("sequence")
        )
        for bid in new:
            document = bid.body["program"]
            program = programs.named(execution.cluster, bid.owner, document["name"])
            earlier = programs.continued(bid.market, bid.owner, document.get("continues"))
            checkpoint = None if earlier is None else records.newest_checkpoint(earlier)
            if program is None:
                _fail(bid, f"The program {document['name']} was removed before the job started.", Refund.UNDELIVERED)
            elif "continues" in document and checkpoint is None:
                words = f"The checkpoints of bid {document['continues']} were removed before the job started."
                _fail(bid, words, Refund.UNDELIVERED)
            else:
                records.create_training(self._fence, bid, program, document, checkpoint)
        return bool(new)

    def _read_progress(self, works: Iterable[Work]) -> None:
        """Record what programs reported since the last loop, for many jobs in one transaction."""
        reports: list[Report] = []
        read = 0
        for work in works:
            if work.generation is None:
                continue
            file = self._files.get(work.generation.pk)
            if file is None:
                path = records.files_of(work.training).progress(work.generation.number)
                file = self._files[work.generation.pk] = ProgressFile(str(path))
            if points := file.read():
                reports.append(Report(work.training, work.generation, points))
                read += len(points)
            if read >= POINTS_AT_ONCE:
                self._keep_progress(reports)
                reports, read = [], 0
        self._keep_progress(reports)

    def _keep_progress(self, reports: Sequence[Report]) -> None:
        if not reports:
            return
        try:
            records.keep_progress(self._fence, reports)
        except BaseException:  # nothing was recorded, so these files are read again
            for report in reports:
                self._files.pop(report.generation.pk, None)
            raise
        records.keep_checkpoints(self._fence, [(report.training, report.generation) for report in reports])

    def _do(self, execution: Execution, engine: Engine, work: Work, step: Step, *, slot: int) -> None:
        """Write a step's rows, then call the engine."""
        if isinstance(step, Begin):
            work.generation = records.begin(self._fence, work.training, step.wanted, slot=slot)
            work.processes = list(_PROCESSES.filter(generation=work.generation))
            step = Launch(tuple(process.key for process in work.processes))
        if work.generation is None:
            raise RuntimeError(f"expected a live generation of {work.training} for {step}, got none")
        generation = work.generation
        going = _going(work.processes)
        match step:
            case Launch(keys):
                generation.training = work.training
                processes = work.processes
                self._launcher.launch(self._fence, execution, engine, generation, processes, keys, now=self._now())
            case Hold(until):
                records.hold(self._fence, generation, until)
                _each(going, lambda key: engine.hold(key, until))
            case Stop(ending):
                records.stop(self._fence, generation, ending)
                _stop(engine, work.processes)
            case Kill():
                _each(going, engine.kill)
            case End():
                self._end(engine, work, generation)

    def _end(self, engine: Engine, work: Work, generation: Generation) -> None:
        self._read_progress([work])
        reason = _last_lines(engine, work.processes)
        records.end(self._fence, work.training, generation, now=self._now(), reason=reason)
        self._files.pop(generation.pk, None)
        self._launcher.forget(work.processes)
        work.generation, work.processes = None, []

    def _settle(self, training: Training) -> None:
        """Let the market know what ended, and end trainings whose bid has ended."""
        bid = training.bid
        if training.state in OVER:
            if bid.state == BidState.RUNNING:
                if training.state == TrainingState.FINISHED:
                    _complete(bid)
                else:
                    _fail(bid, training.reason, Refund.NONE)
        elif bid.state not in GOING:
            state = TrainingState.FAILED if bid.state == BidState.FAILED else TrainingState.STOPPED
            training.refresh_from_db(fields=["step"])  # a program may have reported it by HTTP
            records.finish(self._fence, training, state, _words_of_end(training))


_PROCESSES: Final = Process.objects.select_related("server", "machine_type").order_by("-role", "rank")


def _has_work(market: Market) -> bool:
    """Return whether a bid that goes on names a program, or a training is not over."""
    going = Bid.objects.filter(market=market, state__in=GOING, body__program__isnull=False)
    return going.exists() or Training.objects.filter(bid__market=market).exclude(state__in=OVER).exists()


def _end_strangers(engine: Engine, seen: Mapping[str, Seen], works: Sequence[Work]) -> None:
    """End what nobody wants, and let the engine list no longer what has ended and is recorded."""
    mine = {process.key for work in works for process in work.processes}
    for key, one in seen.items():
        if key in mine:
            continue
        if one.phase in (Phase.EXITED, Phase.LOST):
            engine.retire(key)
        else:
            engine.kill(key)


def _going(processes: Sequence[Process]) -> list[str]:
    """Return the keys of the processes that have not ended."""
    return [one.key for one in processes if one.state in (ProcessState.SENT, ProcessState.RUNNING)]


def _stop(engine: Engine, processes: Sequence[Process]) -> None:
    """Stop processes that run; those that have not started yet never will."""
    for one in processes:
        if one.state == ProcessState.RUNNING:
            engine.stop(one.key)
        elif one.state == ProcessState.SENT:
            engine.kill(one.key)


def _each(keys: Sequence[str], call: Callable[[str], None]) -> None:
    for key in keys:
        call(key)


def room_of(market: Market) -> Room:
    """Return what the servers of a market have, in the version that this block reads."""
    book = market_snapshot(market).book
    snapshot, inventory = book.snapshot, book.snapshot.inventory
    demands = {
        ("worker", key): row for key, row in zip(snapshot.worker_ids, inventory.worker_demand.tolist(), strict=True)
    }
    demands |= {("ps", key): row for key, row in zip(snapshot.ps_ids, inventory.ps_demand.tolist(), strict=True)}
    units = inventory.capacity.copy()
    if book.view.queues is not None:  # a job in queues always finds a parameter server in a cloud, whatever that has
        for cloud in (s for s, is_cloud in enumerate(inventory.cloud) if is_cloud):
            units[cloud, inventory.ps_demand.any(axis=0)] = UNLIMITED
    return Room(dict(zip(snapshot.server_ids, units.tolist(), strict=True)), demands)


def _last_lines(engine: Engine, processes: Sequence[Process]) -> str:
    """Return how the first process that failed ended, with its last lines of output; empty if none failed."""
    failed = [one for one in processes if one.state == ProcessState.LOST or one.code not in (None, 0, 143)]
    if not failed:
        return ""
    one = failed[0]
    how = "was lost" if one.state == ProcessState.LOST else f"exited with code {one.code}"
    _, end = engine.log_size(one.key)
    output = shown(engine.log(one.key, max(0, end - LAST_BYTES), LAST_BYTES))
    lines = "\n".join(output.splitlines()[-LAST_LINES:])
    said = f" {one.reason}" if one.reason else ""
    return f"{one.get_role_display()} {one.rank} {how}.{said}\n{lines}".rstrip()


def _words_of_end(training: Training) -> str:
    """Return how far a training came."""
    if training.bid.state == BidState.FAILED:
        return training.bid.end_reason
    if not training.steps:
        return f"Its promise is over at step {training.step}."
    share = min(1.0, training.step / training.steps)
    return f"{share:.0%} done: step {training.step} of {training.steps}."


def _complete(bid: Bid) -> None:
    """Complete a job in the market, which frees its remaining slots; nothing happens if it has ended already."""
    try:
        market_jobs.complete_job(bid)
    except WrongState:
        log.info("%s had ended already", bid)


def _fail(bid: Bid, reason: str, refund: Refund) -> None:
    """Fail a job in the market; nothing happens if it has ended already."""
    try:
        market_jobs.fail_job(bid, reason[:400] or "The program failed.", refund=refund)
    except WrongState:
        log.info("%s had ended already", bid)


def engine_of(execution: Execution) -> Engine:
    """Return the engine that a cluster has chosen."""
    root = engine_root(execution.cluster.name)
    servers = execution.cluster.servers.values_list("name", flat=True)
    if execution.engine == EngineKind.LOCAL:
        return LocalEngine(root, list(servers))
    configuration = Path(execution.slurm_configuration) if execution.slurm_configuration else None
    prefix = f"{execution.cluster.name}-"
    return SlurmEngine(root, configuration=configuration, options=execution.sbatch_options, prefix=prefix)
