"""Markets of `benchmarks.markets_on_generators`, on one period of bids."""

from benchmarks.markets_on_generators import CONTENDERS, drawn, run
from studies.papers.learned_prices.settings import SETTINGS


def test_where_value_is_lost_soon_completions_earn_more_than_dps_and_far_more_than_before() -> None:
    inverse = next(one for one in SETTINGS if (one.policy, one.name) == ("dps", "inverse"))
    period = drawn(inverse, 31)
    dps, completions, before = (run(inverse, period, *CONTENDERS[name])[0] for name in ("dps", "completions", "before"))
    assert completions > dps > 1.2 * before > 0
