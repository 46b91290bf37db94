"""The tables of the document about the testbed, made from the results that are kept beside it."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from textwrap import fill
from typing import Final

from studies.papers.figure import Finding
from studies.testbed.claims import CLAIMS, Claim, judge, measures_of
from studies.testbed.measures import Measures
from studies.testbed.results import Result

WIDTH: Final = 120
MARKED: Final = re.compile(r"(<!-- begin results -->\n).*?(<!-- end results -->)", re.S)
Cell = Callable[[Measures], str]


def with_results(text: str, results: Sequence[Result]) -> str:
    """Return a document whose marked section is made from results.

    Raises
    ------
    ValueError
        If there is not exactly one such section.
    """
    if len(MARKED.findall(text)) != 1:
        raise ValueError("expected one section between <!-- begin results --> and <!-- end results -->")
    made = "\n".join([_verdicts(results), *map(_described, results)])
    return MARKED.sub(lambda match: match[1] + made + match[2], text)


def summary(result: Result) -> str:
    """Return the verdicts and tables of one result."""
    return f"{_verdicts([result])}{_described(result)}"


def _verdicts(results: Sequence[Result]) -> str:
    runs = [measures_of(result) for result in results]
    found = [(claim, judge(claim, runs)) for claim in CLAIMS]
    rows = [[claim.paper, claim.figure, str(finding.verdict)] for claim, finding in found]
    return "\n".join([_table(["paper", "figure", "verdict"], rows), *(_claim(*one) for one in found)]) + "\n"


def _claim(claim: Claim, finding: Finding) -> str:
    missing = f" **Missing:** {'; '.join(finding.missing)}." if finding.missing else ""
    claimed = _wrapped("- ", f"**{claim.paper}, {claim.figure}.** Claimed: {claim.text}")
    return f"{claimed}\n{_wrapped('  - ', f'Measured: {finding.measured}.{missing}')}"


def _described(result: Result) -> str:
    measures = measures_of(result)
    findings = sum(run.findings for run in result.runs)
    first = (
        f"`{result.command}`: {len(result.runs[0].outcomes)} jobs, slots of {result.slot_s} s, {result.minutes:g} "
        f"minutes, SHA-256 of the jobs `{result.inputs[:16]}`. Servers: {result.servers}. On {result.cores} cores a "
        f"mean of {result.load[0]:g} processes ran or waited at the start and {result.load[1]:g} at the end, those of "
        f"the testbed included. The audits of all markets have {findings} findings."
    )
    parts = [
        f"## Run with seed {result.seed}\n{_wrapped('', first)}\n",
        _calibration(result),
        *(_table(["policy", *cells], _rows(measures, cells.values())) for cells in _TABLES),
    ]
    return "\n" + "\n".join(parts)


def _calibration(result: Result) -> str:
    profile = result.profile
    rows = [
        [
            f"{one.workers} {one.kind}",
            "ring" if one.ring else "parameter servers",
            f"{one.step_s:.3f}",
            f"{profile.step_s(one):.3f}",
            f"{one.step_s / profile.step_s(one):.2f}",
            f"{one.start_s:.1f}",
        ]
        for one in result.calibration
    ]
    return _table(["workers", "exchange", "s a step", "model", "quotient", "start and end, s"], rows)


def _number(name: str, digits: int) -> Cell:
    def cell(of: Measures) -> str:
        value = getattr(of, name)
        return "–" if value is None else f"{value:,.{digits}f}"

    return cell


_TABLES: Final[tuple[Mapping[str, Cell], ...]] = (
    {
        "admitted": _number("admitted", 0),
        "finished": _number("finished", 0),
        "slots late, mean": _number("late", 2),
        "slots late, p95": _number("late_p95", 2),
        "worker-slots": _number("worker_slots", 1),
        "makespan, slots": _number("makespan", 1),
    },
    {
        "restarts": _number("starts", 0),
        "s of a start without training": _number("overhead_s", 1),
        "s between two starts": _number("pause_s", 1),
        "samples trained again": _number("repeated", 0),
    },
    {
        "welfare (DPS)": _number("welfare", 0),
        "in time": _number("on_time", 0),
        "utility (OASiS)": _number("utility", 0),
        "target missed by": _number("timeliness", 1),
        "deviation": _number("deviation", 1),
        "weighted completion": _number("weighted_completion", 0),
        "JCT": _number("jct", 2),
    },
)


def _rows(measures: dict[str, Measures], cells: Iterable[Cell]) -> list[list[str]]:
    return [[name, *(cell(of) for cell in cells)] for name, of in measures.items()]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)) + "\n"


def _wrapped(begin: str, text: str) -> str:
    rest = " " * len(begin)
    return fill(
        text, WIDTH, initial_indent=begin, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )
