import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.book.ledger import Ledger, empty_like
from scheduling.model.errors import OutsideHorizon, OverCapacity
from scheduling.model.schedule import Placement, Role, Schedule
from tests.scheduling.test_dps import INVENTORY, held

schedules = st.builds(
    lambda start, length, server, count, role: held(
        start=start, end=start + length, server=server, count=count, role=role
    ),
    st.integers(0, 7),
    st.integers(1, 8),
    st.integers(0, 1),
    st.integers(1, 3),
    st.sampled_from(Role),
)


def ledger() -> Ledger:
    return Ledger(INVENTORY, start=0, slots=8)


def test_it_holds_what_was_committed_and_gives_it_back() -> None:
    book = ledger()
    book.commit(held(start=2, end=5, server=0, count=2))
    assert book.used[:, 0, 0].tolist() == [0, 0, 2, 2, 2, 0, 0, 0]
    book.release(held(start=2, end=5, server=0, count=2), from_slot=4)
    assert book.used[:, 0, 0].tolist() == [0, 0, 2, 2, 0, 0, 0, 0]


def test_too_much_is_refused_and_changes_nothing() -> None:
    book = ledger()
    book.commit(held(start=0, end=4, server=0, count=1))
    before = book.used.copy()
    both = Schedule(3, 6, (Placement(3, 6, Role.PS, 1, 0, 1), Placement(3, 6, Role.WORKER, 0, 0, 2)))
    with pytest.raises(OverCapacity):
        book.commit(both)
    assert (book.used == before).all()


@pytest.mark.parametrize(("start", "end"), [(-1, 2), (6, 9)])
def test_slots_it_does_not_hold_are_refused(start: int, end: int) -> None:
    with pytest.raises(OutsideHorizon):
        ledger().commit(held(start=start, end=end, server=0, count=1))


def test_slots_pass_and_the_horizon_keeps_its_length() -> None:
    book = ledger()
    book.commit(held(start=2, end=8, server=0, count=1))
    book.advance(5)
    assert (book.start, book.end) == (5, 13)
    assert book.used[:, 0, 0].tolist() == [1, 1, 1, 0, 0, 0, 0, 0]
    book.advance(4)
    assert book.start == 5
    book.advance(100)
    assert (book.start, book.end) == (100, 108)
    assert not book.used.any()


@given(rows=st.lists(st.tuples(schedules, st.integers(0, 4)), max_size=40))
def test_however_many_slots_pass_it_shows_what_is_held_and_until_when(rows: list[tuple[Schedule, int]]) -> None:
    book, kept = ledger(), []
    for row, passed in rows:
        p = row.placements[0]
        later = held(start=p.start + book.start, end=p.end + book.start, server=p.server, count=p.count, role=p.role)
        try:
            book.commit(later)
            kept.append(later.placements[0])
        except (OverCapacity, OutsideHorizon):
            pass
        book.advance(book.start + passed)
        for t in range(book.start, book.end):
            busy = [p for p in kept if p.start <= t < p.end]
            assert book.used[t - book.start].sum() == sum(p.count for p in busy)
        rest = [p for p in kept if p.end > book.start]
        assert all(p.start <= book.last_start and p.end <= book.last_end for p in rest)
        assert (book.copy().last_start, book.copy().last_end) == (book.last_start, book.last_end)


def test_every_move_gives_it_a_version_that_it_never_had() -> None:
    book, one = ledger(), held(start=2, end=5, server=0, count=1)
    versions = [book.version]
    for move in (book.commit, lambda _: book.advance(1), lambda _: book.release(one, from_slot=1), book.commit):
        move(one)
        versions.append(book.version)
    assert versions == sorted(set(versions))


def test_what_it_shows_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="read-only"):
        ledger().used[0, 0, 0] = 1


def test_a_copy_moves_alone() -> None:
    book = ledger()
    other = book.copy()
    other.commit(held(start=0, end=4, server=0, count=1))
    assert not book.used.any()
    assert other.end == book.end


@given(rows=st.lists(schedules, max_size=8), slot=st.integers(0, 12))
def test_it_is_rebuilt_from_the_schedules_alone(rows: list[Schedule], slot: int) -> None:
    book, kept = ledger(), []
    for row in rows:
        try:
            book.commit(row)
        except (OverCapacity, OutsideHorizon):
            continue
        kept.append(row)
    assert (book.used <= INVENTORY.capacity).all()
    book.advance(slot)
    again = Ledger(INVENTORY, start=slot, slots=8)
    again.restore(kept)
    assert (again.used == book.used).all()
    for row in kept:
        book.release(row, from_slot=slot)
    assert not np.any(book.used)


def test_without_placements_only_what_is_left_of_them_is_free_and_the_ledger_stays_as_it_was() -> None:
    book = ledger()
    for schedule in (held(start=0, end=5, server=0, count=1), held(start=2, end=8, server=0, count=1)):
        book.commit(schedule)
    book.advance(3)
    other = book.without(held(start=0, end=5, server=0, count=1).placements)
    assert other.used[:, 0, 0].tolist() == [1, 1, 1, 1, 1, 0, 0, 0]
    assert book.used[:, 0, 0].tolist() == [2, 2, 1, 1, 1, 0, 0, 0]


def test_the_empty_ledger_has_the_same_slots_as_the_ledger_it_belongs_to() -> None:
    book = Ledger(INVENTORY, start=3, slots=8)
    book.commit(held(start=4, end=6, server=0, count=2))
    empty = empty_like(book)
    assert (empty.start, empty.end) == (3, 11)
    assert not empty.used.any()
    book.advance(5)
    assert empty_like(book) is empty
    assert (empty.start, empty.end) == (5, 13)
