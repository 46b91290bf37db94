"""Rules of the house that no linter knows: one reader of time, one writer of a bid's state, no global randomness."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.processes import ROOT

ROOMS = ("config", "frontend", "studies", "demo", "execution", "auctions", "accounts", "web", "cluster", "scheduling")
WALL_TIME = {
    "timezone.now",
    "timezone.localtime",
    "time.time",
    "time.time_ns",
    "datetime.now",
    "datetime.utcnow",
    "datetime.today",
    "date.today",
}
READERS = {"cluster/clock.py", "execution/engines/shim.py"}
STATE_WRITERS = {
    "auctions/domain/transitions.py",
    "auctions/engine/submission.py",
    "execution/records.py",
    "studies/background/states.py",
}
"""Every change of a bid's state is a transition; a submission only creates, in the model's default state. Plans and
runs of experiments have a writer of their own, and so have the processes of jobs."""


def modules(*rooms: str) -> Iterator[tuple[str, ast.Module]]:
    """Each module of the rooms with its path from the root, without migrations."""
    for room in rooms:
        for path in sorted((ROOT / room).rglob("*.py")):
            if "migrations" not in path.parts:
                yield path.relative_to(ROOT).as_posix(), parsed(path)


@cache
def parsed(path: Path) -> ast.Module:
    """A module, which many of these tests look at."""
    return ast.parse(path.read_text())


@cache
def called(tree: ast.Module) -> list[tuple[str, ast.Call]]:
    """Calls by all their names, such as `django.utils.timezone.now`."""
    return [(dotted(node.func), node) for node in ast.walk(tree) if isinstance(node, ast.Call)]


def dotted(node: ast.expr) -> str:
    """The names of an expression with dots; `?` stands for what is no name, such as the call in `?.filter`."""
    match node:
        case ast.Name(name):
            return name
        case ast.Attribute(value, name):
            return f"{dotted(value)}.{name}"
    return "?"


def calls(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    """Calls by their last two names, such as `timezone.now`."""
    for name, node in called(tree):
        yield ".".join(name.split(".")[-2:]), node


@pytest.mark.thorough
def test_only_the_clock_reads_wall_time() -> None:
    readers = {path for path, tree in modules(*ROOMS) for name, _ in calls(tree) if name in WALL_TIME}
    assert readers <= READERS


@pytest.mark.thorough
def test_no_loop_keeps_a_cursor_open() -> None:
    """`QuerySet.iterator` does: a write within such a loop fails on SQLite; `in_pages` reads pages instead."""
    assert not [path for path, tree in modules(*ROOMS) for name, _ in calls(tree) if name.endswith(".iterator")]


@pytest.mark.thorough
def test_no_field_reads_wall_time_by_itself() -> None:
    words = {"auto_now", "auto_now_add"}
    found = [path for path, tree in modules(*ROOMS) for _, call in calls(tree) for k in call.keywords if k.arg in words]
    assert not found


def _writes_state(node: ast.AST) -> bool:
    if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return any(isinstance(t, ast.Attribute) and t.attr == "state" for t in targets)
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "update"
        and any(keyword.arg == "state" for keyword in node.keywords)
    )


@pytest.mark.thorough
def test_one_module_writes_the_state_of_a_bid_and_one_that_of_a_plan() -> None:
    writers = {
        path
        for path, tree in modules("auctions", "execution", "studies", "frontend")
        if any(map(_writes_state, ast.walk(tree)))
    }
    assert writers <= STATE_WRITERS


@pytest.mark.thorough
@pytest.mark.parametrize("room", ROOMS)
def test_no_randomness_is_global(room: str) -> None:
    for path, tree in modules(room):
        imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert "random" not in imported, path
        drawn = {name for name, _ in called(tree) if name.startswith(("np.random.", "numpy.random."))}
        assert drawn <= {"np.random.default_rng", "np.random.Generator", "np.random.SeedSequence"}, path


@pytest.mark.thorough
@pytest.mark.parametrize("room", [room for room in ROOMS if room != "config"])
def test_every_generator_is_given_its_seed(room: str) -> None:
    unseeded = [
        path for path, tree in modules(room) for n, c in calls(tree) if n == "random.default_rng" and not c.args
    ]
    assert not unseeded


@pytest.mark.thorough
def test_the_core_opens_nothing_and_prints_nothing() -> None:
    # The command line is the one module of the core that reads a file and prints.
    world = {"open", "print", "input"}
    found = {path for path, tree in modules("scheduling") for name, _ in calls(tree) if name in world}
    assert found <= {"scheduling/__main__.py"}


def test_nobody_catches_everything_without_a_reason() -> None:
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if "except Exception" in line or line.strip() == "except:":
                    assert "#" in line, f"{path.relative_to(ROOT)}:{number}"


def test_every_module_has_a_page_at_most() -> None:
    # 300 lines is the rule; a compiled kernel may need more, since its parts cannot live apart without cost.
    long = {path: n for room in ROOMS for path, n in _lengths(ROOT / room) if n > 500}
    assert not long


def _lengths(room: Path) -> Iterator[tuple[str, int]]:
    for path in sorted(room.rglob("*.py")):
        if "migrations" not in path.parts:
            yield path.relative_to(ROOT).as_posix(), len(path.read_text().splitlines())
