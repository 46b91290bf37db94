"""Errors as problem documents (RFC 9457) that name the wrong fields."""

import logging
import math
import sys
from http import HTTPStatus
from typing import Any

from django.core.exceptions import DisallowedHost, ObjectDoesNotExist, RequestDataTooBig, SuspiciousOperation
from django.db import DatabaseError, IntegrityError, InterfaceError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.template import loader
from django.views.decorators.csrf import csrf_exempt
from django.views.defaults import page_not_found, permission_denied, server_error
from rest_framework import status
from rest_framework.exceptions import APIException, PermissionDenied, ValidationError
from rest_framework.renderers import JSONRenderer
from rest_framework.response import Response
from rest_framework.views import exception_handler as rest_exception_handler

from cluster import clock
from cluster.database.busy import is_busy, is_full, is_of_other_schema, is_overtaken
from cluster.database.watched import has_stored
from cluster.logins import lock_ends
from scheduling.model.errors import InvalidField, PolicyMissing, UnknownPolicy
from web.errors import BodyTooLarge, ServiceError
from web.logs import words_of_suspicious
from web.schema import rows_of

CONTENT_TYPE = "application/problem+json"

log = logging.getLogger(__name__)


class Conflict(APIException):
    """The request conflicts with the present state."""

    status_code = status.HTTP_409_CONFLICT


class TooMuchWork(APIException):
    """The caller has reached the limit of work under way; `wait` is in seconds, for Retry-After."""

    status_code = status.HTTP_429_TOO_MANY_REQUESTS

    def __init__(self, detail: str, *, wait: int) -> None:
        super().__init__(detail)
        self.wait = wait


class Unavailable(APIException):
    """The server has just started, or its database cannot answer now: the same request is answered a little later."""

    status_code = status.HTTP_503_SERVICE_UNAVAILABLE
    wait = 3
    """Seconds for Retry-After."""


def problem(code: int, detail: str, errors: list[dict[str, str]] | None = None) -> dict[str, Any]:
    """A problem document."""
    title = "Content Too Large" if code == status.HTTP_413_REQUEST_ENTITY_TOO_LARGE else HTTPStatus(code).phrase
    return {"type": "about:blank", "title": title, "status": code, "detail": detail, "errors": errors or []}


def exception_handler(error: Exception, context: dict[str, Any]) -> Response | None:
    """Return the answer to an exception of a view; None for an unexpected one, which becomes a 500."""
    translated = _translated(error)
    response = rest_exception_handler(translated, context)
    if response is None:
        return None
    errors = []
    if isinstance(translated, ValidationError):
        errors = [{**row, "field": row["field"] or "body"} for row in rows_of(response.data)]
    if errors:
        detail = "; ".join(f"{row['field']}: {row['message']}" for row in errors)
    else:
        detail = str(response.data.get("detail", "")) if isinstance(response.data, dict) else ""
    response.data = problem(response.status_code, detail, errors)
    response.content_type = CONTENT_TYPE
    request = context["request"]  # a problem document is JSON where other answers are not
    request.accepted_renderer, request.accepted_media_type = JSONRenderer(), JSONRenderer.media_type
    return response


@csrf_exempt  # whatever the method: nothing is there
def not_found(request: HttpRequest, *_args: object, **_kwargs: object) -> HttpResponse:
    """An address that nothing answers."""
    return _plain(404, f"Nothing is at {request.path[:200]}.")


