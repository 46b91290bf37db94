"""JSON that people write: any text becomes a document of limited depth, or an error in words."""

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from scheduling.model.validation import shown

DEEPEST: Final = 20
"""Largest nesting depth of objects and lists; a bid needs four."""
TOO_DEEP: Final = f"expected at most {DEEPEST} levels of nesting, got more"
EXPECTED: Final = {
    "Expecting property name enclosed in double quotes": "a name in double quotes",
    "Expecting value": "a value",
    "Expecting ':' delimiter": "a colon after the name",
    "Expecting ',' delimiter": "a comma, or the end of the object or list",
    "Extra data": "nothing after the end of the document",
    "Unterminated string starting at": "a string that ends with a double quote",
    "Invalid control character at": "an escape such as \\n in place of a line break or control character",
    "Invalid \\escape": 'one of "\\/bfnrtu after a backslash',
    "Invalid \\uXXXX escape": "four hexadecimal digits after \\u",
    "Unexpected UTF-8 BOM (decode using utf-8-sig)": "a document without a byte order mark",
}
"""The text that JSON has in place of each error of Python's parser."""


@dataclass(frozen=True)
class Twice:
    """The value of a name that an object has twice: readers refuse the document."""

    name: str

    def __str__(self) -> str:
        return f"expected each name once in an object, got {shown(self.name)} twice"


def each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of these names and values, as `object_pairs_hook` of `json.loads`; see `Twice`."""
    document = dict(pairs)
    if len(document) < len(pairs):
        document |= {name: Twice(name) for name, count in Counter(name for name, _ in pairs).items() if count > 1}
    return document


def words_of(error: ValueError) -> str:
    """Return what a text that `json.loads` refuses should have, and where."""
    if not isinstance(error, json.JSONDecodeError):
        return str(error)
    return f"expected {EXPECTED.get(error.msg, error.msg)} at line {error.lineno}, column {error.colno}"


def read_json(text: str | bytes, **options: Any) -> Any:
    """Return the document of a text; `options` are those of `json.loads`.

    Raises
    ------
    ValueError
        If the text is no JSON, has a name twice in an object, or is nested too deeply for code that goes through
        documents.
    """
    try:
        document = json.loads(text, object_pairs_hook=each_once, **options)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    except json.JSONDecodeError as error:
        raise ValueError(words_of(error)) from None
    level = [document]
    for _ in range(DEEPEST):
        level = [inner for one in level for inner in _parts(one) if isinstance(inner, (dict, list, Twice))]
        for one in level:
            if isinstance(one, Twice):
                raise ValueError(str(one))
    if level:
        raise ValueError(TOO_DEEP)
    return document


def _parts(value: object) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
