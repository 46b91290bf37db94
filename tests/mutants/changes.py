"""The changes of single places, which are found in the syntax tree of a file."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np

from tests.mutants.areas import AREAS, WHOLE
from tests.processes import ROOT


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
