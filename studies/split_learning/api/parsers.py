"""Instances in the body of a request, as JSON or as CSV."""

from collections.abc import Mapping
from typing import IO, Any

from rest_framework.parsers import BaseParser
from rest_framework.renderers import JSONRenderer

from auctions.api.parsers import check_text, read_object, read_text


class InstanceParser(BaseParser):
    """JSON as elsewhere, but larger: what derives from the framework's own parser is bounded by Django's setting."""

    media_type = "application/json"

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The document, or an error that names what was wrong."""
        return read_object(read_text(stream, media_type, parser_context or {}))


class CsvParser(BaseParser):
    """A text, under the key `csv`."""

    media_type = "text/csv"

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The text, or an error that names what was wrong."""
        text = read_text(stream, media_type, parser_context or {})
        check_text(text, "body")
        return {"csv": text}


class CsvRenderer(JSONRenderer):
    """Lets a client accept CSV; what it renders itself are errors, which stay JSON."""

    media_type = "text/csv"
    format = "csv"
