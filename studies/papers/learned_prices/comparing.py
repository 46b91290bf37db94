"""Comparison of price rules over many seeds: means, intervals, and ratios to the bound."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from scheduling.model.types import Json
from scheduling.offline import Covers, OfflineProblem, lagrangian
from studies.experiments.metrics import Interval, interval
from studies.papers.learned_prices.judging import RULES, Rule, judge, lessons, quantile
from studies.papers.learned_prices.settings import Period, Setting, periods

LEARN_FROM = 1000
"""The period before is drawn from this much more than the seed of the judged one."""
BOUND_STEPS = 60
"""Steps of descent for the bound: a count, not a time, so that the same run gives the same figures."""
TARGETS: Mapping[str, float] = {"dps": 1.2, "oasis": 1.6}
"""Target ratio of welfare under each rule to welfare under paper prices, in the mean over contended settings."""
LEAST_IDLE = 0.95
"""Least such ratio on an underloaded cluster, for every seed."""
BASE = "paper"


@dataclass(frozen=True)
class RuleResult:
    """One rule on one pair of periods."""

    setting: str
    seed: int
    rule: str
    welfare: float
    """Money."""
    revenue: float
    admitted: float
    """Share of the bids."""
    bound: float
    """No schedule of the judged period's bids earns more, money."""

    def to_json(self) -> Json:
        """A line of a table."""
        return asdict(self)


@dataclass(frozen=True)
class Summary:
    """One rule in one setting, over the seeds."""

    setting: Setting
    rule: str
    seeds: int
    over_paper: Interval
    """Interval of welfare / welfare under paper prices, over the seeds."""
    least: float
    most: float
    bound_ratio: float
    """Mean over the seeds of bound / welfare: 1 is the optimum, and no rule can be below."""
    admitted: float

    @property
    def missed(self) -> bool:
        """Whether it earns less than was aimed at: `TARGETS` when contended, `LEAST_IDLE` for some seed when not."""
        if self.setting.contended:
            return self.over_paper.mean < TARGETS[self.setting.policy]
        return self.least < LEAST_IDLE


def rows_of(
    setting: Setting,
    seeds: Iterable[int],
    rules: Mapping[str, Rule] = RULES,
    *,
    progress: Callable[[str, int], None] | None = None,
) -> Iterator[RuleResult]:
    """Judge every rule on the period of each seed; all of them learn from the same other period."""
    for seed in seeds:
        past, now = periods(setting, learned=seed + LEARN_FROM, judged=seed)
        bound = bound_of(setting, now)
        known = lessons(quantile(setting, past), past, now, horizon=setting.horizon, gap=setting.period)
        for name, rule in rules.items():
            if progress is not None:
                progress(name, seed)
            found = judge(rule(setting, past), now, known, horizon=setting.horizon)
            share = found.admitted / max(1, found.bids)
            yield RuleResult(setting.name, seed, name, found.welfare, found.revenue, share, bound)


def bound_of(setting: Setting, period: Period) -> float:
    """Return an upper bound for any schedule of these bids, money; jobs complete after a horizon count, too."""
    end = period.bids[-1].arrival + setting.horizon
    covers = Covers.RIGID if setting.policy == "dps" else Covers.ELASTIC
    problem = OfflineProblem(period.bids, period.inventory, start=0, end=end, covers=covers, open_end=False)
    return lagrangian(problem, lambda: np.inf, steps=BOUND_STEPS).answer.bound


def summaries(setting: Setting, rows: Sequence[RuleResult]) -> tuple[Summary, ...]:
    """Means and intervals for each rule; the ratios of paper prices are 1."""
    base = {row.seed: row.welfare for row in rows if row.rule == BASE}
    return tuple(_summary(setting, rule, rows, base) for rule in dict.fromkeys(row.rule for row in rows))


def verdicts(found: Iterable[Summary]) -> Iterator[str]:
    """Whether each rule keeps the targets: every contended setting counts the same, an idle one by its worst seed."""
    judged = [one for one in found if one.rule != BASE]
    for policy, rule in dict.fromkeys((one.setting.policy, one.rule) for one in judged):
        mine = [one for one in judged if (one.setting.policy, one.rule) == (policy, rule)]
        contended = [one.over_paper.mean for one in mine if one.setting.contended]
        if contended:
            yield _verdict(f"{policy}, {rule}: contended, mean", float(np.mean(contended)), TARGETS[policy])
        idle = [one.least for one in mine if not one.setting.contended]
        if idle:
            yield _verdict(f"{policy}, {rule}: underloaded, least", min(idle), LEAST_IDLE)


def _verdict(what: str, value: float, wanted: float) -> str:
    return f"{what} {value:.3f}, wanted {wanted}: {'kept' if value >= wanted else 'MISSED'}"


def _summary(setting: Setting, rule: str, rows: Sequence[RuleResult], base: Mapping[int, float]) -> Summary:
    mine = [row for row in rows if row.rule == rule]
    ratios = np.array([row.welfare / base[row.seed] for row in mine])
    over = interval(ratios.tolist())
    if over is None:
        raise ValueError(f"no rows of {rule} in {setting.name}")
    return Summary(
        setting=setting,
        rule=rule,
        seeds=len(mine),
        over_paper=over,
        least=float(ratios.min()),
        most=float(ratios.max()),
        bound_ratio=float(np.mean([row.bound / row.welfare for row in mine])),
        admitted=float(np.mean([row.admitted for row in mine])),
    )
