"""Pages of lists."""

from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from django.conf import settings
from django.db.models import QuerySet
from django.utils.crypto import salted_hmac
from rest_framework import serializers
from rest_framework.exceptions import NotFound
from rest_framework.pagination import Cursor, CursorPagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from web.errors import refuse
from web.parameters import whole_number
from web.schema import Schema
from web.writing import Answer, write

SAYS_NOTHING: Final = Cursor(offset=0, reverse=False, position=None)
"""The cursor that `====` and the like are read as, which is that of no page."""


PURPOSE: Final = "shadowprice.cursor.encryption"


class NewestFirst(CursorPagination):
    """Newest first; a page stays where it is when rows come in.

    The position in a cursor is encrypted: it is the key of a row, and keys count the rows of all users.
    """

    ordering = "-id"
    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 200

    def decode_cursor(self, request: Request) -> Cursor | None:
        """Return the cursor; a cursor that was never issued is refused."""
        another = refuse("cursor", "expected a cursor of this list, got another one")
        try:
            cursor = super().decode_cursor(request)
        except NotFound:
            raise another from None
        if cursor == SAYS_NOTHING:
            raise another
        position: Any = None if cursor is None else cursor.position
        if cursor is None or position is None:
            return cursor
        try:
            plain: Any = _box().decrypt(bytes.fromhex(position), None).decode()
            return cursor._replace(position=plain)
        except (InvalidTag, ValueError):
            raise another from None

    def encode_cursor(self, cursor: Cursor) -> str:
        """Return the address of a page; that of the same page is always the same."""
        position: Any = cursor.position
        if position is not None:
            position = _box().encrypt(position.zfill(19).encode(), None).hex()
        return super().encode_cursor(cursor._replace(position=position))

    def get_page_size(self, request: Request) -> int:
        """Rows on a page."""
        return whole_number(request, "page_size") or self.page_size


def _box() -> AESSIV:
    return AESSIV(salted_hmac(PURPOSE, "", secret=settings.SECRET_KEY, algorithm="sha512").digest())


def check_cursor(request: Request) -> None:
    """Refuse a cursor that was never issued."""
    NewestFirst().decode_cursor(request)


class Page(Schema):  # noqa: D101
    # No docstring: the OpenAPI document would repeat it at each of its children.
    next = serializers.CharField(allow_null=True, help_text="Address of the next page, with older rows.")
    previous = serializers.CharField(allow_null=True, help_text="Address of the previous page, with newer rows.")

    @classmethod
    def write(cls, row: object, **context: Any) -> dict[str, Any]:
        """Return the document of a page; rows that are answers are written as they are alone."""
        of_row: Any = cls._declared_fields["results"]
        return write(cls, row, context) if isinstance(of_row.child, Answer) else super().write(row, **context)


def page_of(
    view: APIView, request: Request, rows: "QuerySet[Any]", shape: type[Page], *, by: str = "-id", **context: Any
) -> Response:
    """Answer with one page of rows in the order `by`, newest first."""
    pages = NewestFirst()
    pages.ordering = by
    results = pages.paginate_queryset(rows, request, view=view) or []
    links = {"next": pages.get_next_link(), "previous": pages.get_previous_link()}
    return Response(shape.write({**links, "results": results}, **context))
