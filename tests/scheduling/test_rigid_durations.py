"""Durations of rigid jobs, against the formulas in fractions."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from scheduling.best_response.rigid.durations import durations
from scheduling.best_response.rigid.kernel import smallest_problem
from scheduling.model.bid import Architecture
from tests.draws import fresh_seed, rounds
from tests.scheduling.twins.rigid_cases import random_bid, random_inventory

MOST, SLOTS = 6, 10


@pytest.mark.parametrize("ring", [False, True])
@pytest.mark.parametrize("fine", [Fraction(0), Fraction(1, 10**30)])
def test_durations_are_those_of_the_formulas_in_fractions(ring: bool, fine: Fraction) -> None:
    """Together and spread, for each type and number of workers; `fine` leaves the range of machine integers."""
    seed = fresh_seed()
    for case in range(rounds(30)):
        rng = np.random.default_rng([seed, case])
        bid = random_bid(rng, random_inventory(rng), start=0, slots=SLOTS)
        reduce = Fraction(int(rng.integers(0, 9)), int(rng.integers(1, 13)))
        bid = replace(bid, worker_time=tuple(time + fine for time in bid.worker_time), reduce_time=reduce)
        bid = replace(bid, architecture=Architecture.RING if ring else Architecture.PS)
        found = durations(bid, most=MOST, slots=SLOTS)
        types = range(len(bid.worker_time)), range(1 if ring else len(bid.ps_time))
        for spread, w, p, n in itertools.product(range(2), *types, range(1, MOST + 1)):
            alone, apart = bid.worker_time[w], bid.transfer_time[w] * spread
            rest = (reduce + apart) * Fraction(n - 1, n) if ring else bid.ps_time[p] + apart
            expected = min(SLOTS + 1, max(1, math.ceil(bid.work * (alone + rest) / n)))
            assert found[spread, w, p, n] == expected, f"seed {[seed, case]}"


@pytest.mark.parametrize("reduce", [Fraction(10**17), Fraction(10**22 + 1, 10**13), Fraction(10**19 + 1, 10**10)])
def test_durations_of_rings_too_large_for_machine_integers_are_still_exact(reduce: Fraction) -> None:
    """A worker's own step is small: only what the others add is large."""
    _, drawn = smallest_problem()
    ring = replace(drawn, architecture=Architecture.RING, chunks=64, reduce_time=reduce, transfer_time=(Fraction(0),))
    most, slots = 64, 2**20
    found = durations(ring, most=most, slots=slots)
    for n in range(1, most + 1):
        time = ring.worker_time[0] + reduce * Fraction(n - 1, n)
        expected = min(slots + 1, max(1, math.ceil(ring.work * time / n)))
        assert found[:, 0, 0, n].tolist() == [expected, expected], n