def handler404(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """A problem document below /api/, a page elsewhere."""
    return not_found(request) if _is_api(request) else page_not_found(request, exception)


def handler400(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """A problem document below /api/, a page elsewhere; both say if the host that was asked for is not known."""
    known = not isinstance(exception, DisallowedHost)
    return _explained(request, 400, "The request was refused." if known else words_of_suspicious(exception))


def handler403(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """A problem document below /api/, a page elsewhere."""
    return _plain(403, "You may not do this.") if _is_api(request) else permission_denied(request, exception)


def handler500(request: HttpRequest) -> HttpResponseBase:
    """A problem document below /api/, a page elsewhere; it says nothing of the cause. 503 if the database cannot answer
    now, 409 if another request was faster.
    """
    error = sys.exc_info()[1]
    if isinstance(error, ServiceError) and error.status == HTTPStatus.SERVICE_UNAVAILABLE:
        return busy(request, str(error))
    if isinstance(error, PolicyMissing):
        return busy(request, words_of_missing(error))
    if error is not None and (words := _retry_words(error)):
        return busy(request, words)
    if error is not None and is_overtaken(error):  # Django logs it with its traceback
        return _explained(request, status.HTTP_409_CONFLICT, _overtaken_words())
    return _plain(500, "The server failed; this is logged.") if _is_api(request) else server_error(request)


def busy(request: HttpRequest, detail: str) -> HttpResponse:
    """Ask the client to retry a little later: a problem document below /api/, a page elsewhere."""
    return _refusal(request, Unavailable.status_code, detail, wait_s=Unavailable.wait)


def locked_login(request: HttpRequest, *_args: object) -> HttpResponse:
    """Refuse a login that is locked after failures; for django-axes."""
    wait_s = (lock_ends(request, getattr(request, "axes_credentials", None)) - clock.now()).total_seconds()
    minutes = max(1, math.ceil(wait_s / 60))
    words = f"Too many logins failed. Try again in {minutes} minute{'s' if minutes > 1 else ''}, or ask an operator."
    return too_many(request, words, wait_s=wait_s)


def too_many(request: HttpRequest, detail: str, *, wait_s: float) -> HttpResponse:
    """Refuse a request that came too often: a problem document below /api/, a page elsewhere."""
    return _refusal(request, status.HTTP_429_TOO_MANY_REQUESTS, detail, wait_s=max(1, math.ceil(wait_s)))


def words_of_missing(error: PolicyMissing) -> str:
    """Return a sentence that says which policy of a market this version does not have."""
    if isinstance(error, UnknownPolicy):
        return f"This version does not have a policy that was recorded ({error})."
    words = str(error)
    return f"{words[0].upper()}{words[1:]}."


def _retry_words(error: BaseException) -> str:
    """The answer to a request whose database is full, away or busy, or lacks a table or column; otherwise empty."""
    if is_full(error):
        cause = "The disk of the database is full"
    elif is_busy(error):
        cause = "The database is away or busy"
    elif is_of_other_schema(error):
        # The line for the answer is short and a warning. This needs an operator, unless an upgrade is under way.
        log.error("The database is not at the schema of this version", exc_info=error)
        cause = "The database is not at this version's schema"
    else:
        return ""
    if has_stored():
        return f"{cause}, and part of this request is stored already: look before you send it again."
    return f"{cause}; nothing was stored. Send the request again a little later."


def _overtaken_words() -> str:
    """The answer to a request that another one was faster than."""
    cause = "Another request has meanwhile stored or deleted rows that this one needs"
    if has_stored():
        return f"{cause}, and part of this request is stored already: look before you send it again."
    return f"{cause}; nothing was stored. Look at what is there now before you send it again."


def _refusal(request: HttpRequest, code: int, detail: str, *, wait_s: int) -> HttpResponse:
    response = _explained(request, code, detail)
    response.headers["Retry-After"] = str(wait_s)
    # Otherwise the answer to a request that no middleware has seen would be sent in chunks.
    response.headers["Content-Length"] = str(len(response.content))
    return response


def _explained(request: HttpRequest, code: int, detail: str) -> HttpResponse:
    if _is_api(request):
        return _plain(code, detail)
    return HttpResponse(loader.get_template(f"{code}.html").render({"detail": detail}), status=code)


def _is_api(request: HttpRequest) -> bool:
    return f"{request.path}/".startswith("/api/")


def _plain(code: int, detail: str) -> HttpResponse:
    return JsonResponse(problem(code, detail), status=code, content_type=CONTENT_TYPE)


def _translated(error: Exception) -> Exception:
    match error:
        case InvalidField():
            return ValidationError({one.field or "body": [one.problem] for one in error.all_wrong})
        case ServiceError():
            return _of_service(error)
        case PolicyMissing():
            return Unavailable(words_of_missing(error))
        case DatabaseError() | InterfaceError() if words := _retry_words(error):
            return Unavailable(words)
        case IntegrityError() | ObjectDoesNotExist() if is_overtaken(error):
            # The cause is logged: a check that is missing would have the same answer.
            log.warning("Another request was faster", exc_info=error)
            return Conflict(_overtaken_words())
        case RequestDataTooBig():
            return BodyTooLarge()
        case SuspiciousOperation():
            return ValidationError({"body": ["The request was refused."]})
    return error


def _of_service(error: ServiceError) -> Exception:
    match error.status:
        case HTTPStatus.NOT_FOUND:
            return Http404(str(error))
        case HTTPStatus.FORBIDDEN:
            return PermissionDenied(str(error))
        case HTTPStatus.SERVICE_UNAVAILABLE:
            return Unavailable(str(error))
        case HTTPStatus.TOO_MANY_REQUESTS:
            return TooMuchWork(str(error), wait=error.wait_s)
    return Conflict(str(error))
