"""Change one place of the code at a time, and see whether the tests that guard it notice.

Run as `python -m tests.mutants`. Each change (a mutant) is made in a copy of the project, where the tests of its area
then run. A mutant is killed when a test fails, when the tests do not end in time, or when the code no longer compiles.
It survives when all tests pass: then a test is missing, or the change makes no difference.

Exits with status 1 if fewer than the wanted share is killed. Every survivor is printed as a difference of two lines.
"""

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from queue import SimpleQueue
from time import monotonic
from typing import Final

import numpy as np

from tests.processes import ROOT

LEFT_OUT: Final = (".git", ".venv", "var", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis")
SLOWER: Final = 5
"""A mutant that takes so many times as long as the unchanged code counts as killed."""
COMPILING_S: Final = 120
"""Time that a changed kernel may take to compile, beside that."""


@dataclass(frozen=True)
class Area:
    """Sources that are changed, and the tests that have to notice."""

    sources: tuple[str, ...]
    """Paths or patterns below the root."""
    tests: tuple[str, ...]
    """Arguments of pytest, quickest first."""
    weight: int
    """How many mutants of the area there are, of 24 in all."""


AREAS: Final = {
    "prices": Area(
        ("scheduling/prices.py", "scheduling/learned_prices.py", "scheduling/printed_bounds.py"),
        (
            "tests/scheduling/test_prices.py",
            "tests/scheduling/test_dps.py",
            "tests/scheduling/test_oasis.py",
            "tests/scheduling/test_learned_prices.py",
            "tests/scheduling/test_every_auction.py",
        ),
        4,
    ),
    "ledger": Area(
        ("scheduling/ledger.py", "scheduling/running_book.py"),
        ("tests/scheduling/test_ledger.py", "tests/scheduling/test_running_book.py"),
        3,
    ),
    "rigid kernel": Area(("scheduling/rigid*.py",), ("tests/scheduling/test_rigid.py",), 3),
    "elastic kernel": Area(("scheduling/elastic*.py",), ("tests/scheduling/test_elastic.py",), 3),
    "posted price": Area(
        ("scheduling/posted_price.py",),
        ("tests/scheduling/test_counter_offers.py", "tests/scheduling/test_every_auction.py"),
        3,
    ),
    "transitions": Area(
        ("auctions/transitions.py", "auctions/lane.py"),
        ("tests/auctions/test_lane.py", "tests/auctions/test_jobs_and_slots.py", "tests/auctions/test_planning.py"),
        3,
    ),
    "money": Area(
        ("auctions/jobs.py", "auctions/audit_rows.py", "auctions/readings.py"),
        ("tests/auctions/test_readings.py", "tests/auctions/test_audit.py", "tests/auctions/test_jobs_and_slots.py"),
        3,
    ),
    "permissions": Area(
        ("frontend/access.py", "auctions/api/base.py"),
        ("tests/auctions/api", "tests/frontend/test_views.py"),
        2,
    ),
}
WHOLE: Final = sum(area.weight for area in AREAS.values())


class Fate(StrEnum):
    """What became of a mutant."""

    KILLED = "killed"
    TIMED_OUT = "timed out"
    SURVIVED = "survived"


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    area: str
    path: Path
    """Below the root."""
    start: int
    end: int
    """Which bytes of the file are replaced."""
    text: str
    """What stands there instead."""

    def apply(self, source: bytes) -> bytes:
        """The changed file."""
        return source[: self.start] + self.text.encode() + source[self.end :]

    def shown(self, source: bytes) -> str:
        """Where it is, and the line before and after the change."""
        line = source[: self.start].count(b"\n")
        before, after = (text.decode().split("\n")[line].strip() for text in (source, self.apply(source)))
        return f"{self.path}:{line + 1}\n    - {before}\n    + {after}"


COMPARED: Final = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
COMPUTED: Final = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.Pow: ("**", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
}
JOINED: Final = {ast.And: ("and", "or"), ast.Or: ("or", "and")}
RENAMED: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}


