"""The ASGI entry point."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import django
from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, ASGIRequest, get_script_prefix
from django.core.signals import request_started
from django.db import connections
from django.http import HttpRequest, HttpResponseBase
from django.urls import set_script_prefix
from django.utils.functional import LazyObject

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup(set_prefix=False)

from cluster import memory, threads  # noqa: E402
from cluster.addresses import address_of  # noqa: E402
from web.problems import busy  # noqa: E402 (needs the app registry)
from web.seats import Callers, Seats, Visit  # noqa: E402

threads.take_short_turns()
memory.share_between_threads()

Receive = Callable[[], Awaitable[Any]]
Application = Callable[[Any, Receive, Any], Awaitable[None]]
MOST_THREADS = 1000
"""Largest number of threads for requests, of which most only wait; one that is idle answers the next request."""
WITHOUT_A_SEAT = ("/livez", "/healthz", "/readyz", "/metrics")
"""Paths that are answered without a seat."""


class Handler(ASGIHandler):
    """Django's handler, which answers as many requests at once as there are seats, and half as many of one user."""

    def __init__(self) -> None:
        super().__init__()
        self._reads, self._writes = (Seats(settings.REQUESTS_AT_ONCE[kind]) for kind in ("read", "write"))
        self._callers = Callers()

    def load_middleware(self, is_async: bool = False) -> None:
        """Middleware and view run in one thread, which is entered once and kept for further requests.

        By default each request has a new thread, and each change between it and the event loop waits for another turn
        of the interpreter.
        """
        super().load_middleware(is_async=False)
        self._chain: Callable[[HttpRequest], HttpResponseBase] = vars(self)["_middleware_chain"]
        threads = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="request")
        self._middleware_chain = sync_to_async(self._answer, thread_sensitive=False, executor=threads)

    def _answer(self, request: ASGIRequest) -> HttpResponseBase:
        """Begin a request, answer it, and end it unless its answer is a stream; all of this in its thread."""
        request_started.send(sender=self.__class__, scope=request.scope)
        try:
            response = self._chain(request)
            if not response.streaming:
                response._handler_class = self.__class__  # type: ignore[attr-defined]  # sender of request_finished
                response.close()
            return response
        finally:
            connections.close_all()  # the next request of this thread may come late

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request. If its client has left, it keeps its seat until its thread has ended."""
        visit = Visit()
        try:
            await super().__call__({**scope, "visit": visit}, receive, send)
        finally:
            visit.leave()

    async def handle(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request, as Django does, which enters the request's thread three times instead of once."""
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return
        set_script_prefix(get_script_prefix(scope))
        request, refusal = self.create_request(scope, body)
        try:
            if request is None:
                if refusal is not None:
                    await self.send_response(refusal, send)
                return
            left = asyncio.create_task(self.listen_for_disconnect(receive))
            answered = asyncio.create_task(self._respond(request, send))
            await asyncio.wait((left, answered), return_when=asyncio.FIRST_COMPLETED)
            for task in (left, answered):
                task.cancel()
            with suppress(asyncio.CancelledError, RequestAborted):
                await left
            with suppress(asyncio.CancelledError):
                response = await answered
                if response.streaming:
                    await sync_to_async(response.close)()
        finally:
            if request is not None:
                request.close()
            body.close()

    async def _respond(self, request: ASGIRequest, send: Any) -> HttpResponseBase:
        response = await self.run_get_response(request)
        with suppress(asyncio.CancelledError):  # the client has left
            await self.send_response(response, send)
        return response

    async def run_get_response(self, request: HttpRequest) -> HttpResponseBase:
        """Return the response after reading the body; a stream begins after the seat has been released."""
        if not isinstance(request, ASGIRequest) or request.path in WITHOUT_A_SEAT:
            return await super().run_get_response(request)
        visit: Visit = request.scope["visit"]
        credential = _credential(request)
        # The requests of one address share its seats until their users are known: anyone can make up credentials.
        user = self._callers.user_of(credential)
        caller = address_of(request) if user is None else user
        seats = self._reads if request.method in ("GET", "HEAD", "OPTIONS") else self._writes
        if not await visit.sit(seats, caller):
            return busy(request, "Too many requests are being answered; this one was not begun.")
        response = await super().run_get_response(request)
        visit.leave()
        user_id = _user_id(request)
        if credential and user_id is not None:
            self._callers.learn(credential, user_id)
        return response


def _credential(request: HttpRequest) -> str:
    """Return the credential of a request: a token, or else the session cookie; empty if there is neither."""
    token: str = request.headers.get("Authorization", "")
    return token or request.COOKIES.get(settings.SESSION_COOKIE_NAME, "")


def _user_id(request: HttpRequest) -> int | None:
    """Return the key of the request's user; None if it was not determined, or the user is not signed in."""
    user = request.__dict__.get("user")
    if isinstance(user, LazyObject):  # to look into it would ask the database
        user = getattr(request, "_cached_user", None)
    found: int | None = getattr(user, "pk", None)
    return found


def bounded(application: Application) -> Application:
    """Read a body only as far as needed to refuse it: Django stores all of it on disk before it calls a view."""

    async def serve(scope: Any, receive: Receive, send: Any) -> None:
        taken, limit = 0, settings.BODY_LIMIT_BYTES
        if settings.LARGE_PATHS.match(scope.get("path", "")):
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
memory.pass_over_what_is_loaded()
memory.give_back_now_and_then()
