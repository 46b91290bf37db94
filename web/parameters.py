"""Query parameters: each is checked as its operation describes it, and one error names all that are wrong."""

import math
import re
from collections.abc import Sequence
from datetime import date
from typing import Any, Final

from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from scheduling.model.validation import plain, shown
from web.fields import UNSTORABLE, any_of, unknown_keys

LARGEST_SLOT: Final = 10**9
_INTEGER: Final = re.compile(r"-?[0-9]{1,19}")
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_NUMBER: Final = re.compile(r"[-+.0-9eE]{1,20}")


def wrong_parameters(request: Request, described: Sequence[OpenApiParameter]) -> dict[str, list[str]]:
    """Return what is wrong with query parameters that are unknown, empty, repeated or not as their descriptions say.

    A misspelt, empty or repeated filter would return too many rows.
    """
    known = {one.name: one for one in described}
    query = request.query_params
    wrong = unknown_keys(query, known, f"unknown parameter; known: {', '.join(known) or 'none'}")
    wrong |= {name: _wrong(one, query.getlist(name)) for name, one in known.items() if name in query}
    return {name: [problem] for name, problem in wrong.items() if problem}


def whole_number(request: Request, name: str) -> int | None:
    """A query parameter that is described as a whole number; None if it is not given."""
    text = request.query_params.get(name)
    return None if text is None else int(text)


def day_of(text: str) -> date:
    """Return the day that a text such as 2026-11-25 names; raises ValueError for any other."""
    if not _DAY.fullmatch(text):
        raise ValueError(f"expected a day such as 2026-11-25, got {shown(text)}")
    day = date.fromisoformat(text)
    if day.year in (date.min.year, date.max.year):
        raise ValueError(f"expected a day of another year, got {text}")
    return day


def _wrong(described: OpenApiParameter, values: Sequence[str]) -> str:
    """Return what is wrong with the values of a parameter; empty if nothing is."""
    if "" in values:
        return "expected a value, got none; leave the parameter out to set no limit"
    if any(UNSTORABLE.search(value) for value in values):
        return "expected text without NUL and lone surrogates, got one of them"
    if len(values) > 1 and not described.many:
        return "expected one value, got several"
    for value in values:
        if expected := _expected(described, value):
            return f"expected {expected}, got {shown(value)}"
    return ""


def _expected(described: OpenApiParameter, value: str) -> str:
    """Return what was expected instead of this value; empty if it is right."""
    kind: dict[str, Any] = described.type if isinstance(described.type, dict) else {}
    if described.enum is not None:
        return "" if value in described.enum else any_of(list(described.enum))
    match kind.get("type"), kind.get("format"):
        case "integer", _:
            low, high = kind["minimum"], kind["maximum"]
            is_right = _INTEGER.fullmatch(value) is not None and low <= int(value) <= high
            return "" if is_right else f"a whole number from {plain(low)} to {plain(high)}"
        case "number", _:
            low, high = kind["minimum"], kind["maximum"]
            return "" if low <= _number(value) <= high else f"a number from {plain(low)} to {plain(high)}"
        case "string", "date":
            try:
                day_of(value)
            except ValueError:
                return "a day such as 2026-11-25"
    return ""


def _number(text: str) -> float:
    """Return the number that a text in digits states; not a number for any other text."""
    try:
        return float(text) if _NUMBER.fullmatch(text) else math.nan
    except ValueError:
        return math.nan
