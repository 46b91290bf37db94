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
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from math import ceil
from pathlib import Path
from queue import SimpleQueue
from threading import Timer
from time import monotonic
from typing import Final

import numpy as np

from tests.processes import ROOT

LEFT_OUT: Final = (".git", ".venv", "var", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis")
SLOWER: Final = 3
"""A mutant that takes this multiple of the processor time of the unchanged code counts as killed."""
LEAST_S: Final = 5
"""Processor time that each mutant may take beside that."""
WAITING: Final = 10
"""Largest waiting time of a mutant, as a multiple of its processor time."""
PYTEST: Final = (
    *("-m", "pytest", "-x", "-q", "-m", "not slow"),
    *("-p", "pytest_django.plugin", "-p", "no:cacheprovider", "--nomigrations"),
)


@dataclass(frozen=True)
class Area:
    """Sources that are changed, and the tests that have to notice."""

    sources: tuple[str, ...]
    """Paths or patterns below the root; `path::f,C.g` stands for a function and a method of a file."""
    tests: tuple[str, ...]
    """Arguments of pytest; the fastest and most effective tests come first."""
    weight: int
    """Number of mutants of the area among 25."""


AREAS: Final = {
    "prices": Area(
        (
            "scheduling/pricing/price_function.py",
            "scheduling/pricing/quantile.py",
            "scheduling/pricing/pooling.py",
            "scheduling/pricing/paper.py",
        ),
        (
            "tests/scheduling/test_prices.py",
            "tests/scheduling/test_pooling.py",
            "tests/scheduling/test_quantile_prices.py",
            "tests/scheduling/test_dps.py",
            "tests/scheduling/test_oasis.py",
            "tests/scheduling/test_paper_bounds.py",
            "tests/scheduling/test_oasis_instance.py",
        ),
        4,
    ),
    "ledger": Area(
        ("scheduling/book/ledger.py", "scheduling/book/running.py"),
        (
            "tests/scheduling/test_ledger.py",
            "tests/scheduling/test_running_book.py",
            "tests/scheduling/test_offer_history.py",
            "tests/scheduling/test_preemptive_policy.py",
            "tests/scheduling/test_closed_servers.py",
        ),
        4,
    ),
    "rigid kernel": Area(
        (
            "scheduling/best_response/rigid/kernel.py",
            "scheduling/best_response/rigid/bounds.py",
            "scheduling/best_response/rigid/durations.py",
            "scheduling/best_response/rigid/index.py",
            "scheduling/best_response/rigid/job.py",
            "scheduling/best_response/rigid/placement.py",
            "scheduling/best_response/rigid/search.py",
            "scheduling/best_response/rigid/tables.py",
        ),
        (
            "tests/scheduling/test_rigid_durations.py",
            "tests/scheduling/test_rigid.py",
            "tests/scheduling/test_rigid_bounds.py",
            "tests/scheduling/test_ring.py",
            "tests/scheduling/test_rigid_compiled.py",
        ),
        2,
    ),
    "planner kernel": Area(
        ("scheduling/batch/kernel.py", "scheduling/batch/options.py", "scheduling/batch/capacity.py"),
        ("tests/scheduling/test_planner.py",),
        1,
    ),
    "elastic kernel": Area(
        ("scheduling/best_response/elastic/*.py",),
        ("tests/scheduling/test_elastic.py", "tests/scheduling/test_elastic_compiled.py"),
        2,
    ),
    "posted price": Area(
        ("scheduling/policies/posted_price.py", "scheduling/pricing/density.py"),
        (
            "tests/scheduling/test_density.py",
            "tests/scheduling/test_kept_promise.py",
            "tests/scheduling/test_dps.py",
            "tests/scheduling/test_oasis.py",
            "tests/scheduling/test_counter_offers.py",
            "tests/scheduling/test_standing.py",
            "tests/scheduling/test_closed_servers.py",
        ),
        3,
    ),
    "transitions": Area(
        ("auctions/domain/transitions.py", "auctions/engine/decision_queue.py", "auctions/engine/decide.py"),
        (
            "tests/auctions/test_decision_queue.py",
            "tests/auctions/test_jobs_and_slots.py",
            "tests/auctions/test_planning.py",
            "tests/auctions/test_quarantine.py",
            "tests/auctions/test_wake.py",
            "tests/cluster/test_lock_watch.py",
            "tests/auctions/test_queues.py",
            "tests/auctions/test_standing_bids.py",
            "tests/auctions/test_standing_turns.py",
            "tests/auctions/test_early_completion.py",
        ),
        3,
    ),
    "money": Area(
        (
            "auctions/domain/money.py",
            "auctions/domain/refunds.py",
            "auctions/domain/totals.py",
            "auctions/engine/jobs.py",
            "auctions/history/audit_rows.py::receipts_match_rows,payments_rational,charges_match,welfare_adds_up",
        ),
        (
            "tests/auctions/test_jobs_and_slots.py",
            "tests/auctions/test_readings.py",
            "tests/auctions/api/test_quarantined.py",
            "tests/auctions/test_quarantine.py",
            "tests/auctions/test_planning_failures.py",
            "tests/auctions/test_early_completion.py",
            "tests/auctions/test_decision_queue.py::test_a_full_market_rejects_with_a_counter_offer",
            *(
                f"tests/auctions/test_outages.py::{name}"
                for name in (
                    "test_a_promise_on_a_lost_server_fails_and_what_was_not_delivered_is_paid_back",
                    "test_a_promise_that_had_not_begun_is_paid_back_whole",
                    "test_an_operator_fails_a_job_with_the_refund_that_is_chosen",
                    "test_the_audit_finds_a_refund_that_nobody_was_due",
                )
            ),
            "tests/auctions/test_audit.py::test_an_honest_market_passes_every_check",
            "tests/auctions/test_audit.py::test_what_happens_in_another_market_is_not_this_ones_fault",
            *(
                f"tests/auctions/test_audit.py::test_tampering_is_found[{what}]"
                for what in ("a value", "a payment", "a charge", "a charge gone", "a state", "a standalone value")
            ),
        ),
        3,
    ),
    "permissions": Area(
        (
            "cluster/operators.py",
            "cluster/operator_site.py",
            "accounts/permissions.py",
            "accounts/authentication.py",
            "accounts/rights.py",
            "accounts/teams.py::visible_teams,may_administer",
            "auctions/readings/visibility.py",
            "auctions/api/base.py",
            "auctions/api/bids.py::_to_end",
            "auctions/api/filters.py::filtered",
            "auctions/readings/publications.py::sees_all",
            "auctions/readings/gantt.py::bars",
            "auctions/readings/queues.py::displacements",
            "auctions/admin/bids.py::BidAdmin.fail,BidAdmin.retry",
            "auctions/admin/outages.py::OutageAdmin.report_view",
            "studies/split_learning/plans/readings.py::visible_plans",
            "studies/experiments/readings.py::visible_traces,visible_experiments",
            "studies/counterfactuals/readings.py::visible",
            "web/views.py::one_of",
            "frontend/access.py",
            "frontend/views/bids.py::withdraw,retry,cancel,_own",
            "frontend/views/servers.py::_market",
            "frontend/views/counterfactuals.py::_market,_own",
        ),
        (
            "tests/frontend/test_operators.py",
            "tests/accounts/test_tokens.py",
            "tests/accounts/test_teams.py",
            "tests/accounts/test_invitations.py",
            "tests/auctions/test_readings.py::test_bars_name_only_the_viewers_own_jobs",
            "tests/auctions/api/test_bids.py",
            "tests/auctions/api/test_servers.py",
            "tests/auctions/api/test_quarantined.py",
            "tests/frontend/test_server_pages.py",
            "tests/frontend/test_views.py",
            "tests/auctions/test_outages.py::test_operators_do_it_in_the_admin",
            "tests/frontend/test_queues.py",
            "tests/frontend/test_counterfactual_pages.py",
            "tests/auctions/api/test_large_bodies.py",
            "tests/auctions/api/test_permissions.py",
        ),
        3,
    ),
}
WHOLE: Final = sum(area.weight for area in AREAS.values())
TIMED_OUT: Final = (-signal.SIGKILL, -signal.SIGXCPU)


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
    """Bytes of the file that are replaced."""
    text: str
    """What stands there instead."""

    def apply(self, source: bytes) -> bytes:
        """The changed file."""
        return source[: self.start] + self.text.encode() + source[self.end :]

    def shown(self, source: bytes) -> str:
        """Return its place, and the line before and after the change."""
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
CHOSEN: Final = {"filter": "exclude", "exclude": "filter"}
"""Methods of queries that say which rows they are about."""
QUESTION: Final = re.compile(r"(is|has|sees|may)_\w+")
"""Names of functions that answer yes or no."""
GUARDS: Final = ("page_view", "market_view", "form_view", "action_view", "login_required", "require_POST")
"""Decorators that keep requests out."""


class _Finder:
    """All changes of one file: operators, constants, conditions, rows of queries, and calls that are left out."""

    def __init__(self, area: str, path: Path, source: bytes) -> None:
        self._area, self._path, self._source = area, path, source
        starts = [0]
        for line in source.split(b"\n"):
            starts.append(starts[-1] + len(line) + 1)
        self._starts = starts

    def found(self, wanted: Sequence[str] = ()) -> list[Mutant]:
        """Every mutant of these functions, or of all, in order of place."""
        tree = ast.parse(self._source)
        bodies = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        names = {id(body): body.name for body in bodies}
        names |= {
            id(body): f"{one.name}.{names[id(body)]}" for one in classes for body in one.body if id(body) in names
        }
        inner = {id(child) for body in bodies for child in ast.walk(body) if child is not body}
        outer = [body for body in bodies if id(body) not in inner and (not wanted or names[id(body)] in wanted)]
        found = [mutant for body in outer for statement in body.body for mutant in self._of(statement)]
        found += [mutant for body in outer for mutant in self._guards(body)]
        return sorted(found, key=lambda mutant: (mutant.start, mutant.end, mutant.text))

    def _of(self, node: ast.AST) -> Iterator[Mutant]:
        # Messages need not be tested word by word, and types are not behaviour.
        if isinstance(node, (ast.Raise, ast.JoinedStr, ast.arguments)) or _is_docstring(node) or _logs(node):
            return
        yield from self._changes(node)
        for name, child in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "type_params"):
                continue
            if isinstance(node, ast.keyword) and node.arg == "strict":  # of `zip`: it says what cannot happen
                continue
            for one in child if isinstance(child, list) else [child]:
                if isinstance(one, ast.AST):
                    yield from self._of(one)

    def _changes(self, node: ast.AST) -> Iterator[Mutant]:
        yield from self._operators(node)
        yield from self._values(node)
        match node:
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) if not _turned_anyway(test):
                text = self._source[self._start(test) : self._end(test)].decode()
                yield self._mutant(self._start(test), self._end(test), f"not ({text})")
            case ast.Expr(value=ast.Call()):
                yield self._mutant(self._start(node), self._end(node), "pass")
            case ast.Call() if _asks(node):
                yield self._mutant(self._start(node), self._start(node), "not ")
            case ast.Call(func=ast.Attribute(value=rows, attr=name)) if name in CHOSEN:
                start = self._source.index(name.encode(), self._end(rows))
                yield self._mutant(start, start + len(name), CHOSEN[name])
                yield from self._conditions(node)

    def _conditions(self, node: ast.Call) -> Iterator[Mutant]:
        """Each condition of a query is left out."""
        parts = [*node.args, *node.keywords]
        for i, part in enumerate(parts):
            start = self._start(part) if i == 0 else self._end(parts[i - 1])
            end = self._start(parts[1]) if i == 0 and len(parts) > 1 else self._end(part)
            yield self._mutant(start, end, "")

    def _guards(self, body: ast.FunctionDef) -> Iterator[Mutant]:
        for one in body.decorator_list:
            if isinstance(one, ast.Name) and one.id in GUARDS:
                yield self._mutant(self._start(one) - 1, self._end(one), "")

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
            case ast.UnaryOp(op=ast.Not() | ast.USub() as sign, operand=operand) if not _turned_anyway(operand):
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


