"""The profile that fits what was measured."""

from dataclasses import replace
from itertools import product

import pytest

from studies.testbed.calibration import LEAST_S, Measured, Profile, fitted

TRUE = Profile({"large": 0.2, "small": 0.3}, ps_step_s=0.03, reduce_step_s=0.02)


def measured(profile: Profile = TRUE) -> list[Measured]:
    jobs = [
        Measured(kind, n, ring, 0.0, 1.0) for kind, n, ring in product(TRUE.worker_step_s, (1, 2, 3), (True, False))
    ]
    return [replace(job, step_s=profile.step_s(job)) for job in jobs]


def test_a_profile_is_found_again_from_the_times_that_it_says() -> None:
    found = fitted(measured())
    assert found.worker_step_s == pytest.approx(TRUE.worker_step_s)
    assert found.ps_step_s == pytest.approx(0.03)
    assert found.reduce_step_s == pytest.approx(0.02)


def test_no_time_is_below_zero_where_the_network_was_faster_than_its_limit() -> None:
    fast = [replace(job, step_s=0.2 if job.kind == "large" else 0.3) for job in measured()]
    found = fitted(fast)
    assert (found.ps_step_s, found.reduce_step_s) == (LEAST_S, LEAST_S)


def test_gradients_of_a_ring_on_one_server_do_not_leave_it() -> None:
    ring, servers = Measured("large", 2, True, 0, 0), Measured("large", 2, False, 0, 0)
    assert not ring.is_spread
    assert replace(ring, workers=3).is_spread
    assert servers.is_spread


def test_an_allowance_is_on_the_time_of_workers() -> None:
    found = TRUE.with_allowance(1.5)
    assert found.worker_step_s == pytest.approx({"large": 0.3, "small": 0.45})
    assert (found.ps_step_s, found.reduce_step_s) == (0.03, 0.02)
