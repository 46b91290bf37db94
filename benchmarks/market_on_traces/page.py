"""The marked sections of the document, made from the cells."""

import re
from collections.abc import Sequence
from pathlib import PurePath

from benchmarks.market_on_traces.cells import Cell
from benchmarks.market_on_traces.report import rules_table, table
from benchmarks.market_on_traces.targets import LEAD, possible_lead, verdicts

MARKED = re.compile(r"(<!-- begin ([a-z]+) -->\n).*?(<!-- end \2 -->)", re.S)
NO_CELLS = "nothing of the kind was run"
SECTIONS = ("run", "targets", "rules", "table")
SHORT = 0.8
"""A load below this share of the one that a place states is named in the document."""


def with_sections(text: str, cells: Sequence[Cell]) -> str:
    """Return the document with the sections that lie between `<!-- begin KEY -->` and `<!-- end KEY -->`.

    Raises
    ------
    ValueError
        If the document has other sections than `SECTIONS`.
    """
    found = tuple(key for _, key, _ in MARKED.findall(text))
    if sorted(found) != sorted(SECTIONS):
        raise ValueError(f"expected the marked sections {', '.join(SECTIONS)}, got {', '.join(found) or 'none'}")
    made = {
        "run": run_of(cells),
        "targets": "\n".join(targets(cells)),
        "rules": "\n".join(rules_table(cells)),
        "table": "\n".join(table(cells)),
    }
    return MARKED.sub(lambda match: f"{match[1]}{made[match[2]]}\n{match[3]}", text)


def run_of(cells: Sequence[Cell]) -> str:
    """Return how many cells of which traces there are."""
    places = list(dict.fromkeys(cell.place for cell in cells))
    seeds = sorted({place.seed for place in places})
    lines = [f"{len(cells)} cells, {len(places)} workloads, seeds {', '.join(map(str, seeds))}:", ""]
    for name in dict.fromkeys(place.trace for place in places):
        mine = [cell for cell in cells if cell.place.trace == name]
        jobs = max(cell.submitted + cell.left_out for cell in mine)
        gpus = sorted({cell.gpus for cell in mine})
        slots = sorted({cell.slot_s for cell in mine})
        lines.append(
            f"- `{name[:40]}`: at most {jobs} jobs, {gpus[0]} to {gpus[-1]} GPUs, slots of"
            f" {' or '.join(f'{slot:,}' for slot in slots)} s"
        )
    return "\n".join([*lines, *_short(cells)])


def _short(cells: Sequence[Cell]) -> list[str]:
    """Return in how many workloads the load that is reached is well below the stated one; nothing if in none."""
    reached = {cell.place: cell for cell in cells}
    short = [one for place, one in reached.items() if one.reached_load < SHORT * place.load]
    if not short:
        return []
    least = min(short, key=lambda one: one.reached_load / one.place.load)
    return [
        "",
        f"In {len(short)} of {len(reached)} workloads the load that is reached is below {SHORT:g} of the one in the",
        "tables, since jobs with more GPUs than the cluster are left out. The furthest below is"
        f" {least.reached_load:.2f} at",
        f"{least.place.load:g} (`{least.place.trace[:40]}`, {least.gpus} GPU{'' if least.gpus == 1 else 's'}).",
    ]


def targets(cells: Sequence[Cell]) -> list[str]:
    """Return the verdicts as a table in Markdown."""
    lines = [
        "| market | target | wanted | mean | worst cell (trace, load) | reached in | |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for one in verdicts(cells):
        if not one.figures:
            lines.append(f"| {one.market} | {one.text} | - | - | - | 0 of 0 | not judged: {NO_CELLS} |")
            continue
        place = one.worst_place
        where = "" if place is None else f" ({PurePath(place.trace).stem[:10]}, {place.load:g})"
        wanted = f"{'>=' if one.at_least else '<='} {one.wanted:g}{' mean' if one.in_mean else ''}"
        lines.append(
            f"| {one.market} | {one.text} | {wanted} | {one.mean:.3f} | {one.worst:.3f}{where}"
            f" | {one.kept} of {len(one.figures)} | **{'met' if one.met else 'not met'}** |"
        )
    lead = possible_lead(cells)
    if lead is not None:
        lines += [
            "",
            f"By size, at loads of 1 and more, the bound for any schedule is {lead:.2f} times the welfare of the best "
            f"queue in the\nmean. A lead of {LEAD:g} times needs {LEAD / lead:.0%} of that bound.",
        ]
    return lines
