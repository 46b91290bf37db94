"""The project's Python files as their code says, each parsed once for all tests of a process."""

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple


class Parsed(NamedTuple):
    """Parts of a Python file that several tests look at."""

    docstrings: tuple[str, ...]
    """Docstrings of the module, and those of its classes, functions, fields and constants."""
    imports: tuple[ast.Import | ast.ImportFrom, ...]
    """Imports, also those within functions."""


@cache
def parsed(path: Path) -> Parsed:
    """Return the parts of a Python file."""
    docstrings, imports = [], []
    for node in statements(ast.parse(path.read_text(encoding="utf-8")).body):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docstrings.append(node.value.value)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            imports.append(node)
    return Parsed(tuple(docstrings), tuple(imports))


def statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements and those within them, without a look at expressions, which hold no statements."""
    for node in body:
        yield node
        blocks = [node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())]
        for block in blocks:
            for part in ("body", "orelse", "finalbody"):
                yield from statements(getattr(block, part, ()))
