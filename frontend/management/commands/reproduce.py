"""`manage.py reproduce`: compute the figures of the papers with this implementation."""

from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from frontend.presenters.reproduction import prepare, write_figure, write_index
from scheduling import kernels
from studies.papers.figure import RESAMPLES, SEEDS, Figure, Paper, Scale, Task, reproduce
from studies.papers.registry import PAPERS
from studies.papers.results import Result, file_name, write_result
from studies.papers.run_file import RunFile

BAR = 40
LARGEST_SEED = 10**9


class Command(BaseCommand):
    """Compute, judge and draw; exit status 2 if the paper or the figure is unknown."""

    help = "Draw the simulation figures of a paper with our implementation; without a paper, list them."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the paper, the figure and the scale."""
        parser.add_argument("paper", nargs="?", help=f"one of {', '.join(PAPERS)}")
        parser.add_argument("figure", nargs="*", help="numbers as printed; all of them if left out")
        scale = parser.add_mutually_exclusive_group()
        scale.add_argument("--full", action="store_true", help="at the paper's own scale: up to hours")
        scale.add_argument(
            "--scale", choices=[str(scale) for scale in Scale], default="small",
            help="size of the instances (default small: a minute or two for a paper); full is the paper's own",
        )  # fmt: skip
        parser.add_argument("--seed", type=int, default=1, help="the first of the seeds")
        parser.add_argument("--seeds", type=int, default=SEEDS, help=f"how many (default {SEEDS})")
        parser.add_argument("--out", type=Path, help="folder for pages, JSON and CSV (default var/reproduction)")
        parser.add_argument(
            "--resume", action="store_true", help="keep the runs that an interrupted command of the same code finished"
        )
        parser.add_argument(
            "--record", action="store_true", help="also keep the result in docs/measurements/reproduction"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Compute and write figures, or list them."""
        if options["paper"] is None:
            self._list()
            return
        paper, figures = _asked(options["paper"], options["figure"])
        scale = Scale.FULL if options["full"] else Scale(options["scale"])
        task = Task(scale, _seeds(options["seed"], options["seeds"]), self._progress)
        folder = (options["out"] or settings.VAR_DIR / "reproduction") / paper.key
        try:
            prepare(folder)
        except OSError as error:
            raise CommandError(f"--out: expected a folder that can be written, got {error}", returncode=2) from None
        kernels.warm_up_all()
        for figure in figures:
            self._drawing = figure.name
            runs = RunFile(folder / f"{file_name(figure)}-{scale}.runs.jsonl", resume=options["resume"])
            if runs.of_other_code:
                self.stderr.write(f"{figure.name}: {runs.of_other_code} runs of other code are made again.")
            result = _computed(paper, figure, replace(task, runs=runs))
            if options["record"]:
                write_result(result, settings.BASE_DIR / "docs/measurements/reproduction")
            self._report(result, write_figure(result.reproduced, folder))
        write_index(paper, folder)

    def _report(self, result: Result, page: Path) -> None:
        figure, finding = result.reproduced.figure, result.reproduced.finding
        self.stdout.write(f"{figure.name}, {figure.title}: {finding.verdict}")
        self.stdout.write(f"  {finding.measured}")
        for part in finding.missing:
            self.stdout.write(f"  missing: {part}")
        if result.reproduced.agreement is not None:
            share = f"{100 * result.reproduced.agreement:.0f} %"
            self.stdout.write(f"  the same verdict in {share} of {RESAMPLES:,} bootstrap samples of the seeds")
        self.stdout.write(f"  {page} ({result.processor_s:.0f} s)")

    def _list(self) -> None:
        for paper in PAPERS.values():
            self.stdout.write(f"{paper.key}: {paper.title}, {paper.section}")
            for figure in paper.figures:
                self.stdout.write(f"  {figure.number:>3}  {figure.title}")

    def _progress(self, done: int, total: int) -> None:
        """Draw a progress bar on a terminal, but not into a file or a pipe."""
        if self.stderr.isatty():
            filled = BAR * done // total
            bar = f"\r{self._drawing} [{'#' * filled}{'.' * (BAR - filled)}] {done} of {total} runs"
            self.stderr.write(bar, ending="\n" if done == total else "")


def _computed(paper: Paper, figure: Figure, task: Task) -> Result:
    """Compute a figure; its time includes that of runs of an earlier time."""
    began = process_time() - (task.runs.earlier_s if task.runs else 0.0)
    done = reproduce(paper, figure, task)
    first, count = task.seeds[0], len(task.seeds)
    words = f"manage.py reproduce {paper.key} {figure.number} --scale {task.scale} --seed {first} --seeds {count}"
    return Result(done, words, process_time() - began)


def _asked(key: str, numbers: list[str]) -> tuple[Paper, tuple[Figure, ...]]:
    paper = PAPERS.get(key)
    if paper is None:
        raise CommandError(f"paper: expected one of {', '.join(PAPERS)}, got {key!r}", returncode=2)
    try:
        return paper, tuple(map(paper.figure, numbers)) or paper.figures
    except KeyError as error:
        raise CommandError(f"figure: {error.args[0]}", returncode=2) from None


def _seeds(first: int, count: int) -> tuple[int, ...]:
    for name, value in (("seed", first), ("seeds", count)):
        if not 1 <= value <= LARGEST_SEED:
            raise CommandError(f"--{name}: expected 1 to {LARGEST_SEED}, got {value}", returncode=2)
    return tuple(range(first, first + count))
