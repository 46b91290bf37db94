"""The simulation of processes that decide."""

import numpy as np
import pytest

from tests.load.scaling import Costs, highest_rate, lags


def test_one_bid_a_batch_waits_as_the_formula_for_a_single_server_says() -> None:
    rng, load, service_s = np.random.default_rng(1), 0.7, 0.01
    times = np.cumsum(rng.exponential(service_s / load, 200_000)).tolist()
    found = lags(Costs(batch_s=0.0, bid_s=service_s, most=1), [times])
    # Pollaczek and Khinchine, constant service time: the wait is load service / (2 (1 - load)).
    assert np.mean(found) == pytest.approx(service_s + load * service_s / (2 * (1 - load)), rel=0.05)


def test_batches_pay_their_fixed_time_once_and_markets_take_turns() -> None:
    costs = Costs(batch_s=1.0, bid_s=0.5, most=2)
    assert lags(costs, [[0.0, 0.0, 0.0], [0.0]]) == [2.0, 2.0, 5.0, 3.5]
    assert lags(costs, [[], [10.0]]) == [1.5]


def test_the_highest_rate_is_below_that_of_full_batches_and_falls_with_their_cost() -> None:
    rates = [
        highest_rate(Costs(batch_s, bid_s=0.002, most=16), markets=4, rng=np.random.default_rng(2))
        for batch_s in (0.001, 0.01, 0.05)
    ]
    assert rates == sorted(rates, reverse=True)
    assert 0 < rates[-1] < 16 / (0.05 + 16 * 0.002)
