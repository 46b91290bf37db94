"""The tables of the document about reproductions, made from the results that are kept beside it."""

import re
from collections.abc import Iterable, Sequence
from textwrap import fill

from studies.papers.figure import SEEDS, Figure, Paper, Scale
from studies.papers.results import Result

WIDTH = 120
SCALES = {Scale.SMALL: "small", Scale.MIDDLE: "middle", Scale.FULL: "the paper's scale"}
MARKED = re.compile(r"(<!-- begin ([a-z-]+) -->\n).*?(<!-- end \2 -->)", re.S)


def with_tables(text: str, papers: Iterable[Paper], results: Sequence[Result]) -> str:
    """Return a document whose marked sections are made from results.

    A section lies between `<!-- begin KEY -->` and `<!-- end KEY -->`, each on a line of its own.

    Raises
    ------
    ValueError
        If a paper has no section, or a section no paper.
    """
    made = {paper.key: table(paper, [one for one in results if one.reproduced.paper is paper]) for paper in papers}
    there = [key for _, key, _ in MARKED.findall(text)]
    if sorted(there) != sorted(made):
        raise ValueError(f"expected the marked sections {', '.join(made)}, got {', '.join(there) or 'none'}")
    return MARKED.sub(lambda match: match[1] + made[match[2]] + match[3], text)


def table(paper: Paper, results: Sequence[Result]) -> str:
    """Return a row of verdicts for each figure, and below what was claimed and measured."""
    scales = [scale for scale in Scale if any(one.reproduced.task.scale is scale for one in results)]
    head = ["figure", *(SCALES[scale] for scale in scales)]
    rows = [[figure.name, *(_verdict(results, figure, scale) for scale in scales)] for figure in paper.figures]
    lines = [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
    return "\n".join([*lines, "", *(_described(figure, results) for figure in paper.figures)]) + "\n"


def _of(results: Sequence[Result], figure: Figure, scale: Scale) -> Result | None:
    return next((r for r in results if r.reproduced.figure is figure and r.reproduced.task.scale is scale), None)


def _verdict(results: Sequence[Result], figure: Figure, scale: Scale) -> str:
    result = _of(results, figure, scale)
    if result is None:
        return "not run"
    done = result.reproduced
    seeds = len(done.task.seeds)
    notes = [] if seeds == SEEDS else [f"{seeds} seed{'s' if seeds > 1 else ''}"]
    if done.agreement is not None:
        notes.append(f"{100 * done.agreement:.0f} %")
    firm = f" ({', '.join(notes)})" if notes else ""
    return f"{done.finding.verdict}{firm}"


def _described(figure: Figure, results: Sequence[Result]) -> str:
    lines = [_wrapped("- ", f"**{figure.name}: {figure.title}.** Claimed: {figure.claim}")]
    for scale in Scale:
        result = _of(results, figure, scale)
        if result is not None:
            finding = result.reproduced.finding
            missing = f" **Missing:** {'; '.join(finding.missing)}." if finding.missing else ""
            lines.append(_wrapped("  - ", f"{SCALES[scale].capitalize()}: {finding.measured}.{missing}"))
    return "\n".join(lines)


def _wrapped(begin: str, text: str) -> str:
    """Return a list item in lines of at most WIDTH characters."""
    rest = " " * len(begin)
    return fill(
        text, WIDTH, initial_indent=begin, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )
