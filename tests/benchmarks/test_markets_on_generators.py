"""Markets of `benchmarks.markets_on_generators`, on one period of bids."""

from benchmarks.markets_on_generators import drawn, run
from studies.papers.learned_prices.settings import SETTINGS


def test_where_value_is_lost_soon_completions_earn_far_more_if_a_bid_may_be_placed_beside_all_others() -> None:
    inverse = next(one for one in SETTINGS if (one.policy, one.name) == ("dps", "inverse"))
    period = drawn(inverse, 31)
    (beside, _), (not_beside, _) = (run(inverse, period, "completions", {"beside": beside}) for beside in (True, False))
    assert beside > 1.2 * not_beside > 0
