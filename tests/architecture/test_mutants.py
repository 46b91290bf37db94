"""The mutation check names sources and tests that are there."""

import pytest

from tests.mutants.areas import AREAS
from tests.mutants.changes import mutants_of
from tests.processes import ROOT


@pytest.mark.parametrize("area", AREAS)
def test_every_source_has_places_to_change_and_every_test_is_there(area: str) -> None:
    changed = {mutant.path for mutant in mutants_of(area)}
    assert all(any(path.match(source.partition("::")[0]) for path in changed) for source in AREAS[area].sources)
    for test in AREAS[area].tests:
        path, _, name = test.partition("::")
        assert f"def {name.partition('[')[0]}" in (ROOT / path).read_text(), test


@pytest.mark.thorough
def test_a_mutant_changes_one_place_and_is_python() -> None:
    for area in AREAS:
        for mutant in mutants_of(area)[::20]:
            source = (ROOT / mutant.path).read_bytes()
            changed = mutant.apply(source)
            assert changed != source
            compile(changed, str(mutant.path), "exec")