class _Finder:
    """All changes of one file: operators, constants, conditions, and calls that are left out."""

    def __init__(self, area: str, path: Path, source: bytes) -> None:
        self._area, self._path, self._source = area, path, source
        starts = [0]
        for line in source.split(b"\n"):
            starts.append(starts[-1] + len(line) + 1)
        self._starts = starts

    def found(self) -> list[Mutant]:
        """Every mutant, in order of place."""
        tree = ast.parse(self._source)
        bodies = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        inner = {id(child) for body in bodies for child in ast.walk(body) if child is not body}
        outer = [body for body in bodies if id(body) not in inner]
        found = [mutant for body in outer for statement in body.body for mutant in self._of(statement)]
        return sorted(found, key=lambda mutant: (mutant.start, mutant.end, mutant.text))

    def _of(self, node: ast.AST) -> Iterator[Mutant]:
        # What a message says is no behaviour that has to be tested word by word, and a type is none at all.
        if isinstance(node, (ast.Raise, ast.JoinedStr, ast.arguments)) or _is_docstring(node):
            return
        yield from self._changes(node)
        for name, child in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "type_params"):
                continue
            for one in child if isinstance(child, list) else [child]:
                if isinstance(one, ast.AST):
                    yield from self._of(one)

    def _changes(self, node: ast.AST) -> Iterator[Mutant]:
        yield from self._operators(node)
        yield from self._values(node)
        match node:
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
                text = self._source[self._start(test) : self._end(test)].decode()
                yield self._mutant(self._start(test), self._end(test), f"not ({text})")
            case ast.Expr(value=ast.Call()):
                yield self._mutant(self._start(node), self._end(node), "pass")

    def _operators(self, node: ast.AST) -> Iterator[Mutant]:
        match node:
            case ast.Compare(left=left, ops=ops, comparators=others):
                for before, after, op in zip([left, *others], others, ops, strict=False):
                    yield from self._between(before, after, COMPARED.get(type(op)))
            case ast.BinOp(left=left, op=op, right=right):
                yield from self._between(left, right, COMPUTED.get(type(op)))
            case ast.BoolOp(op=op, values=values):
                for before, after in pairwise(values):
                    yield from self._between(before, after, JOINED.get(type(op)))
            case ast.AugAssign(target=target, op=op, value=value):
                signs = COMPUTED.get(type(op))
                yield from self._between(target, value, signs and (f"{signs[0]}=", f"{signs[1]}="))

    def _values(self, node: ast.AST) -> Iterator[Mutant]:
        start = self._start(node) if hasattr(node, "lineno") else 0
        match node:
            case ast.UnaryOp(op=ast.Not() | ast.USub() as sign):
                yield self._mutant(start, start + (3 if isinstance(sign, ast.Not) else 1), "")
            case ast.Constant(value=bool() as value):
                yield self._mutant(start, self._end(node), str(not value))
            case ast.Constant(value=int() | float() as value):
                yield self._mutant(start, self._end(node), repr(value + 1))
            case ast.Call(func=ast.Name(id=name)) if name in RENAMED:
                yield self._mutant(start, start + len(name), RENAMED[name])

    def _between(self, before: ast.AST, after: ast.AST, signs: tuple[str, str] | None) -> Iterator[Mutant]:
        if signs is None:
            return
        start, end = self._end(before), self._start(after)
        sign = re.escape(signs[0]).replace("\\ ", r"\s+")
        found = re.search(rb"(?<![\w*/<>=!])" + sign.encode() + rb"(?![\w*/<>=])", self._source[start:end])
        if found is not None:
            yield self._mutant(start + found.start(), start + found.end(), signs[1])

    def _mutant(self, start: int, end: int, text: str) -> Mutant:
        return Mutant(self._area, self._path, start, end, text)

    def _start(self, node: ast.AST) -> int:
        return self._starts[node.lineno - 1] + int(node.col_offset)  # type: ignore[attr-defined]

    def _end(self, node: ast.AST) -> int:
        return self._starts[node.end_lineno - 1] + int(node.end_col_offset)  # type: ignore[attr-defined]


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def mutants_of(name: str) -> list[Mutant]:
    """Every mutant of an area."""
    found: list[Mutant] = []
    for pattern in AREAS[name].sources:
        for path in sorted(ROOT.glob(pattern)):
            found += _Finder(name, path.relative_to(ROOT), path.read_bytes()).found()
    return found


