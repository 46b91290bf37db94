"""Claims of the papers about their testbeds, in our words, and judges of the order of the policies."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from studies.papers.figure import Finding, Verdict, found
from studies.testbed.measures import Measures, measured
from studies.testbed.results import Result

Measured = Mapping[str, Measures]
"""The measures of each policy in one run of the testbed."""
Number = Callable[[Measures], float | None]


@dataclass(frozen=True)
class Part:
    """A part of a claim: one policy is ahead of others by a measure."""

    words: str
    """The part as it stands among what is missing."""
    name: str
    """Name of the measure."""
    number: Number
    lower: bool = False
    """Whether less is better."""
    least: float | None = None
    """The advantage that is claimed over each other policy, as a share of that one's number; None if none is."""
    ties: bool = False
    """Whether being equal counts as ahead."""


@dataclass(frozen=True)
class Claim:
    """One statement of a paper."""

    paper: str
    figure: str
    text: str
    policy: str
    others: tuple[str, ...]
    parts: tuple[Part, ...]


def judge(claim: Claim, runs: Sequence[Measured]) -> Finding:
    """Judge a claim by the means over runs of the testbed."""
    names = (claim.policy, *claim.others)
    if not runs or any(name not in run for run in runs for name in names):
        return Finding(Verdict.UNJUDGED, "not all of these policies were run")
    direction, size, words = {}, {}, []
    for part in claim.parts:
        numbers = {name: [part.number(run[name]) for run in runs] for name in names}
        if any(number is None for of in numbers.values() for number in of):
            return Finding(Verdict.UNJUDGED, f"{part.name}: not all jobs came to an end")
        means = {name: float(np.mean([number for number in of if number is not None])) for name, of in numbers.items()}
        mine, others = means[claim.policy], [means[name] for name in claim.others]
        sign = -1 if part.lower else 1
        direction[part.words] = all(sign * mine > sign * other or (part.ties and mine == other) for other in others)
        if part.least is not None:
            least = part.least
            size[f"{part.words} by {least:.0%}"] = all(sign * (mine - other) >= least * abs(other) for other in others)
        words.append(f"{part.name}: " + ", ".join(f"{name} {means[name]:.4g}" for name in names))
    return found("; ".join(words), direction=direction, size=size)


def measures_of(result: Result) -> dict[str, Measures]:
    """Return the measures of each policy in a result."""
    facts = {"slot_s": result.slot_s, "deadline": result.deadline}
    return {run.policy: measured(run, **facts) for run in result.runs}


def _off_target(of: Measures) -> float | None:
    return None if of.timeliness is None else abs(of.timeliness)


CLAIMS: Final = (
    Claim(
        "DPS",
        "Figures 6 and 7",
        "DPS has more social welfare than DRF and FIFO, and completes the most jobs in the time of the experiment.",
        "DPS",
        ("DRF", "FIFO"),
        (
            Part("more welfare", "welfare", lambda of: of.welfare),
            Part("as many jobs completed", "jobs completed in time", lambda of: of.on_time, ties=True),
        ),
    ),
    Claim(
        "OASiS",
        "Figure 8",
        "OASiS has the most total utility.",
        "OASiS",
        ("FIFO", "DRF", "RRH", "Dorm"),
        (Part("more utility", "utility", lambda of: of.utility),),
    ),
    Claim(
        "OASiS",
        "Figure 9",
        "OASiS completes jobs closest to their targets, and with the least variance.",
        "OASiS",
        ("FIFO", "DRF", "RRH", "Dorm"),
        (
            Part("closer to the targets", "slots from the target", _off_target, lower=True),
            Part("less deviation", "deviation", lambda of: of.deviation, lower=True),
        ),
    ),
    Claim(
        "Preemptive",
        "Figure 4",
        "The preemptive policy has the least total time from arrival to completion.",
        "Preemptive",
        ("SRTF", "Tiresias-L", "BatchSche"),
        (Part("less time", "mean slots from arrival to completion", lambda of: of.jct, lower=True),),
    ),
    Claim(
        "Preemptive",
        "Figure 5",
        "The preemptive policy interrupts no more than SRTF and Tiresias-L.",
        "Preemptive",
        ("SRTF", "Tiresias-L"),
        (Part("no more restarts", "restarts", lambda of: of.starts, lower=True, ties=True),),
    ),
    Claim(
        "Weighted completion",
        "Section 7, simulations",
        "With parameter servers the weighted completion time is less than those of FIFO, DRF, AntMan and Tiresias, by "
        "30 % or more. The paper has no testbed; its question is asked here all the same.",
        "Weighted completion",
        ("FIFO", "DRF", "AntMan", "Tiresias"),
        (
            Part(
                "less weighted completion time",
                "weighted completion time",
                lambda of: of.weighted_completion,
                lower=True,
                least=0.3,
            ),
        ),
    ),
)
