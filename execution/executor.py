"""The executor: about once a second it compares what runs with what the market's commitments say, and closes the gap.

What it needs is in the database and in the engine's files. If it is killed, jobs run on, and the next executor goes on
from there: a row is written before each call of an engine, and each call may be repeated.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import monotonic, time
from typing import Final

from auctions.domain.errors import WrongState
from auctions.domain.refunds import Refund
from auctions.engine import jobs as market_jobs
from auctions.kernels import warming
from auctions.models import Bid, BidState, Market
from auctions.state.market_snapshot import market_snapshot, one_version
from cluster.database.prepared import Prepared
from execution import lease, programs, records
from execution.capacity import Room, room_of
from execution.dead_processes import FAILURES
from execution.defects import OUTSIDE, UNUSABLE, Defects, Failure
from execution.ends import last_lines, shortened, words_of_end
from execution.engines.base import Engine, Phase, Seen
from execution.engines.local import LocalEngine
from execution.engines.slurm import SlurmEngine
from execution.housekeeping import Housekeeping
from execution.launching import Launcher
from execution.lease import Fenced
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
from execution.places import MOST_PARTS, ProgressFile, engine_root
from execution.records import Report
from execution.steps import Begin, End, Hold, Job, Kill, Launch, Step, Stop, Wanted
from execution.steps import next_steps as next_steps_of
from execution.wanted import GOING, Holdings, Timeline, timeline
from execution.works import Work, Works

POINTS_AT_ONCE: Final = 20_000
"""Reported steps after which a transaction ends, and the next ones come into another."""
MOST_CHARACTERS: Final = 400
"""Characters of the reason for which a job failed in the market."""

log = logging.getLogger(__name__)

Engines = Callable[[Execution], Engine]

_EXECUTIONS = Prepared(
    lambda: Execution.objects.select_related("cluster__market").filter(cluster__market__isnull=False),
)
_GOING_BIDS = Prepared(
    lambda market: Bid.objects.filter(market=market, state__in=GOING, program__isnull=False).values_list("pk")[:1],
    int,
)
_TRAININGS = Prepared(
    lambda market: Training.objects.filter(bid__market=market).exclude(state__in=OVER).values_list("pk")[:1],
    int,
)


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
    tick
        Returns seconds of a clock that is never set.
    """

    def __init__(
        self,
        holder: str,
        engines: Engines,
        now: Callable[[], float] = time,
        tick: Callable[[], float] = monotonic,
    ) -> None:
        self._holder = holder
        self._make = engines
        self._now = now
        self._tick = tick
        self._wait = lease.Wait()
        self._engines: dict[tuple[object, ...], Engine] = {}
        """The engine of each cluster, by what it is made of."""
        self._files: dict[int, ProgressFile] = {}
        """The progress file of each live generation; one that is unknown is read from the start again."""
        self._fence = 0
        self._works, self._holdings = Works(), Holdings()
        self._launcher, self._housekeeping = Launcher(), Housekeeping()
        self._defects = Defects()

    def once(self) -> bool:
        """Do what there is to do now for all clusters; return whether this executor is active."""
        fence = lease.take(self._holder, now=self._now(), wait=self._wait, tick=self._tick())
        if fence is None:
            return False
        self._fence = fence
        try:
            for execution in _EXECUTIONS():
                self._cluster_or_note(execution)
        except Fenced:
            return False
        return True

    def close(self) -> None:
        """Let another executor take over at once. Jobs run on."""
        lease.give_back(self._holder, now=self._now())

    def engine(self, execution: Execution) -> Engine:
        """Return the engine of a cluster, which is made once, and another one when its settings have changed."""
        key = execution.pk, execution.engine, execution.slurm_configuration, *execution.sbatch_options
        if key not in self._engines:
            self._engines[key] = self._make(execution)
        return self._engines[key]

    def _cluster_or_note(self, execution: Execution) -> None:
        try:
            self._defects.begin(self._fence, execution)
            self._cluster(execution)
            self._housekeeping.go_on(self._fence, execution, now=self._now())
            self._defects.mended(self._fence, execution, [None])
        except Fenced:
            raise
        except Exception as error:  # other clusters are not affected, and the next call tries again
            self._defects.note(self._fence, execution, None, error, tick=self._tick())

    def _cluster(self, execution: Execution) -> None:
        market: Market = execution.cluster.market
        engine = self.engine(execution)
        seen = engine.list()
        if not seen and not _has_work(market):  # nothing is read of a market, and no kernels are loaded
            self._defects.forget_others(self._fence, execution, ())
            return
        if not warming.prepare(market.pk):
            return
        time_ = timeline(execution.cluster)
        wanted, room = self._market_now(market, time_) if execution.is_on else ({}, Room({}, {}))
        works = self._works.take(self._fence, market)
        if self._create(execution, wanted.keys() - {work.training.bid_id for work in works}):
            works = self._works.take(self._fence, market)
        strangers = _end_strangers(engine, seen, works)
        ready = [work for work in works if not self._waits(execution, work.training.bid_id)]
        ready = self._for_each(execution, ready, lambda work: self._observe(work, seen, time_))
        ready = self._read_progress(execution, ready)
        jobs: dict[int, Job] = {}
        job = partial(Work.job, seen=seen, switched_off=not execution.is_on)
        ready = self._for_each(execution, ready, lambda work: jobs.update(_by_name(job(work, _of(wanted, work)))))
        steps = next_steps_of(
            jobs.values(),
            now=time_.now_s,
            grace_s=execution.grace_s,
            capacity=room.capacity,
            demands=room.demands,
            taken=[work.occupied(seen) for work in works if work.training.pk not in jobs],
        )
        ready = self._for_each(
            execution, ready, lambda work: self._do_all(execution, engine, work, steps, slot=time_.slot)
        )
        ready = self._for_each(execution, ready, self._settle)
        # What of the others is in memory may not be what their rows say, so these are read again.
        self._works.keep(self._fence, market, ready)
        self._defects.mended(self._fence, execution, [work.training.bid_id for work in ready])
        self._defects.forget_others(self._fence, execution, wanted.keys() | {work.training.bid_id for work in works})
        if strangers is not None:
            raise strangers

    def _waits(self, execution: Execution, bid: int) -> bool:
        return self._defects.waits(execution, bid, tick=self._tick())

    def _for_each(self, execution: Execution, works: Iterable[Work], act: Callable[[Work], None]) -> list[Work]:
        """Do something for each job, and return the jobs for which nothing was raised; the others are left alone."""
        return [work for work in works if self._try(execution, work.training.bid, partial(act, work))]

    def _try(self, execution: Execution, bid: Bid, act: Callable[[], None]) -> bool:
        """Do something for one job, and return whether nothing was raised: no error of a job may stop the others."""
        try:
            act()
        except (Fenced, *UNUSABLE):
            raise
        except Exception as error:  # a job must not stop the others; it is logged and stored
            failure = self._defects.note(self._fence, execution, bid, error, tick=self._tick())
            if failure.is_last and not isinstance(error, OUTSIDE):
                self._give_up(execution, bid, failure, error)
            return False
        return True

    def _give_up(self, execution: Execution, bid: Bid, failure: Failure, error: Exception) -> None:
        """Fail a job in the market, for an error that is not its own."""
        words = f"The executor failed on this job {failure.number} times in a row ({type(error).__name__})."
        try:
            _fail(bid, words, Refund.UNDELIVERED)
        except (Fenced, *UNUSABLE):
            raise
        except Exception as another:  # it is noted like the first one
            self._defects.note(self._fence, execution, bid, another, tick=self._tick())

    def _observe(self, work: Work, seen: Mapping[str, Seen], time_: Timeline) -> None:
        for process in work.processes:
            records.observe(self._fence, process, seen.get(process.key), time_)

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
            Bid.objects.filter(pk__in=bids, program__isnull=False)
            .select_related("market__cluster", "owner")
            .order_by("sequence")
        )
        for bid in new:
            if not self._waits(execution, bid.pk):
                self._try(execution, bid, partial(self._create_one, execution, bid))
        return bool(new)

    def _create_one(self, execution: Execution, bid: Bid) -> None:
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

    def _read_progress(self, execution: Execution, works: Iterable[Work]) -> list[Work]:
        """Record what programs have reported, for many jobs in one transaction; return as `_for_each`."""
        works, done = list(works), set[int]()
        batch: list[tuple[Work, Report]] = []

        def read(work: Work) -> None:
            report = self._report_of(work)
            if report is None:
                done.add(work.training.pk)
            else:
                batch.append((work, report))

        def keep() -> None:
            done.update(work.training.pk for work in self._keep_batch(execution, batch))
            batch.clear()

        points = 0
        for work in works:
            self._for_each(execution, [work], read)
            points += len(batch[-1][1].points) if batch and batch[-1][0] is work else 0
            if points >= POINTS_AT_ONCE:
                keep()
                points = 0
        keep()
        return [work for work in works if work.training.pk in done]

    def _report_of(self, work: Work) -> Report | None:
        """Return what a job has reported since the last loop; None if it has not."""
        if work.generation is None:
            return None
        file = self._files.get(work.generation.pk)
        if file is None:
            path = records.files_of(work.training).progress(work.generation.number)
            known = records.last_step(work.generation)
            file = self._files[work.generation.pk] = ProgressFile(str(path), known)
        points = file.read()
        return Report(work.training, work.generation, points) if points else None

    def _last_report_of(self, work: Work) -> Report | None:
        """Return what a job that ends has reported since, thinned: a transaction for each part would delay others."""
        last: Report | None = None
        for _ in range(MOST_PARTS + 1):
            if report := self._report_of(work):
                points = [*last.points, *report.points] if last else report.points
                last = report._replace(points=records.thinned_points(report.generation, points))
        return last

    def _keep_batch(self, execution: Execution, batch: Sequence[tuple[Work, Report]]) -> list[Work]:
        """Record reports in one transaction or, if that fails for one of them, each in its own."""
        works, of = [work for work, _ in batch], {work.training.pk: report for work, report in batch}
        try:
            self._keep_progress(list(of.values()))
        except (Fenced, *UNUSABLE):
            raise
        except Exception:  # one report is the reason, and each is recorded apart
            return self._for_each(execution, works, lambda work: self._keep_progress([of[work.training.pk]]))
        return works

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

    def _do_all(
        self, execution: Execution, engine: Engine, work: Work, steps: Mapping[int, Sequence[Step]], *, slot: int
    ) -> None:
        for step in steps.get(work.training.pk, ()):
            self._do(execution, engine, work, step, slot=slot)

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
                self._launcher.launch(self._fence, execution, engine, generation, processes, keys, tick=self._tick())
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
        if report := self._last_report_of(work):
            self._keep_progress([report])
        reason = last_lines(engine, work.processes, unasked=generation.ending in FAILURES)
        records.end(self._fence, work.training, generation, now=self._now(), reason=reason)
        self._files.pop(generation.pk, None)
        self._launcher.forget(work.processes)
        work.generation, work.processes = None, []

    def _settle(self, work: Work) -> None:
        """Let the market know what ended, and end trainings whose bid has ended, unless something of it still runs."""
        training = work.training
        bid = training.bid
        if work.generation is not None:
            return
        if training.state in OVER:
            if bid.state == BidState.RUNNING:
                if training.state == TrainingState.FINISHED:
                    _complete(bid)
                else:
                    _fail(bid, training.reason, Refund.NONE)
        elif bid.state not in GOING:
            state = TrainingState.FAILED if bid.state == BidState.FAILED else TrainingState.STOPPED
            training.refresh_from_db(fields=["step"])  # a program may have reported it by HTTP
            records.finish(self._fence, training, state, words_of_end(training))


