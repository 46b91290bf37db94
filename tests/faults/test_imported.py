"""Pieces of work in children of a process that has imported everything."""

from pathlib import Path

import pytest

from tests.faults import imported
from tests.processes import python_env

pytestmark = pytest.mark.slow


def test_each_piece_of_work_begins_with_what_is_imported_and_leaves_nothing_to_the_next(tmp_path: Path) -> None:
    env = python_env(tmp_path, NAMED="here")
    code = (
        "import os, sys; print(os.environ['NAMED'], 'config.urls' in sys.modules, hasattr(sys, 'left')); sys.left = 1"
    )
    assert [imported.run({"code": code}, env=env, seconds=60) for _ in range(2)] == ["here True False\n"] * 2


def test_work_that_fails_or_takes_too_long_is_an_error_with_what_it_printed(tmp_path: Path) -> None:
    env = python_env(tmp_path)
    with pytest.raises(AssertionError, match=r"a word(.|\n)*ValueError: no number"):
        imported.run({"code": "print('a word'); raise ValueError('no number')"}, env=env, seconds=60)
    with pytest.raises(AssertionError, match="-14"):
        imported.run({"code": "import time; time.sleep(60)"}, env=env, seconds=1)
    assert imported.run({"code": "print('goes on')"}, env=env, seconds=60) == "goes on\n"
