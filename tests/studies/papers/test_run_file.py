"""An interrupted reproduction goes on with the runs that were complete."""

from pathlib import Path

import pytest

from studies.papers import run_file
from studies.papers.figure import Task
from studies.papers.run_file import Measured, RunFile


class Stopped(Exception):
    pass


def test_complete_runs_are_not_made_again(tmp_path: Path) -> None:
    made: list[tuple[int, int]] = []

    def measure(x: int, seed: int) -> dict[str, float]:
        made.append((x, seed))
        if len(made) == 3:
            raise Stopped
        return {"sum": x + seed}

    path = tmp_path / "figure-1.runs.jsonl"
    with pytest.raises(Stopped):
        Task(seeds=(1, 2), runs=RunFile(path, resume=False)).sweep((10, 20), measure)
    runs = RunFile(path, resume=True)
    data = Task(seeds=(1, 2), runs=runs).sweep((10, 20), measure)
    assert data["sum"].samples.tolist() == [[11, 12], [21, 22]]
    assert made == [(10, 1), (10, 2), (20, 1), (20, 1), (20, 2)]
    assert runs.earlier_s >= 0
    assert RunFile(path, resume=True).get(20, 2) is not None


def test_without_resume_it_begins_again(tmp_path: Path) -> None:
    path = tmp_path / "figure-1.runs.jsonl"
    RunFile(path, resume=False).add("a", 1, Measured({"b": 1.0}, frozenset({"c"}), 0.5))
    again = RunFile(path, resume=True)
    assert again.get("a", 1) == Measured({"b": 1.0}, frozenset({"c"}), 0.5)
    assert again.earlier_s == 0.5
    assert again.get("a", 2) is None
    assert RunFile(path, resume=False).get("a", 1) is None
    assert not path.exists()


def test_a_line_that_was_not_completed_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "figure-1.runs.jsonl"
    runs = RunFile(path, resume=False)
    for seed in (1, 2):
        runs.add(3, seed, Measured({"b": 1.0}, frozenset(), 0.5))
    path.write_text(path.read_text()[:-5])
    cut = RunFile(path, resume=True)
    assert (cut.get(3, 1) is None, cut.get(3, 2) is None) == (False, True)
    cut.add(3, 2, Measured({"b": 2.0}, frozenset(), 0.5))
    known = RunFile(path, resume=True).get(3, 2)
    assert known is not None
    assert known.values == {"b": 2.0}


def test_runs_of_other_code_are_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "figure-1.runs.jsonl"
    RunFile(path, resume=False).add(3, 1, Measured({"b": 1.0}, frozenset(), 0.5))
    monkeypatch.setattr(run_file, "code_digest", lambda: "that of another version")
    changed = RunFile(path, resume=True)
    assert changed.get(3, 1) is None
    assert (changed.of_other_code, changed.earlier_s) == (1, 0.0)
    changed.add(3, 2, Measured({"b": 2.0}, frozenset(), 0.5))
    again = RunFile(path, resume=True)
    assert (again.of_other_code, again.get(3, 1), again.get(3, 2)) == (0, None, Measured({"b": 2.0}, frozenset(), 0.5))


def test_the_digest_of_the_code_follows_each_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("scheduling/a.py", "studies/papers/b.py", "auctions/c.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    monkeypatch.setattr(run_file, "__file__", str(tmp_path / "studies/papers/run_file.py"))

    def digest() -> str:
        run_file.code_digest.cache_clear()
        return run_file.code_digest()

    try:
        before = digest()
        (tmp_path / "auctions/c.py").write_text("2")
        assert digest() == before
        (tmp_path / "scheduling/a.py").write_text("2")
        assert digest() != before
        (tmp_path / "scheduling/a.py").write_text("1")
        (tmp_path / "scheduling/a.py").rename(tmp_path / "scheduling/z.py")
        assert digest() != before
    finally:
        monkeypatch.undo()
        run_file.code_digest.cache_clear()
