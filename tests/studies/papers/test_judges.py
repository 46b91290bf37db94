"""Every judge of a figure on made-up series: one that supports the claim, others that break one part of it each."""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytest

from studies.papers import oasis
from studies.papers.figure import Data, Figure, Finding, Point, Series, Verdict, found
from studies.papers.registry import PAPERS

REPRODUCED, DIRECTION, NOT, UNJUDGED = Verdict.REPRODUCED, Verdict.DIRECTION, Verdict.NOT, Verdict.UNJUDGED
Numbers = tuple[float, ...]
NUMBER = re.compile(r"[0-9]+")


@dataclass(frozen=True)
class Case:
    """Means of each series at each point, and the verdict that they deserve."""

    paper: str
    figure: str
    verdict: Verdict
    why: str
    series: Mapping[str, Numbers]
    missing: str = ""
    """A part of the claim that does not come out; empty if all do."""
    x: tuple[Point, ...] = ()
    """Names or numbers of the points; 1, 2, ... where they do not matter."""

    @property
    def printed(self) -> Figure:
        """The figure that is judged."""
        return PAPERS[self.paper].figure(self.figure)

    def data(self) -> Data:
        """The series, with two seeds of the same number at each point."""
        made = []
        for name, numbers in self.series.items():
            mean = np.array(numbers)
            made.append(Series(name, self.x or tuple(range(1, len(numbers) + 1)), np.stack([mean, mean], axis=1)))
        return Data(tuple(made))


def dps(mine: Numbers, fifo: Numbers, drf: Numbers) -> Mapping[str, Numbers]:
    return {"DPS": mine, "DPS, quantile prices": mine, "FIFO": fifo, "DRF": drf}


def utilities(linear: Numbers, sigmoid: Numbers, inverse: Numbers) -> Mapping[str, Numbers]:
    return {"linear": linear, "sigmoid": sigmoid, "inverse": inverse}


def oasis_by_jobs(mine: Numbers, best: Numbers) -> Mapping[str, Numbers]:
    others = {name: tuple(0.5 * number for number in best) for name in ("FIFO", "DRF", "RRH")}
    return {"OASiS": mine, "OASiS, quantile prices": mine, **others, "Dorm": best}


def lateness(mine: float, other: float, spread: float, others_spread: float) -> Mapping[str, Numbers]:
    kinds = ("time-sensitive", "time-critical")
    return dict.fromkeys(kinds, (mine, 0.0, other)) | {
        f"{kind}, deviation": (spread, 0.0, others_spread) for kind in kinds
    }


LATENESS_X = ("OASiS", "OASiS, quantile prices", "FIFO")


PRIORITIES = "OASiS, priorities 1 to 100"


def optimum(*shares: float) -> Mapping[str, Numbers]:
    return {f"{name}, priorities 1 to 10": shares for name in ("OASiS", "OASiS, quantile prices")}


def by_priorities(low: Numbers, high: Numbers) -> Mapping[str, Numbers]:
    return {**optimum(*low), PRIORITIES: high}


def misjudged(scarce: float | Numbers, plenty: float, power: float = 10.0) -> Mapping[str, Numbers]:
    """Utility at 10, 20, 50, 100, 150 and 200 %: `scarce` and `plenty` are what underestimates of U / L have.

    `power` is what underestimates of ln(U / L) have where resources are scarce.
    """
    under = (scarce,) * 3 if isinstance(scarce, int | float) else scarce
    rest = (10.0,) * 3
    return {
        f"many jobs, {oasis.RATIO}": under + rest,
        f"few jobs, {oasis.RATIO}": (plenty,) * 3 + rest,
        f"many jobs, {oasis.POWER}": (power,) * 3 + rest,
        f"few jobs, {oasis.POWER}": rest + rest,
    }


def rates(mine: Numbers, edge: Numbers, *, slope: bool = False) -> Mapping[str, Numbers]:
    """Times over SRTF's; with a `slope` BatchSche rises and Tiresias-L falls, as the paper says of more servers."""
    level = (1.0, 1.0)
    batches, tiresias = ((1.1, 1.2), (1.2, 1.1)) if slope else (level, level)
    others = {"SRTF": level, "Tiresias-L": tiresias, "BatchSche": batches}
    return {"A_online": mine, "A_online-E": edge, "A_online, jobmax": mine, **others}