def draw(count: int, seed: int, names: Sequence[str]) -> list[Mutant]:
    """So many mutants of these areas by their weights, without repetition."""
    rng = np.random.default_rng(seed)
    whole = sum(AREAS[name].weight for name in names)
    drawn: list[Mutant] = []
    for name in names:
        mutants = mutants_of(name)
        wanted = min(len(mutants), -(-count * AREAS[name].weight // whole))
        drawn += [mutants[int(i)] for i in rng.choice(len(mutants), size=wanted, replace=False)]
    return drawn


class Workshop:
    """A copy of the project in which one mutant at a time is tried."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "copy"
        shutil.copytree(ROOT, self.root, ignore=shutil.ignore_patterns(*LEFT_OUT))

    def run(self, tests: Sequence[str], *, timeout_s: float) -> tuple[int | None, str]:
        """The exit status of these tests, None if they did not end in time, and what they printed last."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *tests]
        env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "SHADOWPRICE_VAR": str(self.root / "var")}
        try:
            done = subprocess.run(command, cwd=self.root, env=env, capture_output=True, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return None, ""
        return done.returncode, done.stdout.decode()[-3000:]

    def fate(self, mutant: Mutant, *, timeout_s: float) -> Fate:
        """What the area's tests make of a mutant; the copy is then as it was."""
        path = self.root / mutant.path
        source, times = path.read_bytes(), path.stat()
        try:
            path.write_bytes(mutant.apply(source))
            status, _ = self.run(AREAS[mutant.area].tests, timeout_s=timeout_s)
        finally:
            path.write_bytes(source)
            # Machine code on disk is found by the time of its source.
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        if status is None:
            return Fate.TIMED_OUT
        return Fate.KILLED if status else Fate.SURVIVED


def baseline(workshop: Workshop, names: Sequence[str]) -> dict[str, float]:
    """Seconds that each area's tests take on the unchanged code; raises if one of them fails."""
    took: dict[str, float] = {}
    for name in names:
        began = monotonic()
        status, printed = workshop.run(AREAS[name].tests, timeout_s=1800)
        if status != 0:
            raise RuntimeError(f"the tests of {name} fail on the unchanged code:\n{printed}")
        took[name] = monotonic() - began
        print(f"{name}: {len(mutants_of(name))} mutants, tests take {took[name]:.0f} s", flush=True)
    return took


def try_all(drawn: Sequence[Mutant], names: Sequence[str], jobs: int) -> list[Fate]:
    """What becomes of each mutant, in order."""
    with tempfile.TemporaryDirectory(prefix="shadowprice-mutants-") as folder:
        workshops: SimpleQueue[Workshop] = SimpleQueue()
        for job in range(jobs):
            (Path(folder) / str(job)).mkdir()
            workshops.put(Workshop(Path(folder) / str(job)))
        first = workshops.get()
        took = baseline(first, names)
        workshops.put(first)

        def one(mutant: Mutant) -> Fate:
            workshop = workshops.get()
            try:
                fate = workshop.fate(mutant, timeout_s=SLOWER * took[mutant.area] + COMPILING_S)
            finally:
                workshops.put(workshop)
            if fate is Fate.SURVIVED:
                print(f"survived: {mutant.shown((ROOT / mutant.path).read_bytes())}", flush=True)
            return fate

        with ThreadPoolExecutor(jobs) as pool:
            return list(pool.map(one, drawn))


def main() -> int:
    """Draw mutants, try them, print a table by area."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=240, help="mutants in all (default: 240)")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default: 1)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="copies side by side")
    parser.add_argument("--least", type=float, default=0.9, help="share that has to be killed (default: 0.9)")
    parser.add_argument("--area", action="append", choices=list(AREAS), help="only this one; may be repeated")
    asked = parser.parse_args()
    names = asked.area or list(AREAS)
    drawn = draw(asked.count, asked.seed, names)
    fates = try_all(drawn, names, asked.jobs)
    rows = Counter((mutant.area, fate) for mutant, fate in zip(drawn, fates, strict=True))
    print(f"{'area':16} {'mutants':>8} {'killed':>8} {'timed out':>10} {'survived':>9}")
    for name in names:
        counts = [rows[name, fate] for fate in (Fate.KILLED, Fate.TIMED_OUT, Fate.SURVIVED)]
        print(f"{name:16} {sum(counts):8} {counts[0]:8} {counts[1]:10} {counts[2]:9}")
    killed = sum(fate is not Fate.SURVIVED for fate in fates)
    print(f"{killed} of {len(drawn)} mutants killed: {killed / len(drawn):.1%} (seed {asked.seed})")
    return 0 if killed >= asked.least * len(drawn) else 1


if __name__ == "__main__":
    sys.exit(main())
