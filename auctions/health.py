"""Whether this process can serve: what a load balancer or a container's health check asks."""

from django.db import connection
from django.http import HttpRequest, JsonResponse


def healthz(_request: HttpRequest) -> JsonResponse:
    """200 when the database answers; an error here is a 500, and so unhealthy."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return JsonResponse({"status": "ok"})