def stops(mine: Numbers, edge: Numbers, srtf: Numbers) -> Mapping[str, Numbers]:
    return {"A_online": mine, "A_online-E": edge, "SRTF": srtf, "Tiresias-L": srtf}


def course(
    mine_ends: int, srtf_ends: int, tiresias_ends: int, mine_in_use: float, srtf_in_use: float
) -> Mapping[str, Numbers]:
    """Shares over 100 steps: jobs are all complete by the step named, workers in use at most that share."""

    def complete(end: int) -> Numbers:
        return tuple(1.0 if step >= end else 0.5 for step in range(1, 101))

    ends = {"A_online": mine_ends, "A_online-E": mine_ends, "SRTF": srtf_ends, "Tiresias-L": tiresias_ends}
    use = {name: mine_in_use if name.startswith("A_online") else srtf_in_use for name in ends}
    return {f"{name}, jobs complete": complete(end) for name, end in ends.items()} | {
        f"{name}, workers in use": (0.1, share) + (0.1,) * 98 for name, share in use.items()
    }


def ratios(*by_speed: Numbers) -> Mapping[str, Numbers]:
    names = ("epsilon = 0", "epsilon = 0.2", "epsilon = 0.5")
    fractional = dict(zip(names, by_speed, strict=True))
    return fractional | {f"{name}, time of jobs": (2.0,) * len(by_speed[0]) for name in names}


def totals(mine: Numbers, fast: Numbers, slow: Numbers) -> Mapping[str, Numbers]:
    """FIFO and DRF have the `fast` totals, AntMan and Tiresias the `slow` ones."""
    rest = {"FIFO": fast, "DRF": fast, "AntMan": slow, "Tiresias": slow}
    return {"A_online": mine, "A_online, rolling": mine, **rest}


def by_kind(mine: Numbers, rolling: Numbers) -> Mapping[str, Numbers]:
    return {"A_online, ps": mine, "A_online, rolling, ps": rolling}


def weights(mine: Numbers, jain: Numbers) -> Mapping[str, Numbers]:
    return {"A_maxweight": mine, "A_maxweight, no price": mine, "Jain et al.": jain}


def table(above: Numbers, faster: Numbers) -> Mapping[str, Numbers]:
    return {"ADMM above the optimum, %": above, "speedup of ADMM over the integer program": faster}


def lengths(short: Numbers, long: Numbers, faster: Numbers) -> Mapping[str, Numbers]:
    row = {"makespan at 50 ms, s": short, "makespan at 150 ms, s": short, "makespan at 200 ms, s": long}
    return row | {"speedup at 200 ms": faster}


def methods(admm: Numbers, balanced: Numbers) -> Mapping[str, Numbers]:
    return {"admm": admm, "balanced-greedy": balanced, "random": (10.0,) * len(admm)}


METHODS_X = ("1, resnet101, 10 x 2", "1, resnet101, 100 x 10", "2, vgg19, 100 x 10")
HELPERS_X = (1, 2, 5, 10, 15, 20)
NO_LEAD = "at every point"

