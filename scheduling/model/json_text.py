"""JSON that people write: any text becomes a document of limited depth, or an error in words."""

import json
from typing import Any, Final

DEEPEST: Final = 20
"""Largest nesting depth of objects and lists; a bid needs four."""
TOO_DEEP: Final = f"expected at most {DEEPEST} levels of nesting, got more"


def read_json(text: str | bytes, **options: Any) -> Any:
    """Return the document of a text; `options` are those of `json.loads`.

    Raises
    ------
    ValueError
        If the text is no JSON, has a name twice in an object, or is nested too deeply for code that goes through
        documents.
    """
    try:
        document = json.loads(text, **{"object_pairs_hook": _once, **options})
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    level = [document]
    for _ in range(DEEPEST):
        level = [inner for one in level for inner in _parts(one) if isinstance(inner, (dict, list))]
    if level:
        raise ValueError(TOO_DEEP)
    return document


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for name, value in pairs:
        if name in document:
            raise ValueError(f"expected each name once in an object, got {name[:60]!r} twice")
        document[name] = value
    return document


def _parts(value: object) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