def _logs(node: ast.AST) -> bool:
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="log")))):
            return True
    return False


def _asks(node: ast.AST) -> bool:
    """Whether it is a call of a function that answers yes or no."""
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return QUESTION.fullmatch(name) is not None
    return False


def _turned_anyway(node: ast.AST) -> bool:
    """Whether another change of the same condition has it say the opposite."""
    match node:
        case ast.Compare(ops=[ast.Is() | ast.IsNot() | ast.In() | ast.NotIn() | ast.Eq() | ast.NotEq()]):
            return True
        case ast.UnaryOp(op=ast.Not()):
            return True
    return _asks(node)


def sources_of(name: str) -> list[tuple[Path, list[str]]]:
    """Files of an area, below the root, each with the functions that count; none: all of them."""
    found = []
    for source in AREAS[name].sources:
        pattern, _, functions = source.partition("::")
        paths = sorted(path.relative_to(ROOT) for path in ROOT.glob(pattern))
        if not paths:
            raise FileNotFoundError(f"no file is {pattern}, which the area {name} names")
        found += [(path, functions.split(",") if functions else []) for path in paths]
    return found


def mutants_of(name: str) -> list[Mutant]:
    """Every mutant of an area."""
    found: list[Mutant] = []
    for path, functions in sources_of(name):
        mutants = _Finder(name, path, (ROOT / path).read_bytes()).found(functions)
        if functions and not mutants:
            raise LookupError(f"{path} has none of {functions}")
        found += mutants
    return found