CASES = (
    # DPS
    Case("dps", "8", REPRODUCED, "3.6 and twice as much, growing", dps((36, 40), (10, 20), (18, 20))),
    Case("dps", "8", DIRECTION, "never twice DRF", dps((36, 40), (10, 20), (30, 30)), "95 % more than DRF"),
    Case("dps", "8", DIRECTION, "three times FIFO", dps((30, 40), (10, 20), (15, 20)), "259 % more than FIFO"),
    Case("dps", "8", NOT, "behind DRF at one point", dps((36, 40, 41), (10, 20, 20), (10, 41, 20)), NO_LEAD),
    Case("dps", "8", NOT, "level with DRF at one point", dps((36, 40), (10, 20), (36, 20)), NO_LEAD),
    Case("dps", "8", NOT, "welfare falls at one step", dps((36, 39, 38, 45), (9,) * 4, (9,) * 4), "falls at no step"),
    Case("dps", "8", NOT, "welfare does not grow", dps((40, 40), (10, 10), (10, 10)), "falls at no step"),
    Case("dps", "12", REPRODUCED, "twice each; no growth is claimed", dps((40, 36), (10, 10), (18, 18))),
    Case("dps", "12", DIRECTION, "ahead by less", dps((15, 30), (10, 20), (10, 20)), "95 % more than DRF"),
    Case("dps", "12", NOT, "behind FIFO at one point", dps((40, 36, 9), (10, 10, 10), (18, 18, 8)), NO_LEAD),
    Case("dps", "10", REPRODUCED, "optimum at most 1.6 times", {"a": (1.0, 0.7), "b": (0.63, 0.9)}),
    Case("dps", "10", DIRECTION, "twice at one point", {"a": (1.0, 0.5), "b": (0.63, 0.9)}, "at every point"),
    Case("dps", "10", NOT, "twice in the mean", {"a": (0.6, 0.4), "b": (0.63, 0.4)}, "in the mean"),
    Case("dps", "11", REPRODUCED, "ahead everywhere, steady", dps((0.9, 0.8), (0.5, 0.4), (0.6, 0.7))),
    Case("dps", "11", REPRODUCED, "level at the optimum", dps((1.0, 0.8), (0.5, 0.4), (1.0, 0.7))),
    Case("dps", "11", DIRECTION, "unsteady", dps((0.9, 0.6), (0.5, 0.4), (0.6, 0.5)), "varies"),
    Case("dps", "11", NOT, "ahead in the mean only", dps((0.9, 0.8), (0.5, 0.4), (0.6, 0.85)), "at any point"),
    Case("dps", "11", NOT, "behind in the mean", dps((0.9, 0.8), (0.5, 0.4), (0.95, 0.85)), "in the mean"),
    Case("dps", "16", REPRODUCED, "inverse best, growing most", utilities((1, 2), (1, 2), (2, 6))),
    Case(
        "dps", "16", DIRECTION, "inverse not best at first", utilities((1, 2), (2.5, 3), (2, 6)), "most at every point"
    ),
    Case("dps", "16", NOT, "inverse grows least", utilities((1, 3), (1, 2), (5, 6)), "grows most"),
    Case("dps", "16", NOT, "sigmoid falls at one step", utilities((1, 2, 3), (1, 3, 2), (2, 6, 9)), "falls at no step"),
    Case("dps", "17", REPRODUCED, "nobody pays more", {"value": (5, 3), "payment": (5, 2)}),
    Case("dps", "17", NOT, "one winner pays more", {"value": (5, 3), "payment": (4, 3.1)}, "no winner"),
    Case("dps", "18", REPRODUCED, "below two seconds", {"2 servers": (0.1, 0.2), "8 servers": (0.1, 1.9)}),
    Case("dps", "18", NOT, "two seconds once", {"2 servers": (0.1, 0.2), "8 servers": (0.1, 2.0)}, "less than 2 s"),
    # OASiS
    Case("oasis", "3", REPRODUCED, "a lead that grows", oasis_by_jobs((12, 24, 30), (10, 20, 20))),
    Case("oasis", "3", DIRECTION, "a lead that shrinks once", oasis_by_jobs((15, 22, 30), (10, 20, 20)), "grows"),
    Case("oasis", "3", NOT, "level at one point", oasis_by_jobs((10, 25, 30), (10, 20, 20)), "every number of jobs"),
    Case("oasis", "3", NOT, "behind in the middle", oasis_by_jobs((12, 19, 30), (10, 20, 20)), "every number of jobs"),
    Case("oasis", "4", REPRODUCED, "closest and steadiest", lateness(-1, 5, 1, 2), x=LATENESS_X),
    Case("oasis", "4", DIRECTION, "closest, not steadiest", lateness(-1, 5, 3, 2), "variance", LATENESS_X),
    Case("oasis", "4", NOT, "further away, too early", lateness(-6, 5, 1, 2), "closest", LATENESS_X),
    Case("oasis", "5", REPRODUCED, "optimum 1.1 to 1.5 times", optimum(0.8, 0.75)),
    Case("oasis", "5", DIRECTION, "optimum twice at one point", optimum(0.7, 0.5, 0.8), "around 1.1 to 1.5"),
    Case("oasis", "5", DIRECTION, "better than the paper says", optimum(1.0, 0.99), "around 1.1 to 1.5"),
    Case("oasis", "5", DIRECTION, "a trend by servers", optimum(0.9, 0.7), "no trend"),
    Case("oasis", "5", DIRECTION, "a trend by priorities", by_priorities((0.9, 0.9), (0.7, 0.7)), "no trend"),
    Case("oasis", "5", NOT, "optimum twice in the mean", optimum(0.7, 0.3), "in the mean"),
    Case("oasis", "6", REPRODUCED, "underestimates help where scarce", misjudged(12, 11), x=oasis.SHARES),
    Case("oasis", "6", DIRECTION, "they help more where not scarce", misjudged(12, 13), "not scarce", oasis.SHARES),
    Case("oasis", "6", DIRECTION, "one is worse", misjudged((15, 15, 9), 10), "every underestimate", oasis.SHARES),
    Case("oasis", "6", NOT, "overestimates help", misjudged(9, 8), "in the mean", oasis.SHARES),
    Case("oasis", "6", NOT, "only where ln(U / L) is wrong", misjudged(9, 8, power=12), "in the mean", oasis.SHARES),
    # Preemptive scheduling
    Case("preemptive", "7", REPRODUCED, "30 % less, gaps that grow", rates((0.6, 0.5), (0.7, 0.8))),
    Case("preemptive", "7", DIRECTION, "25 % less at most", rates((0.8, 0.75), (0.85, 0.9)), "30 % below"),
    Case("preemptive", "7", DIRECTION, "a gap that shrinks", rates((0.5, 0.6), (0.6, 0.9)), "more over SRTF"),
    Case("preemptive", "7", NOT, "not ahead without a cloud", rates((0.6, 0.5), (1.1, 1.2)), "without a cloud"),
    Case("preemptive", "7", NOT, "behind at one point", rates((0.6, 0.85), (0.7, 0.8)), "below all others"),
    Case("preemptive", "8", REPRODUCED, "30 % less, and all trends", rates((0.6, 0.7), (0.8, 0.75), slope=True)),
    Case("preemptive", "8", DIRECTION, "no trend of the others", rates((0.6, 0.7), (0.8, 0.75)), "BatchSche rises"),
    Case("preemptive", "8", DIRECTION, "A_online falls", rates((0.6, 0.5), (0.8, 0.75), slope=True), "A_online rises"),
    Case("preemptive", "8", DIRECTION, "25 % less at most", rates((0.75, 0.8), (0.9, 0.85), slope=True), "30 % below"),
    Case("preemptive", "8", DIRECTION, "A_online-E rises", rates((0.6, 0.7), (0.75, 0.8), slope=True), "A_online-E"),
    Case("preemptive", "8", NOT, "not ahead without a cloud", rates((0.6, 0.7), (1.3, 1.25), slope=True), "without a"),
    Case("preemptive", "8", NOT, "behind at one point", rates((0.6, 0.7), (0.8, 0.65), slope=True), "below all others"),
    Case("preemptive", "9", REPRODUCED, "fewer with a cloud, more than SRTF", stops((5, 6), (7, 8), (1, 2))),
    Case("preemptive", "9", DIRECTION, "no more than SRTF once", stops((5, 6), (7, 8), (5, 2)), "more than SRTF"),
    Case("preemptive", "9", NOT, "more with a cloud", stops((5, 9), (7, 8), (1, 2)), "than without a cloud"),
    Case("preemptive", "11", REPRODUCED, "all workers, three quarters", course(75, 98, 100, 1.0, 0.6)),
    Case("preemptive", "11", DIRECTION, "all workers, nearly as long", course(97, 98, 100, 1.0, 0.6), "0.76"),
    Case("preemptive", "11", DIRECTION, "far shorter than said", course(10, 98, 100, 1.0, 0.6), "0.76"),
    Case("preemptive", "11", NOT, "nobody uses all workers", course(75, 98, 100, 0.9, 0.6), "all workers"),
    Case("preemptive", "11", NOT, "SRTF uses all workers, too", course(75, 98, 100, 1.0, 1.0), "never all"),
    Case("preemptive", "11", NOT, "it takes longer", course(99, 98, 100, 1.0, 0.6), "shorter makespan"),
    Case("preemptive", "12", REPRODUCED, "low, steady, falling", ratios((1.5, 1.6), (1.2, 1.3), (1.0, 1.05))),
    Case("preemptive", "12", DIRECTION, "high", ratios((1.8, 1.9), (1.5, 1.6), (1.0, 1.0)), "below 1.7"),
    Case("preemptive", "12", DIRECTION, "high when fast", ratios((1.5, 1.6), (1.4, 1.5), (1.3, 1.3)), "epsilon = 0.5"),
    Case("preemptive", "12", NOT, "no lower with speed", ratios((1.5, 1.6), (1.5, 1.6), (1.0, 1.05)), "the faster"),
    Case("preemptive", "12", NOT, "unsteady when fast", ratios((1.5, 1.6), (1.2, 1.3), (0.7, 1.05)), "varies"),
    # Weighted completion
    Case("weighted-completion", "2", REPRODUCED, "30 % less", totals((7, 14), (10, 20), (11, 21))),
    Case("weighted-completion", "2", DIRECTION, "20 % less", totals((8, 16), (10, 20), (11, 21)), "30 % below"),
    Case("weighted-completion", "2", DIRECTION, "30 % only once", totals((7, 16), (10, 20), (11, 21)), "30 % below"),
    Case("weighted-completion", "2", DIRECTION, "AntMan is good", totals((7, 14), (10, 20), (11, 20)), "AntMan"),
    Case("weighted-completion", "2", NOT, "more at one point", totals((7, 21), (10, 20), (11, 21)), NO_LEAD),
    Case("weighted-completion", "3", REPRODUCED, "30 % less, rising", totals((7, 14), (10, 20), (11, 21))),
    Case("weighted-completion", "3", DIRECTION, "falling", totals((14, 7), (20, 10), (21, 11)), "rises"),
    Case("weighted-completion", "3", DIRECTION, "AntMan is good", totals((7, 14), (10, 20), (11, 20)), "AntMan"),
    Case("weighted-completion", "3", NOT, "more at one point", totals((7, 21), (10, 20), (11, 21)), NO_LEAD),
    Case("weighted-completion", "5", REPRODUCED, "30 % less than all", totals((14, 7), (20, 10), (20, 10))),
    Case("weighted-completion", "5", DIRECTION, "20 % less", totals((8, 16), (10, 20), (10, 20)), "30 % below"),
    Case("weighted-completion", "5", NOT, "more at one point", totals((7, 21), (10, 20), (10, 20)), NO_LEAD),
    Case("weighted-completion", "6", REPRODUCED, "30 % less, rising", totals((7, 14), (10, 20), (10, 20))),
    Case("weighted-completion", "6", DIRECTION, "falling", totals((14, 7), (20, 10), (20, 10)), "rises"),
    Case("weighted-completion", "6", NOT, "more at one point", totals((7, 21), (10, 20), (10, 20)), NO_LEAD),
    Case("weighted-completion", "4", REPRODUCED, "more at every step", {"A_online": (5, 6, 7)}),
    Case("weighted-completion", "4", DIRECTION, "level between", {"A_online": (5, 6, 6)}, "every step"),
    Case("weighted-completion", "4", NOT, "no more at the end", {"A_online": (5, 7, 5)}, "largest F"),
    Case("weighted-completion", "7", REPRODUCED, "grows, short", by_kind((1, 2, 100), (3, 2, 1))),
    Case("weighted-completion", "7", DIRECTION, "shorter between", by_kind((2, 1, 100), (3, 2, 1)), "every step"),
    Case("weighted-completion", "7", NOT, "shorter at the end", by_kind((2, 3, 1), (1, 2, 100)), "most jobs"),
    Case("weighted-completion", "7", NOT, "two minutes", by_kind((1, 2, 120), (1, 2, 3)), "two minutes"),
    Case("weighted-completion", "8", REPRODUCED, "30 % more everywhere", weights((13, 14), (10, 10))),
    Case("weighted-completion", "8", DIRECTION, "30 % more once", weights((11, 14), (10, 10)), "30 % more"),
    Case("weighted-completion", "8", NOT, "level at one point", weights((10, 13), (10, 10)), "every number of jobs"),
    Case("weighted-completion", "8", NOT, "less at one point", weights((9, 13), (10, 10)), "every number of jobs"),
    Case("weighted-completion", "9", REPRODUCED, "any type is best", by_kind((11, 8, 7), (7, 8, 9))),
    Case("weighted-completion", "9", DIRECTION, "types are alike", by_kind((9, 8, 7), (7, 8, 9)), "types differ"),
    Case("weighted-completion", "9", NOT, "any type is as good", by_kind((11, 8, 8), (9, 9, 1)), "every single one"),
    Case("weighted-completion", "10", REPRODUCED, "less at every step", by_kind((9, 8, 7), (7, 8, 9))),
    Case("weighted-completion", "10", DIRECTION, "level between", by_kind((9, 8, 8), (7, 8, 9)), "every step"),
    Case("weighted-completion", "10", NOT, "the same at the end", by_kind((9, 7, 9), (9, 8, 1)), "most workers"),
    Case("weighted-completion", "11", REPRODUCED, "less at every step", {"24": (9, 8, 7), "48": (19, 18, 17)}),
    Case("weighted-completion", "11", DIRECTION, "level between", {"24": (9, 8, 8), "48": (19, 18, 17)}, "every step"),
    Case("weighted-completion", "11", NOT, "one does not fall", {"24": (9, 8, 9), "48": (19, 18, 17)}, "largest F"),
    Case(
        "weighted-completion", "12", REPRODUCED, "less by servers, more by jobs", {"24": (9, 8, 7), "48": (19, 18, 17)}
    ),
    Case("weighted-completion", "12", DIRECTION, "level between", {"24": (9, 8, 8), "48": (19, 18, 10)}, "every step"),
    Case(
        "weighted-completion", "12", NOT, "one does not fall", {"24": (9, 8, 9.1), "48": (19, 18, 10)}, "most servers"
    ),
    Case("weighted-completion", "12", NOT, "fewer by jobs", {"24": (9, 8, 7), "48": (19, 18, 6)}, "more jobs"),
    # Split learning
    Case("split-learning", "II", REPRODUCED, "near and fast", table((1, 5, 14.9), (13, 20, 50))),
    Case("split-learning", "II", DIRECTION, "not fast in one row", table((1, 5, 14.9), (12, 20, 50)), "12.5 times"),
    Case("split-learning", "II", DIRECTION, "one row far away", table((1, 5, 15), (13, 20, 50)), "all rows but one"),
    Case("split-learning", "II", DIRECTION, "two rows away", table((1, 5, 6, 11, 11), (13,) * 5), "all rows but one"),
    Case("split-learning", "II", NOT, "near and slow", table((1, 5, 14.9), (0.1, 0.2, 50)), "faster than"),
    Case("split-learning", "II", NOT, "most rows far away", table((1, 15, 14.9), (13, 20, 50)), "most rows"),
    Case("split-learning", "6", REPRODUCED, "longer and sooner", lengths((10, 10), (11, 12), (2, 3))),
    Case("split-learning", "6", DIRECTION, "later once", lengths((9,) * 3, (11,) * 3, (2, 3, 0.5)), "sooner in every"),
    Case(
        "split-learning", "6", DIRECTION, "shorter once", lengths((9,) * 3, (8, 11, 11), (2, 3, 4)), "longer in every"
    ),
    Case("split-learning", "6", NOT, "shorter", lengths((10, 10), (9, 9), (2, 3)), "longer in the mean"),
    Case("split-learning", "6", NOT, "later", lengths((10, 10), (11, 12), (0.2, 0.3)), "sooner in most"),
    Case("split-learning", "7", REPRODUCED, "ADMM but where crowded", methods((5, 9, 5), (8, 8, 7)), x=METHODS_X),
    Case("split-learning", "7", DIRECTION, "a tenth", methods((9, 9.5, 9), (9.1, 9, 9)), "52.3 % shorter", METHODS_X),
    Case("split-learning", "7", DIRECTION, "little over greedy", methods((5, 9, 5), (6, 8, 6)), "ADMM 32 %", METHODS_X),
    Case("split-learning", "7", NOT, "ADMM where crowded", methods((5, 7, 5), (8, 8, 7)), "100 clients", METHODS_X),
    Case("split-learning", "7", NOT, "greedy where not", methods((5, 9, 5), (4, 8, 9)), "most 50", METHODS_X),
    Case(
        "split-learning",
        "7",
        NOT,
        "longer than random",
        methods((5, 9, 11), (8, 8, 12)),
        "baseline in every",
        METHODS_X,
    ),
    Case("split-learning", "7", UNJUDGED, "none crowded", methods((5,), (8,)), "rows of scenario 1", METHODS_X[:1]),
    Case("split-learning", "7", UNJUDGED, "in 2 only", methods((5,), (8,)), "rows of scenario 1", METHODS_X[2:]),
    Case("split-learning", "8", REPRODUCED, "the second helps most", {"1": (10, 5, 4, 3, 2.9, 2.85)}, x=HELPERS_X),
    Case("split-learning", "8", DIRECTION, "it helps little", {"1": (10, 7, 6, 5, 4.8, 4.7)}, "47.6 %", HELPERS_X),
    Case("split-learning", "8", DIRECTION, "later more", {"1": (10, 5, 4, 3, 2.9, 2.7)}, "ever less", HELPERS_X),
    Case("split-learning", "8", NOT, "15 help more", {"1": (10, 9, 8, 7, 5, 4.9)}, "than the second", HELPERS_X),
    Case("split-learning", "8", NOT, "it does not help", {"1": (10, 10, 8, 7, 7, 7)}, "a second helper", HELPERS_X),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.paper}-{case.figure}-{case.why}")
