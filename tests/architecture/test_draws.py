"""Random tests draw something new in every run, the same again from its seed, and more in a soak."""

import os
import re
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import draws
from tests.draws import LONGER, fresh_seed, rounds, some
from tests.forks import UNBUFFERED, libraries

FILE = "tests/architecture/test_draws.py"


def run(*options: str, **variables: str) -> str:
    """What this file's own random tests print, in a process that inherits no seed."""
    command = [sys.executable, "-m", "pytest", "-s", "-n", "0", "-k", "test_it_prints", FILE, *options]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("SHADOWPRICE_", "PYTEST_"))}
    return libraries().run(command, env=env | UNBUFFERED | variables, seconds=120)


def drawn(printed: str) -> list[str]:
    """What was drawn, in order."""
    return re.findall(r"drew (\d+)", printed)


def test_it_prints_what_a_test_draws() -> None:
    print(f"drew {fresh_seed()}, {rounds(1)} rounds")


@given(st.integers(0, 10**9))
def test_it_prints_what_hypothesis_draws(number: int) -> None:
    print(f"drew {number}")


@settings(max_examples=1)
@given(draws.integers(0, 10**9))
def test_it_prints_the_first_of_new_integers(number: int) -> None:
    print(f"drew {number}")


def test_new_integers_begin_elsewhere_in_every_run_and_are_all_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[list[int]] = []

    @settings(max_examples=40, database=None)
    @given(draws.integers(3, 6))
    def note(number: int) -> None:
        runs[-1].append(number)

    for seed in range(20):
        monkeypatch.setenv("SHADOWPRICE_SEED", str(seed))
        runs.append([])
        note()
    assert all(set(run) == {3, 4, 5, 6} for run in runs)
    assert {run[0] for run in runs} == {3, 4, 5, 6}


def test_some_names_are_drawn_in_their_order_and_all_in_a_soak(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"name {i}" for i in range(9)]
    monkeypatch.setattr(draws, "SOAK", False)
    seen: set[str] = set()
    for seed in range(40):
        monkeypatch.setenv("SHADOWPRICE_SEED", str(seed))
        found = some(names, 3)
        assert found == some(names, 3) == sorted(set(found))
        assert len(found) == 3
        seen |= set(found)
    assert seen == set(names)
    monkeypatch.setattr(draws, "SOAK", True)
    assert some(names, 3) == names


@pytest.mark.thorough
def test_the_end_of_a_run_prints_the_seed_that_draws_the_same_again() -> None:
    first = run()
    (seed,) = set(re.findall(r"SHADOWPRICE_SEED=(\d+) draws the same again", first))
    assert drawn(run(SHADOWPRICE_SEED=seed)) == drawn(first)
    assert drawn(run(SHADOWPRICE_SEED=str(int(seed) + 1))) != drawn(first)


@pytest.mark.thorough
def test_a_soak_runs_random_tests_alone_with_more_rounds() -> None:
    printed = run("-m", "soak", SHADOWPRICE_SOAK="1")
    assert f"{LONGER} rounds" in printed
    assert "3 passed" in printed
    assert "soak, seed" in printed
