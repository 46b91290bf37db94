"""The ASGI entry point."""

import os
from collections.abc import Awaitable, Callable
from typing import Any

import django
from django.conf import settings
from django.core.handlers.asgi import ASGIHandler, ASGIRequest
from django.http import HttpRequest, HttpResponseBase

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup(set_prefix=False)

from auctions.api.problems import busy  # noqa: E402 (needs the app registry)
from auctions.seats import Seats, Visit  # noqa: E402

Receive = Callable[[], Awaitable[Any]]
Application = Callable[[Any, Receive, Any], Awaitable[None]]
WITHOUT_A_SEAT = ("/healthz",)
"""Answered however many wait."""


class Handler(ASGIHandler):
    """Django's handler, which answers as many requests at once as there are seats."""

    def __init__(self) -> None:
        super().__init__()
        self._reads, self._writes = (Seats(settings.REQUESTS_AT_ONCE[kind]) for kind in ("read", "write"))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request. One whose client has left has its seat until its thread has ended."""
        visit = Visit()
        try:
            await super().__call__({**scope, "visit": visit}, receive, send)
        finally:
            visit.leave()

    async def run_get_response(self, request: HttpRequest) -> HttpResponseBase:
        """The response, once the body is read; a stream begins when the seat has been given back."""
        if not isinstance(request, ASGIRequest) or request.path in WITHOUT_A_SEAT:
            return await super().run_get_response(request)
        visit: Visit = request.scope["visit"]
        if not await visit.sit(self._reads if request.method in ("GET", "HEAD", "OPTIONS") else self._writes):
            return busy(request, "Too many requests are being answered; this one was not begun.")
        response = await super().run_get_response(request)
        visit.leave()
        return response


def bounded(application: Application) -> Application:
    """Read no body further than is needed to refuse it: Django keeps all of it on disk before it asks a view."""

    async def serve(scope: Any, receive: Receive, send: Any) -> None:
        taken, limit = 0, settings.BODY_LIMIT_BYTES
        if scope.get("path", "").startswith(settings.PLAN_PATHS):
            limit = settings.PLAN_BODY_LIMIT_BYTES

        async def receive_some() -> Any:
            nonlocal taken
            message = await receive()
            while taken > limit and message["type"] == "http.request":
                message = await receive()  # the body was ended here; only a disconnect is news
            taken += len(message.get("body", b""))
            return {**message, "more_body": False} if taken > limit else message

        await application(scope, receive_some, send)

    return serve


application = bounded(Handler())
