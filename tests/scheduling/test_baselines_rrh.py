"""RRH: who is admitted, and who runs."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.model.bid import Bid
from scheduling.model.decision import Reason
from scheduling.model.errors import InvalidField
from scheduling.model.utility import Linear, Sigmoid, Step, Utility
from scheduling.policies.baselines.rrh import Rrh
from scheduling.registry import make_policy
from tests.draws import rounds
from tests.scheduling.gpu_cluster import completions, job, run, slots_of
from tests.scheduling.twins.rrh_slow import Slow


def with_utility(bid: Bid, utility: Utility) -> Bid:
    return replace(bid, utility=utility)


def test_a_job_is_admitted_if_it_gains_more_than_it_costs_the_others() -> None:
    # `old` loses 3 a slot, and `new` has 2 slots of all GPUs: it has to be worth more than 6 when it is complete.
    old = with_utility(job("old", 2, 4), Linear(60.0, 3.0))
    for value, admitted in ((6.0, False), (6.5, True)):
        going = run(Rrh(), [old, job("new", 2, 2, at=1, weight=value)], 2)
        assert [d.admitted for d in going.decisions] == [True, admitted]
    refused = run(Rrh(), [old, job("new", 2, 2, at=1, weight=6.0)], 2).decisions[1]
    assert refused.reason is Reason.PRICE
    assert (
        "would gain 6.00, but delay 1 jobs that were admitted by 2 slots each, which costs 6.00" in refused.explanation
    )


def test_where_all_fit_nothing_is_delayed() -> None:
    old = with_utility(job("old", 1, 4), Linear(60.0, 3.0))
    assert [d.admitted for d in run(Rrh(), [old, job("new", 1, 2, weight=0.01)], 2).decisions] == [True, True]


def test_a_job_that_would_come_too_late_is_rejected() -> None:
    going = run(Rrh(), [job("old", 2, 6, weight=1000.0), with_utility(job("late", 2, 2, at=1), Step(9.0, 4.0))], 2)
    assert [d.reason for d in going.decisions] == [None, Reason.WORTHLESS]


def test_the_difference_has_to_pass_the_threshold() -> None:
    old, new = with_utility(job("old", 2, 4), Linear(60.0, 3.0)), job("new", 2, 2, at=1, weight=10.0)
    # It gains 10 - 6 = 4.
    for threshold, admitted in ((0.35, True), (0.45, False)):
        assert run(Rrh(threshold=threshold), [old, new], 2).decisions[1].admitted == admitted


def test_a_running_job_pauses_for_one_with_a_greater_reward_and_loses_nothing() -> None:
    going = run(Rrh(), [job("long", 2, 6, weight=6.0), job("short", 2, 2, at=1, weight=4.0)], 2)
    assert completions(going) == {"short": 3, "long": 8}
    assert slots_of(going, "long") == [0, 3, 4, 5, 6, 7]


def test_what_decays_comes_before_what_can_wait() -> None:
    urgent, patient = with_utility(job("urgent", 2, 2), Linear(20.0, 2.0)), job("patient", 2, 2, weight=16.0)
    first = job("first", 2, 1, weight=99.0)
    assert list(completions(run(Rrh(risk=0.9), [first, patient, urgent], 2)))[1] == "urgent"
    assert list(completions(run(Rrh(risk=0.0), [first, patient, urgent], 2)))[1] == "patient"


@settings(max_examples=rounds(20))
@given(seed=st.integers(0, 2**32 - 1), threshold=st.sampled_from([0.0, 0.3]), risk=st.sampled_from([0.0, 0.5, 1.0]))
def test_it_decides_as_its_docstring_says(seed: int, threshold: float, risk: float) -> None:
    rng = np.random.default_rng(seed)
    gpus = int(rng.integers(1, 7))
    arrivals = np.sort(rng.integers(0, 15, int(rng.integers(1, 14)))).tolist()
    bids = [
        with_utility(job(f"j{i}", *rng.integers(1, (min(gpus, 4) + 1, 9)).tolist(), at=slot), drawn(rng))
        for i, slot in enumerate(arrivals)
    ]
    slow = Slow(gpus, threshold, risk)
    slow.run(bids)
    going = run(Rrh(threshold=threshold, risk=risk), bids, gpus)
    assert [d.bid_id for d in going.decisions if d.admitted] == slow.admitted
    assert completions(going) == slow.done


def drawn(rng: np.random.Generator) -> Utility:
    value = float(rng.uniform(1, 50))
    forms = (
        Sigmoid(value, float(rng.uniform(0.1, 2)), float(rng.uniform(1, 15))),
        Linear(value, value / float(rng.uniform(5, 30))),
        Step(value, float(rng.integers(3, 25))),
    )
    return forms[int(rng.integers(len(forms)))]


@pytest.mark.parametrize("field", ["threshold", "risk"])
def test_shares_are_shares(field: str) -> None:
    with pytest.raises(InvalidField, match=field):
        make_policy("rrh", {field: 1.5})