def test_a_judge_gives_the_verdict_that_the_series_deserve(case: Case) -> None:
    finding = case.printed.judge(case.data())
    assert finding.verdict is case.verdict, (finding.missing, finding.measured)
    assert finding.measured
    assert (not finding.missing) == (case.verdict is REPRODUCED)
    assert case.missing in "; ".join(finding.missing)


def test_every_judge_has_series_that_pass_and_series_that_fail() -> None:
    tried: dict[object, set[Verdict]] = {}
    for case in CASES:
        # The judge of a figure of several conditions is one function for all of them.
        tried.setdefault(case.printed.judge, set()).add(case.verdict)
    judges = {figure.judge for paper in PAPERS.values() for figure in paper.figures}
    assert judges == set(tried)
    for judge, verdicts in tried.items():
        assert {REPRODUCED, NOT} <= verdicts, judge


def test_every_part_of_a_claim_holds_for_some_series_and_not_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: dict[tuple[object, str], set[bool]] = {}
    judged: list[Figure] = []

    def noted(measured: str, *, direction: Mapping[str, bool], size: Mapping[str, bool]) -> Finding:
        for part, holds in {**direction, **size}.items():
            # Numbers of a part depend on the conditions of the figure.
            tried.setdefault((judged[-1].judge, NUMBER.sub("#", part)), set()).add(bool(holds))
        return found(measured, direction=direction, size=size)

    for name, module in sys.modules.items():
        if name.startswith("studies.papers.") and hasattr(module, "found"):
            monkeypatch.setattr(module, "found", noted)
    for case in CASES:
        judged.append(case.printed)
        case.printed.judge(case.data())
    assert {judge for judge, _ in tried} == {case.printed.judge for case in CASES}
    assert [part for (_, part), seen in tried.items() if seen != {True, False}] == []
