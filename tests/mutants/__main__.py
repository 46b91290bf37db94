"""Change one place of the code at a time, and see whether the tests that guard it notice.

Run as `python -m tests.mutants`. Each change (a mutant) is made in a copy of the project, where the tests of its area
then run. A mutant is killed when a test fails, when the tests do not end in time, or when the code no longer compiles.
It survives when all tests pass: then a test is missing, or the change makes no difference.

Exits with status 1 if fewer than the wanted share is killed. Every survivor is printed as a difference of two lines.
"""

import argparse
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from time import monotonic

from tests.mutants.areas import AREAS
from tests.mutants.changes import Mutant, draw
from tests.mutants.workshop import LEAST_S, SLOWER, Fate, Workshop, baseline
from tests.processes import ROOT


def try_all(drawn: Sequence[Mutant], names: Sequence[str], *, jobs: int, seed: int) -> list[Fate]:
    """What becomes of each mutant, in order."""
    with tempfile.TemporaryDirectory(prefix="shadowprice-mutants-") as folder:
        workshops: SimpleQueue[Workshop] = SimpleQueue()
        for job in range(jobs):
            (Path(folder) / str(job)).mkdir()
            workshops.put(Workshop(Path(folder) / str(job), seed=seed))
        first = workshops.get()
        took = baseline(first, names)
        workshops.put(first)

        def one(mutant: Mutant) -> Fate:
            workshop = workshops.get()
            try:
                fate = workshop.fate(mutant, most_s=SLOWER * took[mutant.area] + LEAST_S)
            finally:
                workshops.put(workshop)
            if fate is Fate.SURVIVED:
                print(f"survived: {mutant.shown((ROOT / mutant.path).read_bytes())}", flush=True)
            return fate

        with ThreadPoolExecutor(jobs) as pool:
            return list(pool.map(one, drawn))


def main() -> int:
    """Draw mutants, try them, print a table by area."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=297, help="mutants in all areas together (default: 297)")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default: 1)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="copies side by side")
    parser.add_argument("--least", type=float, default=0.9, help="share that has to be killed (default: 0.9)")
    parser.add_argument("--area", action="append", choices=list(AREAS), help="only this one; may be repeated")
    parser.add_argument("--again", type=Path, metavar="FILE", help="only those that survived by this output of a run")
    asked = parser.parse_args()
    names = [name for name in AREAS if name in (asked.area or AREAS)]
    drawn = draw(asked.count, asked.seed, names)
    if asked.again:
        before = asked.again.read_text()
        drawn = [mutant for mutant in drawn if f"{mutant.shown((ROOT / mutant.path).read_bytes())}\n" in before]
        names = [name for name in names if any(mutant.area == name for mutant in drawn)]
    began = monotonic()
    fates = try_all(drawn, names, jobs=asked.jobs, seed=asked.seed)
    rows = Counter((mutant.area, fate) for mutant, fate in zip(drawn, fates, strict=True))
    print(f"{'area':16} {'mutants':>8} {'killed':>8} {'timed out':>10} {'survived':>9}")
    for name in names:
        counts = [rows[name, fate] for fate in (Fate.KILLED, Fate.TIMED_OUT, Fate.SURVIVED)]
        print(f"{name:16} {sum(counts):8} {counts[0]:8} {counts[1]:10} {counts[2]:9}")
    killed = sum(fate is not Fate.SURVIVED for fate in fates)
    print(f"{killed} of {len(drawn)} mutants killed: {killed / len(drawn):.1%} (seed {asked.seed})")
    print(f"{(monotonic() - began) / len(drawn):.1f} s for each mutant")
    return 0 if killed >= asked.least * len(drawn) else 1


if __name__ == "__main__":
    sys.exit(main())
