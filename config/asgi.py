"""The ASGI entry point."""

import os
from collections.abc import Awaitable, Callable
from typing import Any

from django.conf import settings
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

Receive = Callable[[], Awaitable[Any]]
Application = Callable[[Any, Receive, Any], Awaitable[None]]


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


application = bounded(get_asgi_application())
