"""Metrics of execution in the format of Prometheus, from rows."""

from collections.abc import Iterator

from django.db.models import Count
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from execution import overviews
from execution.models import Execution, Lease


class ExecutionMetrics(Collector):
    """Metrics of all clusters that execute, at the time of a scrape."""

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        defects = GaugeMetricFamily(
            "shadowprice_execution_defects", "Jobs and clusters on which the executor fails.", labels=["market"]
        )
        rows = Execution.objects.order_by("cluster").annotate(count=Count("defects"))
        for name, count in rows.values_list("cluster__name", "count"):
            defects.add_metric([name], count)
        yield defects
        active = GaugeMetricFamily(
            "shadowprice_executor_active", "1 if an executor is active, of clusters that execute.", labels=["market"]
        )
        lease = Lease.objects.first()
        value = int(lease is not None and overviews.is_live(lease))
        for name in Execution.objects.filter(is_on=True).order_by("cluster").values_list("cluster__name", flat=True):
            active.add_metric([name], value)
        yield active