_PROCESSES: Final = Process.objects.select_related("server", "machine_type").order_by("-role", "rank")


def _by_name(job: Job) -> dict[int, Job]:
    return {job.name: job}


def _of(wanted: Mapping[int, Wanted], work: Work) -> Wanted | None:
    return wanted.get(work.training.bid_id)


def _has_work(market: Market) -> bool:
    """Return whether a bid that goes on names a program, or a training is not over."""
    return bool(_GOING_BIDS(market.pk) or _TRAININGS(market.pk))


def _end_strangers(engine: Engine, seen: Mapping[str, Seen], works: Sequence[Work]) -> Exception | None:
    """End what nobody wants, and let the engine list no longer what has ended and is recorded.

    Return an error of the engine, if there was one; jobs are dealt with in any case.
    """
    mine = {process.key for work in works for process in work.processes}
    found: Exception | None = None
    for key in seen.keys() - mine:
        try:
            if seen[key].phase in (Phase.EXITED, Phase.LOST):
                engine.retire(key)
            else:
                engine.kill(key)
        except Exception as error:  # jobs are dealt with first; it is raised afterwards
            found = error
    return found


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


def _complete(bid: Bid) -> None:
    """Complete a job in the market, which frees its remaining slots; nothing happens if it has ended already."""
    try:
        market_jobs.complete_job(bid)
    except WrongState:
        log.info("%s had ended already", bid)


def _fail(bid: Bid, reason: str, refund: Refund) -> None:
    """Fail a job in the market; nothing happens if it has ended already."""
    try:
        market_jobs.fail_job(bid, shortened(reason, MOST_CHARACTERS) or "The program failed.", refund=refund)
    except WrongState:
        log.info("%s had ended already", bid)


def engine_of(execution: Execution) -> Engine:
    """Return the engine that a cluster has chosen."""
    root = engine_root(execution.cluster.name)
    match EngineKind(execution.engine):
        case EngineKind.LOCAL:
            return LocalEngine(root, None)  # starts name servers of the cluster, which may be added or renamed yet
        case EngineKind.SLURM:
            configuration = Path(execution.slurm_configuration) if execution.slurm_configuration else None
            prefix = f"{execution.cluster.name}-"
            return SlurmEngine(root, configuration=configuration, options=execution.sbatch_options, prefix=prefix)
