"""Whether this process can serve: what a load balancer or a container's health check asks."""

from django.db import DatabaseError, InterfaceError, connection
from django.http import HttpRequest, JsonResponse

from cluster.database.busy import is_busy


def healthz(_request: HttpRequest) -> JsonResponse:
    """200 when the database answers, and 503 when it is busy or out of reach."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except (DatabaseError, InterfaceError) as error:
        if not is_busy(error):
            raise
        return JsonResponse({"status": "the database is busy"}, status=503)
    return JsonResponse({"status": "ok"})
