"""`manage.py replay`: a public trace under a policy."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from cluster.models import Cluster
from cluster.traces.formats import One, Trace, formats_of, open_trace
from cluster.traces.records import Machine, Quota, Record, StepTime, Throughput, TraceJob
from scheduling import kernels
from scheduling.model.decision import canonical
from scheduling.model.errors import SchedulingError, in_words
from scheduling.model.parameters import read_pairs
from scheduling.model.validation import check_integer
from scheduling.registry import POLICIES, make_policy
from studies.experiments.traced import source_on
from studies.workloads.simulation.report import Report
from studies.workloads.traces.machines import machine_cluster
from studies.workloads.traces.profiles import StepTimes
from studies.workloads.traces.source import SLOT_S, TraceSource
from studies.workloads.traces.tenants import shares_of
from studies.workloads.workload import run

BAR = 40
MEASURED: tuple[type[Record], ...] = (StepTime, Throughput)
LARGEST_SEED = 10**9


class Command(BaseCommand):
    """Replay a trace and print the outcome; exit status 2 if the input is wrong."""

    help = "Replay a public trace under a policy; values, which no trace has, are drawn from a seed."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add arguments for the trace, the policy and the cluster."""
        jobs, quotas = ", ".join(formats_of("jobs")), ", ".join(formats_of("quotas"))
        parser.add_argument("trace", type=Path, help=f"a file of jobs; known by its first line: {jobs}")
        parser.add_argument("--policy", default="fifo", help=f"one of {', '.join(sorted(POLICIES))}")
        parser.add_argument(
            "--set", action="append", default=[], metavar="NAME=VALUE", help="a parameter of the policy"
        )
        where = parser.add_mutually_exclusive_group(required=True)
        where.add_argument("--cluster", help="the name of a cluster of this installation")
        where.add_argument("--gpus", type=int, help="number of GPUs, eight for each server")
        machines = ", ".join(formats_of("machines"))
        where.add_argument("--machines", type=Path, help=f"a file of machines; known by its first line: {machines}")
        parser.add_argument("--apart", action="store_true", help="parameter servers on servers of their own (OASiS)")
        parser.add_argument("--slot", type=int, help=f"seconds (default {SLOT_S}, or the cluster's)")
        parser.add_argument("--horizon", type=int, help="slots (default twice the longest run, or the cluster's)")
        parser.add_argument("--ring", action="store_true", help="jobs exchange gradients in rings")
        parser.add_argument("--elastic", action="store_true", help="jobs can use twice the GPUs they had")
        measured = ", ".join(formats_of("step_times", "throughputs"))
        parser.add_argument(
            *("--step-times", "--throughputs"), type=Path, dest="step_times",
            help=f"a file of measured step times, for traces that say none; known by its first line: {measured}",
        )  # fmt: skip
        parser.add_argument("--batch", type=int, help="samples on each GPU in Sia's step times (default: the most)")
        parser.add_argument("--quotas", type=Path, help=f"draw tenants, where a trace says none, by these: {quotas}")
        parser.add_argument("--reference", default="v100", help="the GPU of worker types that were not measured")
        parser.add_argument("--seed", type=int, default=1, help="of values and targets")
        parser.add_argument("--jobs", type=int, help="number of rows, from the first one")
        parser.add_argument(
            "--final", action="store_true", help="rejections are final: no bid stands, as bids do in live markets"
        )
        parser.add_argument("--json", action="store_true", help="print a document instead of a table")

    def handle(self, *args: Any, **options: Any) -> None:
        """Read the input, replay it and print the outcome."""
        try:
            report = self._report(options)
        except (SchedulingError, OSError) as error:
            raise CommandError(in_words(error), returncode=2) from None
        if options["json"]:
            self.stdout.write(canonical(report.to_json()))
            return
        for line in report.lines():
            self.stdout.write(line)

    def _report(self, options: dict[str, Any]) -> Report:
        trace = self._read(options["trace"], TraceJob)
        policy = make_policy(options["policy"], read_pairs("--set", options["set"]))
        source = self._source(options)
        source.check(trace.rows)
        seed = check_integer("--seed", options["seed"], low=0, high=LARGEST_SEED)
        workload = source.draw(trace, seed)
        for row in workload.jobs.refused:
            self.stderr.write(f"{trace.source} {row}")
        workload.check()
        if workload.reach.warning:
            self.stderr.write(workload.reach.warning)  # before the long wait
        kernels.warm_up(*kernels.needed_by(policy))
        replayed = run(workload, policy, final=options["final"], progress=self._progress)
        return Report(trace, workload.jobs, seed, policy, source.place, workload.plan, replayed)

    def _source(self, options: dict[str, Any]) -> TraceSource:
        common = {name: options[name] for name in ("apart", "jobs", "ring", "elastic", "reference", "horizon")}
        common |= self._beside(options)
        if options["cluster"] is not None:
            cluster = Cluster.objects.filter(name=options["cluster"]).first()
            if cluster is None:
                raise CommandError(f"--cluster: expected a cluster, got {options['cluster']!r}", returncode=2)
            return source_on(cluster, slot_s=options["slot"], **common)
        common["slot_s"] = SLOT_S if options["slot"] is None else options["slot"]
        if options["machines"] is None:
            return TraceSource(gpus=options["gpus"], **common)
        listed = self._read(options["machines"], Machine)
        return TraceSource(inventory=machine_cluster(listed.rows), cluster=listed.source, **common)

    def _beside(self, options: dict[str, Any]) -> dict[str, Any]:
        """Read further files with data about the trace's jobs."""
        found: dict[str, Any] = {}
        if options["step_times"] is not None:
            measured = self._read(options["step_times"], *MEASURED)
            batch = None if options["batch"] is None else check_integer("batch", options["batch"], low=1)
            found["step_times"] = StepTimes.of(measured.rows, batch=batch)
        elif options["batch"] is not None:
            raise CommandError("--batch: expected no batch without --step-times, got one", returncode=2)
        if options["quotas"] is not None:
            found["shares"] = shares_of(self._read(options["quotas"], Quota).rows)
        return found

    def _read(self, path: Path, *kinds: type[One]) -> Trace[One]:
        """Read a file of one of these kinds and report its malformed lines."""
        try:
            trace = open_trace(path, *kinds)
        except SchedulingError as error:
            raise CommandError(f"{path}: {error}", returncode=2) from None
        for row in trace.malformed:
            self.stderr.write(f"{trace.source} {row}")
        return trace

    def _progress(self, done: int, total: int) -> None:
        """Write a progress bar to a terminal, but not to files and pipes."""
        percent = 100 * done // total
        if self.stderr.isatty() and (done == total or percent != 100 * (done - 1) // total):
            filled = BAR * done // total
            bar = f"\r[{'#' * filled}{'.' * (BAR - filled)}] {percent:3d} % of {total} jobs"
            self.stderr.write(bar, ending="\n" if done == total else "")
