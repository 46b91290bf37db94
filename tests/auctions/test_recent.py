"""Results that a process keeps: the oldest are dropped, and each is made by one thread."""

import threading
import time

import pytest

from auctions.state.recent import Recent

AT_ONCE = 5


def test_the_value_that_was_not_used_for_the_longest_time_is_dropped() -> None:
    kept: Recent[tuple[int], str] = Recent(2)
    kept.store((1,), "one")
    kept.store((2,), "two")
    assert kept.get((1,)) == "one"
    kept.store((3,), "three")
    assert sorted(kept.known()) == [(1,), (3,)]


def test_threads_that_ask_at_once_get_the_value_that_one_of_them_makes() -> None:
    kept: Recent[tuple[int], object] = Recent(2)
    together, made, found = threading.Barrier(AT_ONCE), list[object](), list[object]()

    def make() -> object:
        time.sleep(0.05)  # long enough for all the others to come
        made.append(object())
        return made[-1]

    def ask() -> None:
        together.wait()
        found.append(kept.made_once((1,), make))

    threads = [threading.Thread(target=ask) for _ in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert found == made * AT_ONCE


def test_a_value_that_could_not_be_made_is_made_by_the_next_who_asks() -> None:
    kept: Recent[tuple[int], str] = Recent(2)

    def fail() -> str:
        raise ValueError("this value cannot be made")

    with pytest.raises(ValueError, match="this value cannot be made"):
        kept.made_once((1,), fail)
    assert kept.made_once((1,), lambda: "one") == "one"
    assert kept.made_once((1,), fail) == "one"
