"""Test data: the project's own files, and a larger collection of the same kinds if there is one.

Both have the same layout: `cases/<family>/` holds instances of schedulers, `traces/<publisher>/` samples of traces.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet

ROOT = Path(__file__).resolve().parent.parent
OWN = ROOT / "tests" / "data"
VARIABLE = "SHADOWPRICE_COLLECTION"
"""Environment variable: the directory of the larger collection; empty for none."""
MARKER = "collection"
"""Marker of tests on a file of the larger collection."""
KINDS = ("cases", "traces")


def larger(environment: Mapping[str, str] = os.environ, *, beside: Path = ROOT.parent / "shared") -> Path | None:
    """The directory of the larger collection: the one that `VARIABLE` names, else the one beside the repository.

    Returns
    -------
    Path or None
        None if the variable is empty, or if it is not set and there is no collection beside the repository.

    Raises
    ------
    pytest.UsageError
        If the variable names something that is not a collection.
    """
    named = environment.get(VARIABLE)
    if named is None:
        return beside if _is_collection(beside) else None
    if not named:
        return None
    if not _is_collection(Path(named)):
        raise pytest.UsageError(f"{VARIABLE}: {named} is not a directory that holds one of {', '.join(KINDS)}")
    return Path(named).resolve()


def _is_collection(path: Path) -> bool:
    return any((path / kind).is_dir() for kind in KINDS)


def own_files(pattern: str) -> list[Path]:
    """The project's own files of a pattern such as `cases/dps/*.json`, sorted; never empty.

    Raises
    ------
    FileNotFoundError
        If there is none: a test without data would pass without a check.
    """
    found = sorted(OWN.glob(pattern))
    if not found:
        raise FileNotFoundError(f"no file {pattern} in {OWN}")
    return found


def larger_files(pattern: str) -> list[Path]:
    """Files of a pattern in the larger collection, sorted; empty if there is no larger collection."""
    root = larger()
    return [] if root is None else sorted(root.glob(pattern))


def _every(path: Path) -> bool:
    return True


def files(pattern: str, *, keep: Callable[[Path], bool] = _every) -> "list[ParameterSet]":
    """Parameters of a test, one for each file: the project's own, then the larger collection's, which are marked.

    Parameters
    ----------
    pattern
        Relative to a collection, for instance `cases/dps/*.json`.
    keep
        Which files to keep, for a test that needs a property that not every instance has.

    Raises
    ------
    FileNotFoundError
        If none of the project's own files is kept.
    """
    own = [path for path in own_files(pattern) if keep(path)]
    if not own:
        raise FileNotFoundError(f"no file {pattern} in {OWN} has what this test needs")
    more = [path for path in larger_files(pattern) if keep(path)]
    return [pytest.param(path, id=path.stem) for path in own] + [
        pytest.param(path, id=f"{MARKER}-{path.stem}", marks=pytest.mark.collection) for path in more
    ]


def groups(pattern: str, *, every: int = 1, keep: Callable[[Path], bool] = _every) -> "list[ParameterSet]":
    """Parameters of a test on many files at once: all own ones; then, marked, each `every`-th of the larger collection.

    Raises
    ------
    FileNotFoundError
        If none of the project's own files is kept.
    """
    own = [Path(str(param.values[0])) for param in files(pattern, keep=keep) if not param.marks]
    more = [path for path in larger_files(pattern)[::every] if keep(path)]
    return [pytest.param(own, id="own")] + (
        [pytest.param(more, id=MARKER, marks=pytest.mark.collection)] if more else []
    )


def summary(tests: int) -> str:
    """One line for the end of a run, in which `tests` tests were on a file of the larger collection."""
    root = larger()
    if root is None:
        return f"Test data: the project's own; there was no larger collection ({VARIABLE} names its directory)."
    return f"Test data: the project's own, and the larger collection in {root} (tests added: {tests})."
