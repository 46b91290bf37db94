"""Strict parsing of bodies: input that JSON readers commonly accept is refused with an error that names the field."""

import json
import math
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import IO, Any, Final

from django.conf import settings
from rest_framework.exceptions import UnsupportedMediaType, ValidationError
from rest_framework.parsers import BaseParser, JSONParser
from rest_framework.request import Request

from scheduling.model.json_text import DEEPEST, TOO_DEEP, Twice, each_once, words_of
from scheduling.model.validation import shown
from web.errors import BodyTooLarge, refuse
from web.fields import UNSTORABLE

LONGEST_INTEGER: Final = 300
"""Largest number of digits; a number with more digits is larger than any double."""

MOST_WRONG: Final = 20
"""Largest number of errors that one answer names."""


class StrictJSONParser(JSONParser):
    """Parse JSON of limited size and depth: UTF-8, finite numbers, no repeated key, no text that a database refuses."""

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The document, or an error that names what was wrong."""
        return read_object(read_text(stream, media_type, parser_context or {}))


class LargeJSONParser(BaseParser):
    """Parses large JSON bodies: Django's size setting limits every subclass of the framework's own parser."""

    media_type = "application/json"

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the document; raises an error that names the problem."""
        return read_object(read_text(stream, media_type, parser_context or {}))


class CsvParser(BaseParser):
    """Parses a CSV text and stores it under the key `csv`."""

    media_type = "text/csv"

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the text; raises an error that names the problem."""
        text = read_text(stream, media_type, parser_context or {})
        check_text(text, "body")
        return {"csv": text}


def is_csv(request: Request) -> bool:
    """Return whether the body is CSV."""
    return request.content_type.partition(";")[0].strip() == CsvParser.media_type


def csv_text(request: Request) -> str | None:
    """Return the text of a CSV body; None for a JSON body."""
    if not is_csv(request):
        return None
    body: Any = request.data
    return str(body.get("csv", ""))  # an empty body is not parsed


def read_text(stream: IO[Any], media_type: str | None, context: Mapping[str, Any]) -> str:
    """The body of a request, as it was sent and no larger than the view takes."""
    encoding = context["request"].headers.get("Content-Encoding", "identity")
    if encoding.lower() != "identity":
        raise UnsupportedMediaType(media_type or "", f"Bodies are sent as they are, not encoded as {encoding[:60]}.")
    limit = getattr(context.get("view"), "body_limit_bytes", settings.BODY_LIMIT_BYTES)
    # Read, not measured by its header: a chunked body has none.
    raw = stream.read(limit + 1)
    if len(raw) > limit:
        raise BodyTooLarge
    try:
        return bytes(raw).decode("utf-8")
    except UnicodeDecodeError as error:
        raise refuse(
            "body", f"expected UTF-8, got other bytes in line {1 + bytes(raw).count(10, 0, error.start)}"
        ) from None


def read_object(text: str) -> dict[str, Any]:
    """The document, or an error that names what was wrong."""
    try:
        document = json.loads(text, object_pairs_hook=each_once, parse_int=_integer)
    except RecursionError:
        raise refuse("body", TOO_DEEP) from None
    except ValueError as error:
        raise refuse("body", f"expected JSON, got an invalid document: {words_of(error)[:200]}") from None
    if not isinstance(document, dict):
        raise refuse("body", f"expected a JSON object, got {shown(document)}")
    wrong: dict[str, list[str]] = {}
    for field, message in islice(_wrong(document, "", DEEPEST), MOST_WRONG):
        wrong.setdefault(field, []).append(message)
    if wrong:
        raise ValidationError(wrong)
    return document


def check_text(text: str, field: str) -> None:
    """Refuse what databases refuse."""
    for name, message in _wrong_text(text, field):
        raise refuse(name, message)


def _wrong_text(text: str, field: str) -> Iterator[tuple[str, str]]:
    found = UNSTORABLE.search(text)
    if found is not None:
        where = f" in line {1 + text.count(chr(10), 0, found.start())}" if "\n" in text else ""
        # Of the line that has it, and not far before it.
        first = max(text.rfind("\n", 0, found.start()) + 1, found.start() - 40)
        near = text[first : first + 60].partition("\n")[0]
        yield field, f"expected characters that can be stored, got {near!a}{where}"


def _integer(text: str) -> float:
    return int(text) if len(text) <= LONGEST_INTEGER else math.copysign(math.inf, -1 if text[0] == "-" else 1)


def _wrong(value: object, where: str, levels: int) -> Iterator[tuple[str, str]]:
    """Yield field and message of all that is no plain JSON, or cannot be stored."""
    field = where or "body"
    if isinstance(value, Twice):
        yield field, str(value)
    elif isinstance(value, float) and not math.isfinite(value):
        yield field, f"expected a finite number, got {shown(value)}"
    elif isinstance(value, str):
        yield from _wrong_text(value, field)
    elif isinstance(value, (dict, list)):
        if levels == 0:
            yield field, TOO_DEEP
            return
        for key in value if isinstance(value, dict) else ():
            yield from _wrong_text(key, field)
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            # Most are whole numbers, and nothing is wrong with any.
            if not isinstance(inner, int):
                yield from _wrong(inner, _inside(where, key), levels - 1)


def _inside(where: str, key: str | int) -> str:
    """The field of an entry."""
    if isinstance(key, int):
        return f"{where}[{key}]"
    return (f"{where}.{key}" if where else key)[:200]
