"""Conversions are exact."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from cluster import units

SECONDS = st.decimals(0, 10**6, allow_nan=False, places=4)
SLOT = st.integers(1, 10**5)


def test_a_transfer_worked_by_hand() -> None:
    # 100 MB of gradients out and 100 MB of parameters in are 200 MB = 1600 Mbit; at 800 Mbit/s 2 s; a slot has 4 s.
    assert units.transfer_slots(100, 800, 4) == Fraction(1, 2)


def test_decimals_are_taken_as_written() -> None:
    # In doubles 0.28 x 25 is 7.000000000000001, and its ceiling 8.
    assert units.exact(0.28) * 25 == 7
    assert units.slots(280, 1000) * 25 == 7
    assert units.slots_up(0.1 + 0.2, 1) == 1


def test_a_whole_number_of_slots_is_not_rounded_up() -> None:
    assert units.slots_up(7200, 3600) == 2
    assert units.slots_up(7200.0001, 3600) == 3
    assert units.slots_up(0, 3600) == 0


@given(seconds=SECONDS, slot=SLOT)
def test_slots_times_their_length_are_the_seconds(seconds: Fraction, slot: int) -> None:
    assert units.slots(seconds, slot) * slot == Fraction(seconds)


@given(seconds=SECONDS, slot=SLOT)
def test_rounding_up_gives_the_least_whole_number(seconds: Fraction, slot: int) -> None:
    whole = units.slots_up(seconds, slot)
    assert (whole - 1) * slot < seconds <= whole * slot


@given(count=st.integers(0, 10**6), slot=SLOT)
def test_slots_to_seconds_and_back_is_the_identity(count: int, slot: int) -> None:
    assert units.slots(units.seconds(count, slot), slot) == count


@given(number=st.floats(0, 1e9))
def test_a_double_counts_as_its_shortest_decimal(number: float) -> None:
    assert float(units.exact(number)) == number
