"""Whether this process can serve: what a load balancer or a container's health check asks."""

from collections.abc import Callable

from django.db import DatabaseError, InterfaceError, connection
from django.http import HttpRequest, JsonResponse

from cluster.database.busy import is_busy

worker_is_silent: Callable[[], bool] = bool
"""Whether this server's own worker gives no sign of life; never, in a server without one."""


def healthz(_request: HttpRequest) -> JsonResponse:
    """200 when the database and the worker answer, and 503 when one of them does not."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except (DatabaseError, InterfaceError) as error:
        if not is_busy(error):
            raise
        return JsonResponse({"status": "the database is busy"}, status=503)
    if worker_is_silent():
        return JsonResponse({"status": "the worker gives no sign of life"}, status=503)
    return JsonResponse({"status": "ok"})
