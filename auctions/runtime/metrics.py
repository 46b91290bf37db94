"""The address `/metrics` for Prometheus: all markets and the service, for operators and for scrapes.

It is answered to operators, to requests with the token of scrapes, and to the addresses that the settings allow. A
bidder may not read it: it has figures of all bidders together, at once.
"""

from collections.abc import Iterator
from datetime import timedelta
from hmac import compare_digest
from ipaddress import ip_address, ip_network
from time import perf_counter
from typing import Any, Final

from django.conf import settings
from django.db import connection
from django.http import HttpResponse
from prometheus_client import CONTENT_TYPE_LATEST
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from redis.exceptions import RedisError
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from accounts.permissions import WithinToken
from auctions.domain import announcements
from auctions.models import Delivery, DeliveryStatus
from auctions.readings.market_metrics import MarketMetrics
from auctions.runtime import health
from cluster import clock
from cluster.operators import is_operator
from web import metrics
from web.views import ApiView

SCHEME: Final = "Bearer "
RECENT: Final = timedelta(days=3)
"""Age of messages of webhooks that count as given up; that takes a day if their webhook stays on."""


class ForOperators(BasePermission):
    """Operators only."""

    message = "This is for operators."

    def has_permission(self, request: Request, view: Any) -> bool:
        """Whether the caller is an operator."""
        return is_operator(request.user)


class Metrics(ApiView):
    """Metrics as Prometheus reads them."""

    schema = None
    """It is no part of the interface below `/api/v1/`."""

    def get_authenticators(self) -> list[BaseAuthentication]:
        """A scrape has no user."""
        return [] if _is_scrape(self.request) else super().get_authenticators()

    def get_permissions(self) -> list[Any]:
        """A scrape needs nothing else."""
        return [] if _is_scrape(self.request) else [WithinToken(), ForOperators()]

    def get(self, request: Request) -> HttpResponse:
        """Return all metrics."""
        return HttpResponse(
            metrics.exposition(MarketMetrics(), *metrics.of_rooms, _Service()), content_type=CONTENT_TYPE_LATEST
        )


def _is_scrape(request: Any) -> bool:
    """Whether a request has the token of scrapes, or comes from an address that may scrape."""
    given = request.META.get("HTTP_AUTHORIZATION", "")
    token = settings.METRICS_TOKEN
    if token and given.startswith(SCHEME) and compare_digest(given[len(SCHEME) :].encode(), token.encode()):
        return True
    try:
        address = ip_address(request.META.get("REMOTE_ADDR", ""))
    except ValueError:  # a Unix socket
        return False
    return any(address in ip_network(allowed) for allowed in settings.METRICS_ADDRESSES)


class _Service(Collector):
    """Health checks, and how soon the database and the broker answer."""

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        ready = GaugeMetricFamily("shadowprice_ready", "1 if a check of /readyz finds no problem.", labels=["check"])
        for name, problem in health.checks().items():
            ready.add_metric([name], 0 if problem else 1)
        yield ready
        began = perf_counter()
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        yield GaugeMetricFamily(
            "shadowprice_database_seconds", "Time of one query of the database.", value=perf_counter() - began
        )
        yield _messages()
        if not settings.EMBEDDED:
            yield from _broker()


def _messages() -> Metric:
    """The messages of webhooks by status; those that were given up long ago are left out, as there may be many."""
    found = GaugeMetricFamily("shadowprice_webhook_messages", "Messages of webhooks, by status.", labels=["status"])
    waiting = Delivery.objects.filter(status=DeliveryStatus.WAITING)
    given_up = Delivery.objects.filter(status=DeliveryStatus.GIVEN_UP, created_at__gt=clock.now() - RECENT)
    for status, rows in ((DeliveryStatus.WAITING, waiting), (DeliveryStatus.GIVEN_UP, given_up)):
        found.add_metric([status.value], rows.count())
    return found


def _broker() -> Iterator[Metric]:
    answers = GaugeMetricFamily("shadowprice_broker_up", "1 if the broker answers.")
    tasks = GaugeMetricFamily(
        "shadowprice_broker_tasks", "Tasks that wait in the broker for a worker.", labels=["queue"]
    )
    client = announcements.broker()
    try:
        for queue in settings.QUEUES:
            tasks.add_metric([queue], int(client.llen(queue)))
        answers.add_metric([], 1)
    except (RedisError, OSError):
        answers.add_metric([], 0)
    finally:
        client.close()
    yield from (answers, tasks)
