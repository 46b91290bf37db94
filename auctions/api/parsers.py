"""Bodies, read strictly: what JSON readers commonly let pass is refused in words."""

import json
import math
from collections.abc import Mapping
from typing import IO, Any, Final

from django.conf import settings
from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser

from auctions.api.problems import BodyTooLarge

DEEPEST: Final = 20
"""Objects and lists within one another; a bid needs four."""


class StrictJSONParser(JSONParser):
    """JSON of bounded size and depth: UTF-8, finite numbers, no key twice, no text a database refuses."""

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The document, or a ParseError that says what was wrong."""
        limit = settings.BODY_LIMIT_BYTES
        # Read, not measured by its header: a chunked body has none.
        raw = stream.read(limit + 1)
        if len(raw) > limit:
            raise BodyTooLarge
        try:
            document = json.loads(
                raw.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_constant, parse_float=_finite
            )
        except UnicodeDecodeError:
            raise ParseError("The body is not UTF-8.") from None
        except RecursionError:
            raise ParseError(f"The body is nested more than {DEEPEST} levels deep.") from None
        except ValueError as error:
            raise ParseError(f"The body is not JSON: {str(error)[:200]}.") from None
        _check(document, DEEPEST)
        if not isinstance(document, dict):
            raise ParseError("The body is not a JSON object.")
        return document


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for key, value in pairs:
        if key in document:
            raise ParseError(f"The key {key[:60]!a} stands twice in one object.")
        document[key] = value
    return document


def _no_constant(name: str) -> float:
    raise ParseError(f"{name} is not a JSON number.")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ParseError(f"The number {text[:60]} is too large.")
    return number


def _check(value: object, levels: int) -> None:
    if isinstance(value, str):
        # A lone surrogate has no UTF-8, and Postgres stores no NUL.
        if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
            raise ParseError(f"The text {value[:60]!a} holds a character that cannot be stored.")
    elif isinstance(value, (dict, list)):
        if levels == 0:
            raise ParseError(f"The body is nested more than {DEEPEST} levels deep.")
        for inner in [*value, *value.values()] if isinstance(value, dict) else value:
            _check(inner, levels - 1)
