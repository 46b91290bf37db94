"""`manage.py testbed`: real training jobs under the policies of the papers, on servers made of this machine."""

import fcntl
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection

from scheduling.model.errors import SchedulingError
from scheduling.model.validation import check_integer
from studies.testbed import calibration, jobs, page, results, runs, servers
from studies.testbed.calibration import NotMeasured
from studies.testbed.engine import ConfinedEngine
from studies.testbed.results import Result
from studies.testbed.servers import Servers
from studies.testbed.settings import ALLOWANCE, SMALL, STANDARD, STEP_S, Size

OWN: Final = "testbed"
"""Name of the directory in which an installation is that this command may empty."""
LARGEST_SEED: Final = 10**9


class Command(BaseCommand):
    """Make the servers, calibrate, run every policy and judge; exit status 2 if that is refused."""

    help = "Ask the papers' testbed questions on this machine; what it makes is removed at the end."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the seed and the size."""
        parser.add_argument("--seed", type=int, default=1, help="of the jobs")
        parser.add_argument("--small", action="store_true", help="a minute or two: three jobs under two policies")
        parser.add_argument(
            "--record",
            action="store_true",
            help="also keep the result beside docs/measurements/testbed.md, and its page",
        )
        parser.add_argument(
            "--page", action="store_true", help="run nothing: only make the page again from the results that are kept"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Run it all."""
        document = settings.BASE_DIR / "docs/measurements/testbed.md"
        kept = document.with_suffix("")
        if not options["page"]:
            try:
                seed = check_integer("--seed", options["seed"], low=1, high=LARGEST_SEED)
                with _own_installation():
                    result = self._run(SMALL if options["small"] else STANDARD, seed)
            except (SchedulingError, NotMeasured) as error:
                raise CommandError(str(error), returncode=2) from None
            except KeyboardInterrupt:
                self.stderr.write("Stopped: what was made is removed, and no result is kept.")
                sys.exit(128 + signal.SIGINT)
            self.stdout.write(page.summary(result))
            path = kept / f"seed-{seed}.json" if options["record"] else settings.VAR_DIR / "testbed.json"
            results.write(result, path)
            self.stdout.write(f"Everything that was recorded: {path}")
        if options["page"] or options["record"]:
            document.write_text(page.with_results(document.read_text(), results.read_all(kept)))

    def _run(self, size: Size, seed: int) -> Result:
        began, load = time.monotonic(), os.getloadavg()[0]
        folder = settings.VAR_DIR / "calibration"
        shutil.rmtree(folder, ignore_errors=True)
        with servers.made(servers.prefix_of(settings.VAR_DIR)) as made:
            self.stdout.write(f"Servers: {made.words}.")
            measured = list(self._calibrated(made, size, folder))
            profile = calibration.fitted(measured)
            conditions = runs.Conditions(
                servers=made,
                profile=profile.with_allowance(ALLOWANCE),
                jobs=jobs.draw(seed, number=size.jobs, over=size.over, rate=size.slot_s / STEP_S),
                slot_s=size.slot_s,
                deadline=size.deadline,
                root=settings.BASE_DIR,
            )
            found = []
            for setting in size.settings:
                found.append(runs.run(setting, conditions))
                done = sum(one.completed is not None for one in found[-1].outcomes)
                self.stdout.write(f"{setting.name}: {done} of {size.jobs} jobs finished")
                self.stdout.flush()
        return Result(
            command=f"make testbed SEED={seed}" + (" SMALL=1" if size is SMALL else ""),
            seed=seed,
            servers=made.words,
            load=(round(load, 1), round(os.getloadavg()[0], 1)),
            cores=os.cpu_count() or 1,
            minutes=round((time.monotonic() - began) / 60, 1),
            slot_s=size.slot_s,
            deadline=size.deadline,
            allowance=ALLOWANCE,
            calibration=tuple(measured),
            profile=profile,
            runs=tuple(found),
        )

    def _calibrated(self, made: Servers, size: Size, folder: Path) -> Iterator[calibration.Measured]:
        engine = ConfinedEngine(folder / "processes", made)
        try:
            for one in calibration.calibrate(engine, made, settings.BASE_DIR, folder, size.numbers):
                way = "ring" if one.ring else "parameter servers"
                seconds = f"{one.step_s:.3f} s a step, {one.start_s:.1f} s for start and end"
                self.stdout.write(f"{one.workers} {one.kind}, {way}: {seconds}")
                self.stdout.flush()
                yield one
        finally:
            runs.end_all(engine)


@contextmanager
def _own_installation() -> Iterator[None]:
    """Empty the installation for this command, alone, and let SIGTERM end the block in good order.

    Raises
    ------
    CommandError
        If it may be another installation, or another process uses it.
    """
    var, database = settings.VAR_DIR, Path(settings.DATABASES["default"]["NAME"])
    inside = database.parent == Path(settings.EXECUTION_DIR).parent == var
    if var.name != OWN or not var.is_absolute() or connection.vendor != "sqlite" or not inside:
        raise CommandError(
            f"SHADOWPRICE_VAR: expected the whole path of a directory called {OWN} with database and jobs of its own,"
            f" got {var} and {database}; use `make testbed`",
            returncode=2,
        )
    with (var / "testbed.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            problem = "expected this data to be idle, got another testbed that runs on it"
            raise CommandError(problem, returncode=2) from None
        earlier = signal.signal(signal.SIGTERM, _end)
        try:
            call_command("migrate", verbosity=0)
            call_command("flush", verbosity=0, interactive=False)
            shutil.rmtree(settings.EXECUTION_DIR, ignore_errors=True)
            yield
        finally:
            signal.signal(signal.SIGTERM, earlier)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)