def draw(count: int, seed: int, names: Sequence[str]) -> list[Mutant]:
    """Return mutants of these areas: `count` for all areas are divided by their weights, without repetition."""
    drawn: list[Mutant] = []
    for place, name in enumerate(AREAS):
        if name not in names:
            continue
        mutants = mutants_of(name)
        wanted = min(len(mutants), -(-count * AREAS[name].weight // WHOLE))
        chosen = np.random.default_rng([seed, place]).choice(len(mutants), size=wanted, replace=False)
        drawn += [mutants[int(i)] for i in chosen]
    return drawn


@dataclass(frozen=True)
class Run:
    """What became of a run of tests."""

    status: int | None
    """Exit status of pytest; None if it did not end in time."""
    processor_s: float
    printed: str
    """The last of it."""


class Workshop:
    """A copy of the project in which one mutant at a time is tried."""

    def __init__(self, folder: Path, *, seed: int) -> None:
        self.root = folder / "copy"
        self._seed = seed
        self._changes = 0
        shutil.copytree(ROOT, self.root, ignore=shutil.ignore_patterns(*LEFT_OUT))

    def run(self, tests: Sequence[str], *, most_s: float) -> Run:
        """Run these tests in a process with this limit of processor time."""
        env = {
            **os.environ,
            "SHADOWPRICE_VAR": str(self.root / "var"),
            "SHADOWPRICE_SEED": str(self._seed),  # random tests draw the same for every mutant
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # plugins that these tests do not need take half a second
        }
        # With bytecode a process starts two seconds earlier.
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        with (
            tempfile.TemporaryFile() as printed,
            subprocess.Popen(
                [sys.executable, *PYTEST, *tests],
                cwd=self.root,
                env=env,
                stdout=printed,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            ) as process,
        ):
            # Processor time is the same however busy the machine is; a loop without an end uses it up.
            resource.prlimit(process.pid, resource.RLIMIT_CPU, (ceil(most_s), ceil(most_s)))
            timer = Timer(WAITING * most_s, _kill_group, [process.pid])
            timer.start()
            _, ended, used = os.wait4(process.pid, 0)
            timer.cancel()
            _kill_group(process.pid)  # what a test has started and left behind
            process.returncode = os.waitstatus_to_exitcode(ended)
            printed.seek(0)
            text = printed.read().decode(errors="replace")[-3000:]
        status = None if process.returncode in TIMED_OUT else process.returncode
        return Run(status, used.ru_utime + used.ru_stime, text)

    def with_change(self, path: Path, changed: bytes, tests: Sequence[str], *, most_s: float) -> Run:
        """Run these tests with another text of one file; the copy is then as it was."""
        place = self.root / path
        source, times = place.read_bytes(), place.stat()
        self._changes += 1
        try:
            place.write_bytes(changed)
            # Bytecode is found by the second and the size of its source: no two texts may have the same second.
            os.utime(place, (times.st_atime, int(times.st_mtime) + 1 + self._changes))
            return self.run(tests, most_s=most_s)
        finally:
            place.write_bytes(source)
            os.utime(place, ns=(times.st_atime_ns, times.st_mtime_ns))

    def fate(self, mutant: Mutant, *, most_s: float) -> Fate:
        """What the area's tests make of a mutant."""
        changed = mutant.apply((self.root / mutant.path).read_bytes())
        run = self.with_change(mutant.path, changed, AREAS[mutant.area].tests, most_s=most_s)
        if run.status is None:
            return Fate.TIMED_OUT
        return Fate.KILLED if run.status else Fate.SURVIVED


def _kill_group(leader: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def baseline(workshop: Workshop, names: Sequence[str]) -> dict[str, float]:
    """Processor seconds that each area's tests take on code that does the same; raises if one of them fails.

    A line is added to one file, so that kernels are compiled as for every mutant.
    """
    took: dict[str, float] = {}
    for name in names:
        path, _ = sources_of(name)[0]
        changed = (workshop.root / path).read_bytes() + b"# The same.\n"
        run = workshop.with_change(path, changed, AREAS[name].tests, most_s=600)
        if run.status != 0:
            raise RuntimeError(f"the tests of {name} fail on the unchanged code:\n{run.printed}")
        took[name] = run.processor_s
        print(f"{name}: {len(mutants_of(name))} mutants, tests take {took[name]:.0f} s", flush=True)
    return took


def try_all(drawn: Sequence[Mutant], names: Sequence[str], *, jobs: int, seed: int) -> list[Fate]:
    """What becomes of each mutant, in order."""
    with tempfile.TemporaryDirectory(prefix="shadowprice-mutants-") as folder:
        workshops: SimpleQueue[Workshop] = SimpleQueue()
        for job in range(jobs):
            (Path(folder) / str(job)).mkdir()
            workshops.put(Workshop(Path(folder) / str(job), seed=seed))
        first = workshops.get()
        took = baseline(first, names)
        workshops.put(first)

        def one(mutant: Mutant) -> Fate:
            workshop = workshops.get()
            try:
                fate = workshop.fate(mutant, most_s=SLOWER * took[mutant.area] + LEAST_S)
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
    parser.add_argument("--count", type=int, default=225, help="mutants in all areas together (default: 225)")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default: 1)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="copies side by side")
    parser.add_argument("--least", type=float, default=0.9, help="share that has to be killed (default: 0.9)")
    parser.add_argument("--area", action="append", choices=list(AREAS), help="only this one; may be repeated")
    parser.add_argument("--again", type=Path, metavar="FILE", help="only those that survived by this output of a run")
    asked = parser.parse_args()
    names = [name for name in AREAS if name in (asked.area or AREAS)]
    drawn = draw(asked.count, asked.seed, names)
    if asked.again:
        before = asked.again.read_text()
        drawn = [mutant for mutant in drawn if f"{mutant.shown((ROOT / mutant.path).read_bytes())}\n" in before]
        names = [name for name in names if any(mutant.area == name for mutant in drawn)]
    began = monotonic()
    fates = try_all(drawn, names, jobs=asked.jobs, seed=asked.seed)
    rows = Counter((mutant.area, fate) for mutant, fate in zip(drawn, fates, strict=True))
    print(f"{'area':16} {'mutants':>8} {'killed':>8} {'timed out':>10} {'survived':>9}")
    for name in names:
        counts = [rows[name, fate] for fate in (Fate.KILLED, Fate.TIMED_OUT, Fate.SURVIVED)]
        print(f"{name:16} {sum(counts):8} {counts[0]:8} {counts[1]:10} {counts[2]:9}")
    killed = sum(fate is not Fate.SURVIVED for fate in fates)
    print(f"{killed} of {len(drawn)} mutants killed: {killed / len(drawn):.1%} (seed {asked.seed})")
    print(f"{(monotonic() - began) / len(drawn):.1f} s for each mutant")
    return 0 if killed >= asked.least * len(drawn) else 1


if __name__ == "__main__":
    sys.exit(main())
