"""`manage.py reproduce`: compute the figures of the papers with this implementation."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from frontend.presenters.reproduction import prepare, write_figure, write_index
from scheduling import kernels
from studies.papers.figure import SEEDS, Figure, Paper, Scale, Task, reproduce
from studies.papers.registry import PAPERS

BAR = 40
LARGEST_SEED = 10**9


class Command(BaseCommand):
    """Compute, judge and draw; exit status 2 if the paper or the figure is unknown."""

    help = "Draw the simulation figures of a paper with our implementation; without a paper, list them."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the paper, the figure and the scale."""
        parser.add_argument("paper", nargs="?", help=f"one of {', '.join(PAPERS)}")
        parser.add_argument("figure", nargs="?", help="its number as printed; all of them if left out")
        parser.add_argument("--full", action="store_true", help="at the paper's own scale: up to hours")
        parser.add_argument("--scale", choices=[str(scale) for scale in Scale], default="small")
        parser.add_argument("--seed", type=int, default=1, help="the first of the seeds")
        parser.add_argument("--seeds", type=int, help="how many (default 2, or 5 at the larger scales)")
        parser.add_argument("--out", type=Path, help="folder for pages, JSON and CSV (default var/reproduction)")

    def handle(self, *args: Any, **options: Any) -> None:
        """Compute and write figures, or list them."""
        if options["paper"] is None:
            self._list()
            return
        paper, figures = _asked(options["paper"], options["figure"])
        scale = Scale.FULL if options["full"] else Scale(options["scale"])
        count = SEEDS[scale] if options["seeds"] is None else options["seeds"]
        task = Task(scale, _seeds(options["seed"], count), self._progress)
        folder = (options["out"] or settings.VAR_DIR / "reproduction") / paper.key
        prepare(folder)
        kernels.warm_up()
        for figure in figures:
            self._drawing = figure.name
            done = reproduce(paper, figure, task)
            page = write_figure(done, folder)
            self.stdout.write(f"{figure.name}, {figure.title}: {done.finding.verdict}")
            self.stdout.write(f"  {done.finding.measured}")
            self.stdout.write(f"  {page}")
        write_index(paper, folder)

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


def _asked(key: str, number: str | None) -> tuple[Paper, tuple[Figure, ...]]:
    paper = PAPERS.get(key)
    if paper is None:
        raise CommandError(f"paper: expected one of {', '.join(PAPERS)}, got {key!r}", returncode=2)
    if number is None:
        return paper, paper.figures
    try:
        return paper, (paper.figure(number),)
    except KeyError as error:
        raise CommandError(f"figure: {error.args[0]}", returncode=2) from None


def _seeds(first: int, count: int) -> tuple[int, ...]:
    for name, value in (("seed", first), ("seeds", count)):
        if not 1 <= value <= LARGEST_SEED:
            raise CommandError(f"--{name}: expected 1 to {LARGEST_SEED}, got {value}", returncode=2)
    return tuple(range(first, first + count))
