"""`manage.py replay`: a public trace under a policy."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from django.core.management.base import BaseCommand, CommandError, CommandParser

from cluster.facts import inventory_of
from cluster.models import Cluster, Server
from cluster.traces.formats import FORMATS, open_trace
from cluster.traces.gavel import throughputs
from cluster.traces.records import TraceJob
from cluster.units import slots_up
from scheduling import kernels
from scheduling.arrays import Json
from scheduling.bid import Architecture
from scheduling.decision import canonical
from scheduling.errors import SchedulingError
from scheduling.inventory import Inventory
from scheduling.registry import POLICIES, make_policy
from studies.replays.replay import Plan, horizon_for, replay
from studies.replays.report import Report
from studies.traces.machines import gpu_cluster
from studies.traces.mapping import Rules, to_bids
from studies.traces.profiles import Profile, measured_profiles

SLOT_S = 600
"""The longest jobs of Philly take weeks: shorter slots make horizons too long."""
BAR = 40


@dataclass(frozen=True)
class _Place:
    title: str
    inventory: Inventory
    slot_s: int
    horizon: int | None
    delay: tuple[int, ...]


class Command(BaseCommand):
    """Replay a trace and print what came of it; exit status 2 if the input is wrong."""

    help = "Replay a public trace under a policy; values, which no trace has, are drawn from a seed."

    def add_arguments(self, parser: CommandParser) -> None:
        """The trace, the policy and the cluster."""
        jobs = ", ".join(name for name, one in FORMATS.items() if one.record is TraceJob)
        parser.add_argument("trace", type=Path, help=f"a file of jobs; known by its first line: {jobs}")
        parser.add_argument("--policy", default="fifo", help=f"one of {', '.join(sorted(POLICIES))}")
        parser.add_argument(
            "--set", action="append", default=[], metavar="NAME=VALUE", help="a parameter of the policy"
        )
        where = parser.add_mutually_exclusive_group(required=True)
        where.add_argument("--cluster", help="the name of a cluster of this installation")
        where.add_argument("--gpus", type=int, help="so many GPUs, eight a server")
        parser.add_argument("--apart", action="store_true", help="parameter servers on servers of their own (OASiS)")
        parser.add_argument("--slot", type=int, help=f"seconds (default {SLOT_S}, or the cluster's)")
        parser.add_argument("--horizon", type=int, help="slots (default twice the longest run, or the cluster's)")
        parser.add_argument("--ring", action="store_true", help="jobs exchange gradients in rings")
        parser.add_argument("--elastic", action="store_true", help="jobs can use twice the GPUs they had")
        parser.add_argument(
            "--throughputs", type=Path, help="Gavel's measured throughputs, for traces without durations"
        )
        parser.add_argument("--reference", default="v100", help="the GPU of worker types that were not measured")
        parser.add_argument("--seed", type=int, default=1, help="of values and targets")
        parser.add_argument("--jobs", type=int, help="only the first so many rows")
        parser.add_argument("--json", action="store_true", help="print a document instead of a table")

    def handle(self, *args: Any, **options: Any) -> None:
        """Read, replay, print."""
        try:
            report = self._report(options)
        except (SchedulingError, OSError, UnicodeDecodeError) as error:
            raise CommandError(str(error), returncode=2) from None
        if options["json"]:
            self.stdout.write(canonical(report.to_json()))
            return
        for line in report.lines():
            self.stdout.write(line)

    def _report(self, options: dict[str, Any]) -> Report:
        trace = open_trace(options["trace"], TraceJob)
        for row in trace.malformed:
            self.stderr.write(f"{trace.source} {row}")
        policy = make_policy(options["policy"], _parameters(options["set"]))
        place = _place(options)
        rules = Rules(
            slot_s=place.slot_s,
            architecture=Architecture.RING if options["ring"] else Architecture.PS,
            elastic=options["elastic"],
            profiles=_profiles(options["throughputs"], options["reference"]),
            delay=place.delay,
        )
        rows = trace.rows if options["jobs"] is None else trace.rows[: max(0, options["jobs"])]
        traced = to_bids(rows, place.inventory, rules, np.random.default_rng(options["seed"]))
        for row in traced.refused:
            self.stderr.write(f"{trace.source} {row}")
        plan = Plan(place.slot_s, place.horizon or horizon_for(traced, slot_s=place.slot_s))
        kernels.warm_up()
        replayed = replay(traced, policy, place.inventory, plan, progress=self._progress)
        return Report(trace, traced, options["seed"], policy, place.title, plan, replayed)

    def _progress(self, done: int, total: int) -> None:
        """A bar, where somebody looks: not into files and pipes."""
        percent = 100 * done // total
        if self.stderr.isatty() and (done == total or percent != 100 * (done - 1) // total):
            filled = BAR * done // total
            bar = f"\r[{'#' * filled}{'.' * (BAR - filled)}] {percent:3d} % of {total} jobs"
            self.stderr.write(bar, ending="\n" if done == total else "")


def _place(options: dict[str, Any]) -> _Place:
    if options["cluster"] is None:
        inventory = gpu_cluster(options["gpus"], apart=options["apart"])
        slot_s = SLOT_S if options["slot"] is None else options["slot"]
        return _Place(f"{options['gpus']} GPUs", inventory, slot_s, options["horizon"], ())
    cluster = Cluster.objects.filter(name=options["cluster"]).first()
    if cluster is None:
        raise CommandError(f"no cluster named {options['cluster']!r}", returncode=2)
    slot_s = cluster.slot_seconds if options["slot"] is None else options["slot"]
    horizon = cluster.horizon_slots if options["horizon"] is None else options["horizon"]
    delays_s = Server.objects.filter(cluster=cluster).values_list("upload_delay_s", flat=True)
    delay = tuple(slots_up(after, slot_s) for after in delays_s)
    return _Place(cluster.title or cluster.name, inventory_of(cluster), slot_s, horizon, delay)


def _parameters(pairs: list[str]) -> Json:
    """`NAME=VALUE`, where a value is JSON or else text."""
    parameters: Json = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise CommandError(f"--set: expected NAME=VALUE, got {pair!r}", returncode=2)
        try:
            parameters[name] = json.loads(text)
        except ValueError:
            parameters[name] = text
    return parameters


def _profiles(path: Path | None, reference: str) -> dict[str, Profile]:
    return {} if path is None else measured_profiles(throughputs(path.read_text()), reference=reference)
