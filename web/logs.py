"""Ids in logs: each line of a request or a task names it, and the market and the bid that it works on.

`SHADOWPRICE_LOG_FORMAT=json` writes each line as a JSON object with these ids as keys.
"""

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter
from typing import Final
from uuid import uuid4

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase

HEADER: Final = "X-Request-ID"
_GIVEN: Final = re.compile(r"[A-Za-z0-9-]{8,64}\Z")
"""Form of an id that a proxy has given."""
_ids: ContextVar[dict[str, str | int] | None] = ContextVar("ids", default=None)

log = logging.getLogger("shadowprice.requests")


@contextmanager
def named(**ids: str | int) -> Iterator[None]:
    """Add these ids to every line that is logged in the block."""
    token = _ids.set({**(_ids.get() or {}), **ids})
    try:
        yield
    finally:
        _ids.reset(token)


def begin(**ids: str | int) -> None:
    """Set the ids of all further lines of this thread, instead of those that were set before."""
    _ids.set(ids)


class Ids(logging.Filter):
    """Add the ids to a record: as fields, and for people as text in `ids`."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the record."""
        known = _ids.get() or {}
        for name, value in known.items():
            if not hasattr(record, name):
                setattr(record, name, value)
        record.ids = "".join(f" {name}={value}" for name, value in known.items())
        return True


class RefusedBriefly(logging.Filter):
    """Log in one line, as a warning without a traceback, that a request was refused as suspicious: anybody can send it.

    Django has one logger for each kind of such a request.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the record."""
        if record.name.startswith("django.security.") and record.exc_info:
            record.levelno, record.levelname = logging.WARNING, "WARNING"
            record.msg, record.args = "%s", (words_of_suspicious(record.exc_info[1]),)
            record.exc_info, record.exc_text = None, None
        return True


class NotReadyBriefly(logging.Filter):
    """Leave out Django's line for each answer of `/readyz` that says no: `shadowprice.health` logs why, once."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether to log the record."""
        is_of_probe = getattr(getattr(record, "request", None), "path", "") == "/readyz"
        return record.name != "django.request" or not is_of_probe or record.exc_info is not None


def words_of_suspicious(error: BaseException | None) -> str:
    """Return why Django found a request suspicious, with the name that the setting of hosts has here."""
    return str(error).replace("ALLOWED_HOSTS", "SHADOWPRICE_HOSTS")


class Lines(logging.Formatter):
    """Write a record for people; what clients have sent, such as the path of a request, forges no other record.

    Only the first line of a record begins at the margin. Control characters are escaped.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a record."""
        lines = super().format(record).split("\n")
        return "\n  ".join(line if line.isprintable() else _escaped(line) for line in lines)


def _escaped(line: str) -> str:
    """Return a line whose control characters, also those that change the direction of a text, are seen."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in line)


def name_requests(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[[HttpRequest], HttpResponseBase]:
    """Middleware: a request has an id, which its answer has, too; at level INFO each answer is logged.

    The id of a proxy is taken if the server has proxies; a client without one could send any.
    """

    def middleware(request: HttpRequest) -> HttpResponseBase:
        given = request.headers.get(HEADER, "") if settings.PROXIES else ""
        key = given if _GIVEN.match(given) else uuid4().hex
        request.request_id = key  # type: ignore[attr-defined]  # the record of changes has it, too
        with named(request_id=key):
            began = perf_counter()
            response = get_response(request)
            response.headers[HEADER] = key
            if log.isEnabledFor(logging.INFO):
                row = {
                    "method": request.method,
                    "path": request.path,
                    "status": response.status_code,
                    "ms": round((perf_counter() - began) * 1000, 1),
                }
                log.info("%s %s %s", request.method, request.path, response.status_code, extra=row)
            return response

    return middleware
