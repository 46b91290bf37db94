"""Generated test data comes again byte for byte, and every file of test data is generated or has a note."""

from functools import cache
from random import Random, SystemRandom

import pytest

from tests.collection import OWN
from tests.data.make.files import MAKERS

FRESH = 12
"""Files made again in every run, drawn again; all of them are made again where slow tests run."""


@cache
def stays(name: str) -> bool:
    """Whether making a file gives the bytes that are in the repository."""
    path = OWN / name
    return path.exists() and path.read_bytes() == MAKERS[name]().encode()


@pytest.mark.thorough
def test_a_fresh_draw_of_generated_files_comes_again_byte_for_byte() -> None:
    seed = SystemRandom().randrange(2**32)
    drawn = Random(seed).sample(sorted(MAKERS), FRESH)
    assert [name for name in drawn if not stays(name)] == [], f"seed {seed}"


@pytest.mark.slow
def test_every_generated_file_comes_again_byte_for_byte() -> None:
    assert [name for name in MAKERS if not stays(name)] == []


def test_every_instance_is_generated() -> None:
    found = {path.relative_to(OWN).as_posix() for path in (OWN / "cases").rglob("*") if path.is_file()}
    assert found == {name for name in MAKERS if name.startswith("cases/")}
