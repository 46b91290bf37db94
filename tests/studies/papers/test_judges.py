"""Every judge of a figure on made-up series: one that supports the claim, others that break one part of it each."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytest

from studies.papers import oasis
from studies.papers.figure import Data, Figure, Point, Series, Verdict
from studies.papers.registry import PAPERS

REPRODUCED, DIRECTION, NOT = Verdict.REPRODUCED, Verdict.DIRECTION, Verdict.NOT
Numbers = tuple[float, ...]


@dataclass(frozen=True)
class Case:
    """Means of each series at each point, and the verdict that they deserve."""

    paper: str
    figure: str
    verdict: Verdict
    why: str
    series: Mapping[str, Numbers]
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


def oasis_by_jobs(mine: Numbers, best: Numbers) -> Mapping[str, Numbers]:
    others = {name: tuple(0.5 * number for number in best) for name in ("FIFO", "DRF", "RRH")}
    return {"OASiS": mine, "OASiS, quantile prices": mine, **others, "Dorm": best}


def lateness(mine: float, other: float, spread: float, others_spread: float) -> Mapping[str, Numbers]:
    kinds = ("time-sensitive", "time-critical")
    return dict.fromkeys(kinds, (mine, 0.0, other)) | {
        f"{kind}, deviation": (spread, 0.0, others_spread) for kind in kinds
    }


LATENESS_X = ("OASiS", "OASiS, quantile prices", "FIFO")


def optimum(*shares: float) -> Mapping[str, Numbers]:
    return {f"{name}, priorities 1 to 10": shares for name in ("OASiS", "OASiS, quantile prices")}


def misjudged(scarce: float, plenty: float) -> Mapping[str, Numbers]:
    """Utility at 10, 20, 50, 100, 150 and 200 %: `scarce` and `plenty` are what underestimates have."""
    rows = {"many jobs": (scarce,) * 3 + (10.0,) * 3, "few jobs": (plenty,) * 3 + (10.0,) * 3}
    return {f"{name}, {factor}": row for name, row in rows.items() for factor in (oasis.RATIO, oasis.POWER)}


def rates(mine: Numbers, edge: Numbers, jobmax: Numbers, others: Numbers) -> Mapping[str, Numbers]:
    gangs = dict.fromkeys(("SRTF", "Tiresias-L", "BatchSche"), others)
    return {"A_online": mine, "A_online-E": edge, "A_online, jobmax": jobmax, **gangs}


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


def competitive_ratios(*by_speed: Numbers) -> Mapping[str, Numbers]:
    names = ("epsilon = 0", "epsilon = 0.2", "epsilon = 0.5")
    fractional = dict(zip(names, by_speed, strict=True))
    return fractional | {f"{name}, time of jobs": (2.0,) * len(by_speed[0]) for name in names}


def totals(mine: Numbers, rolling: Numbers, others: Numbers) -> Mapping[str, Numbers]:
    rest = dict.fromkeys(("FIFO", "DRF", "AntMan", "Tiresias"), others)
    return {"A_online": mine, "A_online, rolling": rolling, **rest}


def by_kind(mine: Numbers, rolling: Numbers) -> Mapping[str, Numbers]:
    return {"A_online, ps": mine, "A_online, rolling, ps": rolling}


def weights(mine: Numbers, jain: Numbers) -> Mapping[str, Numbers]:
    return {"A_maxweight": mine, "A_maxweight, no price": mine, "Jain et al.": jain}


def table(above: Numbers, faster: Numbers) -> Mapping[str, Numbers]:
    return {"ADMM above the optimum, %": above, "speedup of ADMM over the integer program": faster}


def lengths(short: Numbers, long: Numbers, faster: Numbers) -> Mapping[str, Numbers]:
    row = {"makespan at 50 ms, s": short, "makespan at 150 ms, s": short, "makespan at 200 ms, s": long}
    return row | {"speedup at 200 ms": faster}


def methods(admm: Numbers, balanced: Numbers, baseline: Numbers) -> Mapping[str, Numbers]:
    return {"admm": admm, "balanced-greedy": balanced, "random": baseline}


METHODS_X = ("1, resnet101, 10 x 2", "1, resnet101, 100 x 10", "2, vgg19, 100 x 10")
HELPERS_X = (1, 2, 5, 10, 15)

CASES = (
    # DPS
    Case("dps", "8", REPRODUCED, "twice each, and growing", dps((20, 40), (10, 20), (10, 20))),
    Case("dps", "8", DIRECTION, "ahead by less than 95 %", dps((15, 30), (10, 20), (10, 20))),
    Case("dps", "8", NOT, "behind DRF at one point", dps((20, 40), (10, 20), (21, 20))),
    Case("dps", "8", NOT, "welfare does not grow", dps((40, 40), (10, 20), (10, 20))),
    Case("dps", "10", REPRODUCED, "optimum at most 1.6 times", {"a": (1.0, 0.7), "b": (0.63, 0.9)}),
    Case("dps", "10", DIRECTION, "optimum twice at one point", {"a": (1.0, 0.5), "b": (0.63, 0.9)}),
    Case("dps", "10", NOT, "optimum five times at one point", {"a": (1.0, 0.2), "b": (0.63, 0.9)}),
    Case("dps", "11", REPRODUCED, "ahead everywhere, steady", dps((0.9, 0.8), (0.5, 0.4), (0.6, 0.7))),
    Case("dps", "11", DIRECTION, "ahead in the mean only", dps((0.9, 0.8), (0.5, 0.4), (0.6, 0.85))),
    Case("dps", "11", DIRECTION, "ahead everywhere, unsteady", dps((0.9, 0.6), (0.5, 0.4), (0.6, 0.5))),
    Case("dps", "11", NOT, "behind in the mean", dps((0.9, 0.8), (0.5, 0.4), (0.95, 0.85))),
    Case(
        "dps", "16", REPRODUCED, "inverse best, growing most", {"linear": (1, 2), "sigmoid": (1, 2), "inverse": (2, 6)}
    ),
    Case(
        "dps", "16", DIRECTION, "inverse lower, growing most", {"linear": (5, 6), "sigmoid": (5, 6), "inverse": (1, 3)}
    ),
    Case("dps", "16", NOT, "inverse grows least", {"linear": (1, 3), "sigmoid": (1, 2), "inverse": (5, 6)}),
    Case("dps", "16", NOT, "sigmoid falls", {"linear": (1, 2), "sigmoid": (2, 1), "inverse": (2, 6)}),
    Case("dps", "17", REPRODUCED, "nobody pays more", {"value": (5, 3), "payment": (5, 2)}),
    Case("dps", "17", NOT, "one winner pays more", {"value": (5, 3), "payment": (4, 3.1)}),
    Case("dps", "18", REPRODUCED, "below two seconds", {"2 servers": (0.1, 0.2), "8 servers": (0.1, 1.9)}),
    Case("dps", "18", NOT, "two seconds at one point", {"2 servers": (0.1, 0.2), "8 servers": (0.1, 2.0)}),
    # OASiS
    Case("oasis", "3", REPRODUCED, "a lead that grows", oasis_by_jobs((12, 30), (10, 20))),
    Case("oasis", "3", DIRECTION, "a lead that shrinks", oasis_by_jobs((15, 22), (10, 20))),
    Case("oasis", "3", NOT, "no lead at one point", oasis_by_jobs((10, 30), (10, 20))),
    Case("oasis", "4", REPRODUCED, "closest and steadiest", lateness(-1, 5, 1, 2), LATENESS_X),
    Case("oasis", "4", DIRECTION, "closest, not steadiest", lateness(-1, 5, 3, 2), LATENESS_X),
    Case("oasis", "4", NOT, "further away, too early", lateness(-6, 5, 1, 2), LATENESS_X),
    Case("oasis", "5", REPRODUCED, "optimum 1.1 to 1.5 times", optimum(0.9, 0.7)),
    Case("oasis", "5", DIRECTION, "optimum twice at one point", optimum(0.9, 0.5)),
    Case("oasis", "5", DIRECTION, "better than the paper says", optimum(1.0, 0.99)),
    Case("oasis", "5", NOT, "optimum four times at one point", optimum(0.9, 0.25)),
    Case("oasis", "6", REPRODUCED, "underestimates help where scarce", misjudged(12, 11), oasis.SHARES),
    Case("oasis", "6", DIRECTION, "they help more where not scarce", misjudged(12, 13), oasis.SHARES),
    Case("oasis", "6", NOT, "overestimates help", misjudged(9, 8), oasis.SHARES),
    # Preemptive scheduling
    Case("preemptive", "7", REPRODUCED, "30 % less", rates((0.6, 0.7), (0.7, 0.8), (0.5, 0.5), (1.0, 1.0))),
    Case("preemptive", "7", DIRECTION, "10 % less", rates((0.9, 0.9), (0.9, 0.9), (0.5, 0.5), (1.0, 1.0))),
    Case("preemptive", "7", DIRECTION, "not ahead without a cloud", rates((0.6, 0.7), (1.1, 0.8), (0.5, 0.5), (1, 1))),
    Case("preemptive", "7", NOT, "behind at one point", rates((0.6, 1.1), (1.2, 1.2), (0.5, 0.5), (1.0, 1.0))),
    Case("preemptive", "9", REPRODUCED, "fewer with a cloud, more than SRTF", stops((5, 6), (7, 8), (1, 2))),
    Case("preemptive", "9", DIRECTION, "fewer than SRTF", stops((5, 6), (7, 8), (9, 9))),
    Case("preemptive", "9", NOT, "more with a cloud", stops((5, 9), (7, 8), (1, 2))),
    Case("preemptive", "11", REPRODUCED, "all workers, three quarters", course(75, 98, 100, 1.0, 0.6)),
    Case("preemptive", "11", DIRECTION, "all workers, nearly as long", course(97, 98, 100, 1.0, 0.6)),
    Case("preemptive", "11", NOT, "SRTF uses all workers, too", course(75, 98, 100, 1.0, 1.0)),
    Case("preemptive", "11", NOT, "it takes longer", course(99, 98, 100, 1.0, 0.6)),
    Case(
        "preemptive", "12", REPRODUCED, "low, steady, falling", competitive_ratios((1.5, 1.6), (1.2, 1.3), (1.0, 1.05))
    ),
    Case("preemptive", "12", DIRECTION, "high", competitive_ratios((1.8, 1.9), (1.5, 1.6), (1.3, 1.3))),
    Case("preemptive", "12", NOT, "no lower with speed", competitive_ratios((1.5, 1.6), (1.5, 1.6), (1.0, 1.05))),
    Case("preemptive", "12", NOT, "unsteady", competitive_ratios((1.2, 1.6), (1.1, 1.3), (1.0, 1.05))),
    # Weighted completion
    Case("weighted-completion", "2", REPRODUCED, "30 % less", totals((7, 14), (6, 6), (10, 20))),
    Case("weighted-completion", "2", DIRECTION, "20 % less", totals((8, 16), (6, 6), (10, 20))),
    Case("weighted-completion", "2", NOT, "more at one point", totals((7, 21), (6, 6), (10, 20))),
    Case("weighted-completion", "4", REPRODUCED, "never falls", {"A_online": (5, 6, 6, 8)}),
    Case("weighted-completion", "4", DIRECTION, "falls between", {"A_online": (5, 7, 6, 8)}),
    Case("weighted-completion", "4", NOT, "no more at the end", {"A_online": (5, 7, 6, 5)}),
    Case("weighted-completion", "7", REPRODUCED, "grows, short", {"ps": (1, 100), "ring": (1, 2)}),
    Case("weighted-completion", "7", DIRECTION, "does not grow", {"ps": (100, 1), "ring": (2, 1)}),
    Case("weighted-completion", "7", NOT, "two minutes", {"ps": (1, 120), "ring": (1, 2)}),
    Case("weighted-completion", "8", REPRODUCED, "30 % more once", weights((10, 13), (10, 10))),
    Case("weighted-completion", "8", DIRECTION, "10 % more", weights((10, 11), (10, 10))),
    Case("weighted-completion", "8", NOT, "less at one point", weights((9, 13), (10, 10))),
    Case("weighted-completion", "8", NOT, "the same", weights((10, 10), (10, 10))),
    Case("weighted-completion", "9", REPRODUCED, "any type is best", by_kind((9, 8, 7), (7, 8, 9))),
    Case("weighted-completion", "9", DIRECTION, "any type is as good", by_kind((9, 8, 8), (7, 8, 9))),
    Case("weighted-completion", "9", NOT, "one type is better", by_kind((9, 8, 8.5), (9, 9, 1))),
    Case("weighted-completion", "10", REPRODUCED, "never rises", by_kind((9, 8, 8, 7), (7, 8, 9, 9))),
    Case("weighted-completion", "10", DIRECTION, "rises between", by_kind((9, 7, 8, 7), (7, 8, 9, 9))),
    Case("weighted-completion", "10", NOT, "the same at the end", by_kind((9, 7, 8, 9), (9, 8, 7, 1))),
    Case("weighted-completion", "11", REPRODUCED, "never rises", {"24 jobs": (9, 8, 8), "48 jobs": (19, 18, 17)}),
    Case("weighted-completion", "11", DIRECTION, "rises between", {"24 jobs": (9, 7, 8), "48 jobs": (19, 18, 17)}),
    Case("weighted-completion", "11", NOT, "one does not fall", {"24 jobs": (9, 8, 9), "48 jobs": (19, 18, 17)}),
    Case(
        "weighted-completion", "12", REPRODUCED, "less by servers, more by jobs", {"24": (9, 8, 7), "48": (19, 18, 17)}
    ),
    Case("weighted-completion", "12", DIRECTION, "less in the mean", {"24": (9, 8, 9.1), "48": (19, 18, 10)}),
    Case("weighted-completion", "12", NOT, "more by servers", {"24": (9, 8, 10), "48": (19, 18, 20)}),
    Case("weighted-completion", "12", NOT, "fewer by jobs", {"24": (9, 8, 7), "48": (19, 18, 6)}),
    # Split learning
    Case("split-learning", "II", REPRODUCED, "near and fast", table((1, 5, 14.9), (13, 20, 50))),
    Case("split-learning", "II", DIRECTION, "near and slow", table((1, 5, 14.9), (1, 2, 50))),
    Case("split-learning", "II", DIRECTION, "one row far away", table((1, 5, 40), (13, 20, 50))),
    Case("split-learning", "II", NOT, "most rows far away", table((1, 15, 14.9), (13, 20, 50))),
    Case("split-learning", "6", REPRODUCED, "longer and sooner", lengths((10, 10), (11, 12), (2, 3))),
    Case("split-learning", "6", DIRECTION, "later in one row", lengths((10, 10, 10), (11, 12, 12), (2, 3, 0.5))),
    Case("split-learning", "6", NOT, "shorter", lengths((10, 10), (9, 9), (2, 3))),
    Case("split-learning", "6", NOT, "later", lengths((10, 10), (11, 12), (0.2, 0.3))),
    Case(
        "split-learning",
        "7",
        REPRODUCED,
        "ADMM but where crowded",
        methods((5, 9, 5), (7, 8, 7), (10, 10, 10)),
        METHODS_X,
    ),
    Case(
        "split-learning",
        "7",
        DIRECTION,
        "ADMM where crowded, too",
        methods((5, 7, 5), (7, 8, 7), (10, 10, 10)),
        METHODS_X,
    ),
    Case("split-learning", "7", DIRECTION, "a tenth shorter", methods((9, 9.5, 9), (9, 9, 9), (10, 10, 10)), METHODS_X),
    Case(
        "split-learning", "7", NOT, "longer than the baseline", methods((5, 9, 11), (7, 8, 12), (10, 10, 10)), METHODS_X
    ),
    Case("split-learning", "8", REPRODUCED, "the second helps most", {"1": (10, 5, 4, 3, 2.9)}, HELPERS_X),
    Case("split-learning", "8", DIRECTION, "the second helps little", {"1": (10, 9, 8, 7, 6.9)}, HELPERS_X),
    Case("split-learning", "8", NOT, "later ones help more", {"1": (10, 9, 8, 7, 5)}, HELPERS_X),
    Case("split-learning", "8", NOT, "the second does not help", {"1": (10, 10, 8, 7, 8)}, HELPERS_X),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.paper}-{case.figure}-{case.why}")
def test_a_judge_gives_the_verdict_that_the_series_deserve(case: Case) -> None:
    finding = case.printed.judge(case.data())
    assert finding.verdict is case.verdict, finding.measured
    assert finding.measured


def test_every_judge_has_series_that_pass_and_series_that_fail() -> None:
    tried: dict[object, set[Verdict]] = {}
    for case in CASES:
        # The judge of a figure of several conditions is one function for all of them.
        tried.setdefault(case.printed.judge, set()).add(case.verdict)
    judges = {figure.judge for paper in PAPERS.values() for figure in paper.figures}
    assert judges == set(tried)
    for judge, verdicts in tried.items():
        assert {REPRODUCED, NOT} <= verdicts, judge
