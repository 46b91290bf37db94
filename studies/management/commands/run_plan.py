"""`manage.py run_plan PLAN`: run a plan of split learning with processes on this machine."""

import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from execution.engines.base import EngineError
from execution.engines.local import LocalEngine
from scheduling.model.errors import SchedulingError, in_words
from studies.models import LONGEST_SLOT_S, MOST_BATCHES, Plan
from studies.split_learning import plan_runs
from studies.split_learning.plans.readings import core_plan
from studies.split_learning.runs.readings import task_rows
from web.csv_files import write_rows


class Command(BaseCommand):
    """Run it, print the planned and the measured makespan; exit status 2 if it is refused or fails."""

    help = "Run a plan of split learning with processes on this machine; planned and measured makespan side by side."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the plan, the length of a slot, the number of batches and the file of measured times."""
        parser.add_argument("plan", type=int, help="number of a completed plan")
        parser.add_argument(
            "--slot-seconds", type=float, default=0.05,
            help=f"length of a slot of the plan here, seconds, at most {LONGEST_SLOT_S:g} (default 0.05)",
        )  # fmt: skip
        parser.add_argument(
            "--batches", type=int, default=3, help=f"how often all tasks run, at most {MOST_BATCHES} (default 3)"
        )
        parser.add_argument("--csv", type=Path, help="file for the measured start and end of each task")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the plan."""
        slot_s, batches = options["slot_seconds"], options["batches"]
        if not 0 < slot_s <= LONGEST_SLOT_S:
            raise CommandError(f"--slot-seconds: expected above 0 to {LONGEST_SLOT_S:g}, got {slot_s}", returncode=2)
        if not 1 <= batches <= MOST_BATCHES:
            raise CommandError(f"--batches: expected 1 to {MOST_BATCHES}, got {batches}", returncode=2)
        row = Plan.objects.filter(pk=options["plan"], result__isnull=False).first()
        if row is None:
            raise CommandError(f"plan: expected the number of a completed plan, got {options['plan']}", returncode=2)
        plan = core_plan(row)
        if options["csv"]:
            _check_writable(options["csv"])  # before the run, which would be lost
        try:
            with _ended_by_sigterm(), tempfile.TemporaryDirectory() as root:
                engine = LocalEngine(Path(root) / "processes", ["local"])
                conditions = plan_runs.Conditions(slot_s, batches)
                tasks = plan_runs.run(plan, engine, Path(root) / "run", conditions)
        except (SchedulingError, EngineError) as error:
            raise CommandError(in_words(error), returncode=2) from None
        if options["csv"]:
            with options["csv"].open("w", newline="") as file:
                write_rows(file, task_rows(row, tasks))
        planned = plan.makespan * slot_s
        self.stdout.write("batch  planned s  measured s  mean loss")
        both = zip(plan_runs.makespans(tasks), plan_runs.mean_losses(tasks), strict=True)
        for batch, (measured, loss) in enumerate(both):
            self.stdout.write(f"{batch:5}  {planned:9.3f}  {measured:10.3f}  {loss:9.3f}")


def _check_writable(path: Path) -> None:
    try:
        path.open("a").close()
    except OSError as error:
        raise CommandError(f"--csv: expected a file that can be written, got {error}", returncode=2) from None


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end the command as Ctrl-C does, with the processes of its run; by default they would go on."""
    before = signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
