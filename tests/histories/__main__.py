"""`python -m tests.histories --seeds 1-10000 --jobs 2`: histories with faults, each followed by its invariants.

The exit status is 1 if one of them is broken. For each that is, a line has its seed and the command that repeats it.
"""

import argparse
import gc
import os
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

COMMAND: Final = "python -m tests.histories --seeds {} --show"
AT_A_TIME: Final = 20
"""Number of histories that a process is given at once."""
_tables = b""
"""A migrated database without a row, which each history begins with."""


@dataclass
class Result:
    """Histories that have ended, and what was found."""

    histories: int = 0
    bids: int = 0
    decisions: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    policies: Counter[str] = field(default_factory=Counter)
    broken: list[tuple[int, str]] = field(default_factory=list)
    """Seeds of the histories that broke an invariant, and the invariants."""

    def add(self, other: "Result") -> None:
        """Add the numbers of other histories."""
        self.histories += other.histories
        self.bids += other.bids
        self.decisions += other.decisions
        self.faults += other.faults
        self.policies += other.policies
        self.broken += other.broken


def set_up(tables: Path | None = None) -> None:
    """Load the project with a database in memory, make its tables or copy those of this file, and load all kernels."""
    global _tables
    os.environ.update(DATABASE_URL="sqlite://:memory:", DJANGO_SETTINGS_MODULE="tests.settings")
    for name in ("REDIS_URL", "SHADOWPRICE_VAR"):  # nothing is counted in files
        os.environ.pop(name, None)
    import django

    django.setup()
    from django.core.management import call_command
    from django.db import connection

    from auctions.engine import submission
    from cluster.database import holding
    from scheduling import kernels

    submission.log.disabled = True  # quotes on which a policy fails as it is made to
    if tables is None:
        call_command("migrate", verbosity=0)
    else:
        connection.ensure_connection()
        with closing(sqlite3.connect(tables)) as kept:
            kept.backup(connection.connection)
    _tables = connection.connection.serialize()
    kernels.warm_up_all()
    holding.LONGEST_S = float("inf")  # a machine may be busy, and no other process waits
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def run(seeds: Iterable[int], *, show: bool = False) -> Result:
    """Run histories in this process, each on tables without a row."""
    from auctions.models import Bid, DecisionRecord
    from tests.histories.history import History
    from tests.histories.invariants import broken

    result = Result()
    for seed in seeds:
        empty_tables()
        history = History(seed)
        found, digest = [], ""
        try:
            with history.ran():
                found, digest = broken(history), history.digest()
        except Exception as error:  # the others go on; the command that repeats it shows where it was raised
            if show:
                raise
            found = [f"{type(error).__name__}: {error}"]
        result.histories += 1
        result.bids += Bid.objects.count()
        result.decisions += DecisionRecord.objects.count()
        result.faults += history.simulation.faults
        result.policies[history.policy] += 1
        result.broken += [(seed, problem) for problem in found]
        if show:
            print("\n".join(history.simulation.log))
            print(f"seed {seed}, policy {history.policy}: events and receipts have the digest {digest}")
    return result


def empty_tables() -> None:
    """Begin again with a database without a row."""
    from django.contrib.contenttypes.models import ContentType
    from django.db import connection

    if connection.connection is not None:
        connection.connection.close()  # a cursor that was read in part would keep the old rows
        connection.connection = None
    connection.connect()
    database: Any = connection.connection
    database.deserialize(_tables)
    ContentType.objects.clear_cache()


def seeds_of(text: str) -> list[int]:
    """Read `7`, `1-100` or several of these with commas."""
    parts = (part.partition("-") for part in text.split(","))
    return [seed for first, _, last in parts for seed in range(int(first), int(last or first) + 1)]


def run_all(seeds: list[int], *, jobs: int) -> Iterator[Result]:
    """Run histories in this many processes; yield results as they come."""
    chunks = [seeds[i : i + AT_A_TIME] for i in range(0, len(seeds), AT_A_TIME)]
    if jobs == 1:
        yield from map(run, chunks)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("fork")) as pool:
        yield from pool.map(run, chunks)


def report(total: Result, seconds: float) -> None:
    """Print what was run, and each broken invariant with the command that repeats it."""
    print(
        f"{total.histories} histories with {total.bids} bids, {total.decisions} decisions and {total.faults.total()}"
        f" faults in {seconds:.0f} s: {len({seed for seed, _ in total.broken})} broken"
    )
    for what, counted in (("policy", total.policies), ("fault", total.faults)):
        for name, count in sorted(counted.items()):
            print(f"  {what:6} {name:60} {count:>8}")
    for seed, problem in total.broken:
        print(f"seed {seed}: {problem}\n    {COMMAND.format(seed)}")


def main(arguments: list[str]) -> int:
    """Run the histories of these seeds; return the exit status."""
    parser = argparse.ArgumentParser(prog="tests.histories", description=__doc__)
    parser.add_argument("--seeds", type=seeds_of, default="1-10000", help="such as 1-10000 or 7,12")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--show", action="store_true", help="print what happened in each history")
    parser.add_argument(
        "--tables", type=Path, help="a database of `make_tables` in tests/processes.py; else one is made"
    )
    options = parser.parse_args(arguments)
    set_up(options.tables)
    began, said, total = time.monotonic(), 0.0, Result()
    results: Any = [run(options.seeds, show=True)] if options.show else run_all(options.seeds, jobs=options.jobs)
    for result in results:
        total.add(result)
        passed = time.monotonic() - began
        if passed > said + 5:
            said = passed
            share = total.histories / len(options.seeds)
            print(
                f"{total.histories} of {len(options.seeds)} histories, {len(total.broken)} problems,"
                f" {passed / share - passed:.0f} s left",
                file=sys.stderr,
                flush=True,
            )
    report(total, time.monotonic() - began)
    return 1 if total.broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
