"""Messages about wrong input have one form: "expected ..., got ..."."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.architecture.test_names import ROOMS

ROOT: Final = Path(__file__).parents[2]
MESSAGE: Final = {
    "ArgumentTypeError": 0,
    "CommandError": 0,
    "ImproperlyConfigured": 0,
    "InvalidField": 1,
    "OutOfRange": 1,
    "UnknownFormat": 0,
    "ValidationError": 0,
    "WrongSettings": 0,
    "refuse": 1,
}
"""Errors about input, and the position of their message."""
FORM: Final = re.compile(r"(\S+: )?[Ee]xpected .+, got .+", re.DOTALL)
RESULT: Final = 1
"""Exit status of a command whose input was right and whose result is bad, such as a failed audit."""

MISSING: Final = re.compile(r"missing\b")
"""A required field is missing: nothing was given, and the field's name says what is expected."""
UNKNOWN: Final = re.compile(r"unknown( parameter( of \{\})?)?; known: ")
"""A key is unknown: the list of known keys may be long, so it comes last."""
FROM_ELSEWHERE: Final = re.compile(r"(\S+: )?\{error[^}]*\}( \(\{\}\))?")
"""The message of another error, with its place or its name."""
CONFLICTS: Final = (
    # The present state of a market, not the input, is the reason.
    "{} shares workers that jobs hold; let them end or cancel them first",
    "{} books slots; jobs are in workers' queues: let them end first",
    "{} plans nothing, and {} jobs wait in line for a plan",
    "{} does not run {} jobs, and some wait in line",
    "{} could never run jobs that wait in line: {}{}",
    "{} keeps no promised slots, and jobs that were promised one wait in line for a plan",
    "trace {} was deleted",
    # A message must not say which of the two is wrong.
    "no such user and password",
    # The port is in use, which the message of the system before it says.
    "cannot listen on {}:{}",
    # Django found the request suspicious, and its reason is not for the client.
    "The request was refused.",
)
"""Messages about conflicts of state."""


class Message(NamedTuple):
    """A literal message in the code; `{}` stands for a value, `{error...}` for another error."""

    place: str
    text: str


def messages(source: str, path: str = "") -> Iterator[Message]:
    """Yield the literal messages of errors about input."""
    if not any(name in source for name in MESSAGE):
        return
    tree = ast.parse(source)
    outside = [node for node in tree.body if not isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for function in (ast.Module(outside, []), *functions):
        known = {
            node.targets[0].id: node.value
            for node in ast.walk(function)
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and not _is_result(node):
                position = MESSAGE.get(_name(node.func))
                if position is not None and len(node.args) > position:
                    for text in _texts(node.args[position], known):
                        yield Message(f"{path}:{node.lineno}", text)


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _is_result(call: ast.Call) -> bool:
    return any(
        one.arg == "returncode" and isinstance(one.value, ast.Constant) and one.value.value == RESULT
        for one in call.keywords
    )


def _texts(node: ast.expr, known: dict[str, ast.expr]) -> Iterator[str]:
    """Yield the literal texts of an argument, of a variable that was assigned one, or within a list or an object."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(_part(part) for part in node.values)
    elif isinstance(node, ast.Name) and isinstance(known.get(node.id), (ast.Constant, ast.JoinedStr)):
        yield from _texts(known[node.id], {})
    elif isinstance(node, (ast.List, ast.Dict)):
        for inner in node.elts if isinstance(node, ast.List) else node.values:
            yield from _texts(inner, known)


def _part(part: ast.expr) -> str:
    if isinstance(part, ast.Constant):
        return str(part.value)
    value = ast.unparse(part.value) if isinstance(part, ast.FormattedValue) else ""
    return f"{{{value}}}" if value.startswith("error") else "{}"


def has_form(text: str) -> bool:
    """Whether a message has the form, or one of the others that are allowed."""
    return bool(
        FORM.fullmatch(text)
        or MISSING.match(text)
        or UNKNOWN.match(text)
        or FROM_ELSEWHERE.fullmatch(text)
        or text in CONFLICTS
    )


@cache
def all_messages() -> tuple[Message, ...]:
    """Return the messages of all rooms."""
    return tuple(
        message
        for room in ROOMS
        for path in sorted((ROOT / room).rglob("*.py"))
        for message in messages(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)))
    )


def test_messages_say_what_was_expected_and_what_came() -> None:
    found = all_messages()
    assert len(found) > 200, "the test finds the messages"
    assert [message for message in found if not has_form(message.text)] == []


def test_each_conflict_is_in_the_code() -> None:
    found = {message.text for message in all_messages()}
    assert [text for text in CONFLICTS if text not in found] == []


@pytest.mark.parametrize(
    ("source", "right"),
    [
        ('raise InvalidField("T", f"expected at most 9, got {T}")', True),
        ('raise InvalidField("T", "missing")', True),
        ('raise InvalidField(error.field, f"{error.problem} ({who})")', True),
        ('raise CommandError("--set: expected NAME=VALUE, got nothing")', True),
        ('raise CommandError("3 checks failed", returncode=1)', True),
        ('raise InvalidField("T", "expected at least one")', False),
        ('raise refuse("T", "is too large")', False),
        ('raise forms.ValidationError({"T": ["Choose a year."]})', False),
        ('def check():\n    problem = f"{T} is too large"\n    raise InvalidField("T", problem)', False),
    ],
)
def test_the_rule_finds_what_it_is_for(source: str, right: bool) -> None:
    assert all(has_form(message.text) for message in messages(source)) is right
