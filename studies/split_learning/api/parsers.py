"""Parsers for instances in the body of a request, as JSON or as CSV."""

from collections.abc import Mapping
from typing import IO, Any

from rest_framework.parsers import BaseParser
from rest_framework.renderers import JSONRenderer

from auctions.api.parsers import check_text, read_object, read_text


class InstanceParser(BaseParser):
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


class CsvRenderer(JSONRenderer):
    """Lets a client accept CSV; it renders only errors, which stay JSON."""

    media_type = "text/csv"
    format = "csv"
