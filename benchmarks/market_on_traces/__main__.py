"""Markets and queues on traces. `python -m benchmarks.market_on_traces [--traces FOLDER] [--page FILE]`.

Every trace of jobs x five loads x three seeds x two families of values x every policy. Without `--traces` the samples
of the project are replayed, on which defaults are tuned; with it every trace of jobs in that folder. Cells are written
to a file as they are computed, and a second run with the same file computes only what is missing: `--fresh` begins
again. `--archive` writes all cells into one compressed file, and `--archived` reports those of such a file
without any trace: the cells of the document are in `docs/measurements/market-on-traces/cells.jsonl.gz`. Values are
synthetic; `benchmarks/market_on_traces/workloads.py` says how windows and clusters are chosen.

In the table, columns with a load are welfare over the bound, *low* is the share admitted at loads of 0.5 and less, JCT
and its 95 % quantile at these loads are over those of SRTF in the same cell, *idle wanted* is the share of all
GPU-slots needed that were idle while a job would have fitted and been worth running, and *revenue* is over the bound.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.arguments import count, existing_file
from benchmarks.market_on_traces.archive import COMMITTED, Archive, read_archive, write_archive
from benchmarks.market_on_traces.cells import Cell, NoCells, Place
from benchmarks.market_on_traces.contenders import contenders
from benchmarks.market_on_traces.page import with_sections
from benchmarks.market_on_traces.picture import picture
from benchmarks.market_on_traces.report import table
from benchmarks.market_on_traces.results import Results, make_ready, run
from benchmarks.market_on_traces.targets import verdicts
from benchmarks.market_on_traces.workloads import (
    FAMILIES,
    JOBS,
    LOADS,
    SEEDS,
    NoTraces,
    Source,
    own_sources,
    sources,
)

MOST_PROCESSES = 2


def main() -> None:
    """Compute what is missing, then print the table and the verdicts."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.market_on_traces", description=__doc__)
    parser.add_argument("--traces", type=Path, metavar="FOLDER", help="traces to judge by instead of the own samples")
    parser.add_argument("--results", type=Path, metavar="FILE", help="the file of cells (var/market-on-traces.jsonl)")
    parser.add_argument("--fresh", action="store_true", help="delete the file of cells first")
    parser.add_argument("--processes", type=int, choices=range(1, MOST_PROCESSES + 1), default=MOST_PROCESSES)
    parser.add_argument("--jobs", type=count, default=JOBS, help="largest number of jobs of a cell")
    parser.add_argument("--seeds", type=count, help=f"number of seeds ({SEEDS} with --traces, else 1)")
    parser.add_argument("--only", default="", help="only policies whose name begins with one of these, with commas")
    parser.add_argument("--known", action="store_true", help="compute nothing: report the cells of the file")
    parser.add_argument("--trace", default="", help="only traces whose name has this in it")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="write the picture, SVG")
    parser.add_argument(
        "--page", type=existing_file, metavar="FILE", help="write the marked sections of this document again"
    )
    parser.add_argument("--archive", type=Path, metavar="FILE", help="write all cells into this compressed file")
    parser.add_argument("--commit", default="", help="with --archive: the commit at which the cells were computed")
    parser.add_argument(
        "--archived",
        type=existing_file,
        metavar="FILE",
        nargs="?",
        const=COMMITTED,
        help="compute nothing: report the cells of a compressed file, by default those of the document",
    )
    options = parser.parse_args()
    if options.archive is not None and not options.commit:
        parser.error("--archive needs --commit")
    options.seeds = options.seeds or (1 if options.traces is None else SEEDS)
    began = time.perf_counter()
    try:
        cells = list(read_archive(options.archived).cells) if options.archived else computed(options)
    except NoTraces as error:
        parser.error(f"--traces: {error}")
    except NoCells as error:
        parser.error(str(error))
    if not cells:
        parser.error("expected cells to report, got none: no policy, trace or stored cell is as --only and --trace say")
    for line in table(cells):
        print(line)
    print()
    for verdict in verdicts(cells):
        print(verdict.line)
    if options.picture is not None:
        options.picture.write_text(picture(cells), encoding="utf-8")
    if options.page is not None:
        text = options.page.read_text(encoding="utf-8")
        options.page.write_text(with_sections(text, cells), encoding="utf-8")
    if options.archive is not None:
        command = f"python -m benchmarks.market_on_traces{' --traces FOLDER' * (options.traces is not None)}"
        write_archive(options.archive, Archive(f"{command} --jobs {options.jobs}", options.commit, tuple(cells)))
    print(f"{len(cells)} cells, {time.perf_counter() - began:.0f} s")


def computed(options: argparse.Namespace) -> list[Cell]:
    """Return the cells of the file of results, computing those that are missing."""
    found = own_sources() if options.traces is None else sources(options.traces)
    make_ready()
    path = options.results or Path("var/market-on-traces.jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    if options.fresh:
        path.unlink(missing_ok=True)
    return compute([source for source in found if options.trace in source.name], options, path)


def compute(found: Sequence[Source], options: argparse.Namespace, path: Path) -> list[Cell]:
    """Return the cells of all places and policies, computing those that are missing."""
    asked = tuple(options.only.split(","))
    chosen = [one for one in contenders() if one.name.startswith(asked)]
    places = [
        Place(source.name, load, family, seed, options.jobs, options.seeds)
        for seed in range(options.seeds)
        for source in found
        for load in LOADS
        for family in FAMILIES
    ]
    results = Results(path)
    todo = [] if options.known else places
    for number, (place, cells) in enumerate(run(found, todo, chosen, results, processes=options.processes), 1):
        print(
            f"{number}: {place.trace}, load {place.load:g}, {place.family}, seed {place.seed}: {cells} cells",
            flush=True,
        )
    digests = {source.name: source.sha256 for source in found}
    known = (results.get(place, digests[place.trace], one) for place in places for one in chosen)
    return [cell for cell in known if cell is not None]


if __name__ == "__main__":
    main()
