"""The base class of REST operations, and what they need: the caller, a row, a body that is empty."""

from typing import Any, TypeVar, cast

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest
from rest_framework.request import Request
from rest_framework.views import APIView

from web.errors import BodyTooLarge
from web.schema import Schema

Row = TypeVar("Row", bound=Model)


class ApiView(APIView):
    """An operation below /api/v1/."""

    body_limit_bytes: int = settings.BODY_LIMIT_BYTES

    def initialize_request(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Request:
        """Let a chunked body be read: without a length it would count as empty."""
        if "HTTP_TRANSFER_ENCODING" in request.META and not request.META.get("CONTENT_LENGTH"):
            request.META["CONTENT_LENGTH"] = "-1"
        return super().initialize_request(request, *args, **kwargs)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Refuse a body by its stated length before it is read."""
        super().initial(request, *args, **kwargs)
        stated = request.META.get("CONTENT_LENGTH") or "0"
        if stated.isdigit() and int(stated) > self.body_limit_bytes:
            raise BodyTooLarge


def user_of(request: Request) -> User:
    """Return the user of the request; permissions have checked that there is one."""
    return cast(User, request.user)


def no_body(request: Request) -> None:
    """Refuse a body with any key."""
    Schema.read(request.data)


def one_of(rows: "QuerySet[Row]", absent: str, **where: object) -> Row:
    """Return the row of these with these columns; 404 with the message `absent` without one."""
    found = rows.filter(**where).first()
    if found is None:
        raise Http404(absent)
    return found
