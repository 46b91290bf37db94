"""Seconds, MB and Mbit/s as slots."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from cluster import units


def test_a_transfer_worked_by_hand() -> None:
    # 98 MB = 784 Mbit; pushed and pulled: 1,568 Mbit; at 400 Mbit/s: 3.92 s; in slots of 1,200 s: 49/15,000.
    assert units.transfer_slots(98, 400, 1200) == Fraction(49, 15000)


def test_a_decimal_counts_as_it_is_written() -> None:
    assert units.slots(0.28, 1) * 25 == 7


def test_a_delay_takes_whole_slots() -> None:
    assert [units.slots_up(s, 3600) for s in (0, 1, 3600, 3600.5)] == [0, 1, 1, 2]


@given(st.integers(0, 10**9), st.integers(1, 10**6))
def test_seconds_come_back_from_slots(seconds: int, slot_seconds: int) -> None:
    assert units.slots(seconds, slot_seconds) * slot_seconds == seconds
    assert 0 <= units.slots_up(seconds, slot_seconds) - units.slots(seconds, slot_seconds) < 1
