"""Scarcity under quantile prices, computed by hand, and the parameters of these prices."""

from dataclasses import replace

import numpy as np
import pytest

from scheduling.book.ledger import Ledger
from scheduling.policies.dps import Dps
from scheduling.policies.oasis import Oasis
from scheduling.pricing.quantile import scarcity_of_resources, scarcity_of_roles
from tests.scheduling import test_oasis
from tests.scheduling.test_dps import INVENTORY, book, held


def test_workers_are_as_scarce_as_the_square_of_what_is_sold_in_the_first_quarter() -> None:
    ledger = Ledger(INVENTORY, start=0, slots=16)
    ledger.commit(held(start=3, end=8, server=1, count=4))
    # Four of six GPUs in one of four slots: a sixth is sold, an eighth in whole eighths.
    assert scarcity_of_roles(book(ledger)).tolist() == [(1 / 8) ** 2, 0]
    ledger.commit(held(start=0, end=3, server=1, count=4))
    ledger.commit(held(start=0, end=4, server=0, count=2))
    assert scarcity_of_roles(book(ledger)).tolist() == [1, 0]


def test_a_resource_is_as_scarce_as_what_is_sold_in_the_first_eighth() -> None:
    ledger = Ledger(INVENTORY, start=0, slots=16)
    ledger.commit(held(start=1, end=8, server=1, count=4))
    # Four of six GPUs in one of two slots: a third is sold, a quarter in whole eighths.
    assert scarcity_of_resources(book(ledger)).tolist() == [2 / 8, 0]


def test_what_there_is_one_of_is_sold_out_once_it_is_sold() -> None:
    ledger = Ledger(replace(INVENTORY, capacity=np.array([[1, 1], [0, 0]])), start=0, slots=4)
    ledger.commit(held(start=0, end=1, server=0, count=1))
    assert scarcity_of_roles(book(ledger)).tolist() == scarcity_of_resources(book(ledger)).tolist() == [1, 0]


def test_bids_that_cannot_use_a_resource_say_nothing_of_its_price() -> None:
    none_for_pss = [[4.0, 0.0]] * 8 + [[4.0, 2.0]] * 4
    only = Dps(refit_every=1).price_function(book(history=none_for_pss))
    assert only == Dps(refit_every=1).price_function(book(history=[[4.0, 2.0]] * 12))


def test_a_short_horizon_has_a_first_slot_too() -> None:
    ledger = Ledger(INVENTORY, start=0, slots=2)
    ledger.commit(held(start=0, end=1, server=0, count=2))
    ledger.commit(held(start=0, end=1, server=1, count=4))
    assert scarcity_of_roles(book(ledger)).tolist() == scarcity_of_resources(book(ledger)).tolist() == [1, 0]


def test_without_a_past_the_priors_are_the_price_of_all_there_is() -> None:
    empty = Ledger(test_oasis.INVENTORY, start=0, slots=4)
    new = Oasis(initial_low=1.0, initial_high=2.0).price_function(book(empty))
    assert np.exp(new.log_scale) == pytest.approx([1 / 3, 1 / 4])
    assert np.exp(np.add(new.log_scale, new.log_growth)) == pytest.approx([2 / 3, 2 / 4])


def test_both_priors_and_both_quantiles_may_be_the_same() -> None:
    Dps(initial_low=2.0, initial_high=2.0, reserve_quantile=0.5, full_quantile=0.5)


def test_what_nobody_offered_for_costs_the_same_in_each_slot_ahead() -> None:
    for_workers_only = book(history=[[4.0, 0.0]] * 12)
    assert Dps(refit_every=1, sooner=0.25).price_function(for_workers_only).per_slot_ahead == (1.0, 0.0)


def test_the_prior_of_a_single_unit_is_the_price_of_all_there_is() -> None:
    single = replace(test_oasis.INVENTORY, capacity=np.array([[1, 0], [0, 0], [0, 1]]))
    new = Oasis(initial_low=1.0, initial_high=2.0).price_function(book(Ledger(single, start=0, slots=4)))
    assert np.exp(new.log_scale) == pytest.approx([1.0, 1.0])
