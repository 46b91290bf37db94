"""Metrics of markets in the format of Prometheus, from rows: every web process gives the same numbers.

Counts and histograms of decisions are sums over the receipts. A process reads each receipt once, and then those that
were written since. A bid that stood counts once it stands no longer, with the times of its first decision, for the
policy that made that one: while it stands, it waits for no worker. Labels name markets and policies, never a bidder or
a bid.
"""

import logging
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from typing import Final
from uuid import UUID

from django.db.models import Count, F, Min
from django.db.models.functions import Coalesce
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from auctions.domain.errors import NotReady
from auctions.models import FULL_DISK, Bid, BidState, DecisionRecord, Market, PolicyVersion, WorkerSign
from auctions.readings import market_readings
from cluster import clock
from web.metrics import BUCKETS

PAGE: Final = 10_000
"""Receipts of one query."""
FIGURES: Final = {
    "submitted": ("bids_submitted", "Bids that were submitted."),
    "admitted": ("bids_admitted", "Bids that were admitted."),
    "rejected": ("bids_rejected", "Bids that were rejected."),
    "standing": ("bids_standing", "Rejected bids that are tried again."),
    "quarantined": ("bids_quarantined", "Bids on which the policy failed."),
    "planned": ("jobs_planned", "Admitted jobs that have not begun."),
    "running": ("jobs_running", "Jobs that run."),
    "welfare": ("welfare", "Sum of the values of admitted jobs."),
    "revenue": ("revenue", "Sum of payments less refunds."),
    "price": ("price", "Mean posted price of a unit in the next slot on sale."),
    "utilisation": ("utilisation", "Mean share of the resources in use in the slot under way."),
}
"""Fields of a market's summary with the name and the description of their metrics."""

OUTCOMES: Final = ("admitted", "rejected")

log = logging.getLogger(__name__)


@dataclass
class _Histogram:
    """Counts of times by bucket, the last one without an upper end."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    sum_s: float = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.sum_s += seconds

    def cumulative(self) -> list[tuple[str, float]]:
        total, rows = 0, []
        for end, count in zip((*map(str, BUCKETS), "+Inf"), self.counts, strict=True):
            total += count
            rows.append((end, float(total)))
        return rows


@dataclass
class _Decisions:
    """Sums over the receipts of a market up to one of them, by policy."""

    market: UUID
    last: int = 0
    """Key of the last receipt."""
    outcomes: dict[tuple[str, str], int] = field(default_factory=dict)
    waits: dict[str, _Histogram] = field(default_factory=dict)
    policies: dict[str, _Histogram] = field(default_factory=dict)

    def begin(self, policy: str) -> None:
        """Count from 0 under this policy: Prometheus sees no increase if the first value of a sample is 1."""
        for outcome in OUTCOMES:
            self.outcomes.setdefault((policy, outcome), 0)
        for histograms in (self.waits, self.policies):
            histograms.setdefault(policy, _Histogram())

    def read(self, market_id: int) -> None:
        """Add the receipts that were written since; they are written under the market's lock, in the order of keys."""
        rows = DecisionRecord.objects.filter(bid__market=market_id).order_by("pk")
        rows = rows.annotate(
            decided=Coalesce("bid__first_decision__decided_at", "decided_at"),
            needed_ms=Coalesce("bid__first_decision__latency_ms", "latency_ms"),
            first_policy=Coalesce("bid__first_decision__policy__name", "policy__name"),
        )
        columns = ("pk", "policy__name", "first_policy", "bid__value", "needed_ms", "decided", "bid__submitted_at")
        while page := list(rows.filter(pk__gt=self.last).values_list(*columns)[:PAGE]):
            for key, policy, first, value, needed_ms, decided, submitted_at in page:
                outcome = policy, "rejected" if value is None else "admitted"
                self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
                wait_s = max(0.0, (decided - submitted_at).total_seconds())
                self.waits.setdefault(first, _Histogram()).add(wait_s)
                self.policies.setdefault(first, _Histogram()).add(needed_ms / 1000)
                self.last = key


_decisions: dict[int, _Decisions] = {}
_guard = Lock()


class MarketMetrics(Collector):
    """Metrics of all markets at the time of a scrape."""

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        markets = list(Market.objects.select_related("cluster").order_by("pk"))
        now = clock.now()
        with _guard:
            yield from _decided(markets)
        yield from _queues(markets, now)
        yield from _figures(markets)
        yield from _workers(now)


def _decided(markets: Iterable[Market]) -> Iterator[Metric]:
    count = CounterMetricFamily(
        "shadowprice_decisions", "Bids that were decided.", labels=["market", "policy", "outcome"]
    )
    labels = ["market", "policy"]
    wait = HistogramMetricFamily(
        "shadowprice_decision_seconds", "Time from the submission of a bid to its first decision.", labels=labels
    )
    policy = HistogramMetricFamily(
        "shadowprice_policy_seconds", "Time that the policy needed for the first decision of a bid.", labels=labels
    )
    in_force = PolicyVersion.objects.filter(number=F("market__policy_number"))
    policies = dict(in_force.values_list("market_id", "name"))
    for market in markets:
        known = _decisions.get(market.pk)
        if known is None or known.market != market.token:  # the database was restored or made again
            known = _decisions[market.pk] = _Decisions(market.token)
        known.read(market.pk)
        if market.pk in policies:  # not if it was deleted meanwhile
            known.begin(policies[market.pk])
        name = market.cluster.name
        for (by, outcome), number in sorted(known.outcomes.items()):
            count.add_metric([name, by, outcome], number)
        for family, histograms in ((wait, known.waits), (policy, known.policies)):
            for by, one in sorted(histograms.items()):
                family.add_metric([name, by], one.cumulative(), one.sum_s)
    yield from (count, wait, policy)


def _queues(markets: Iterable[Market], now: datetime) -> Iterator[Metric]:
    depth = GaugeMetricFamily("shadowprice_decision_queue_bids", "Bids that wait for a decision.", labels=["market"])
    age = GaugeMetricFamily(
        "shadowprice_decision_queue_age_seconds", "Age of the bid that has waited longest.", labels=["market"]
    )
    waiting = Bid.objects.filter(state=BidState.SUBMITTED).order_by().values("market_id")
    found = {row["market_id"]: row for row in waiting.annotate(count=Count("pk"), first=Min("submitted_at"))}
    for market in markets:
        row = found.get(market.pk)
        name = market.cluster.name
        depth.add_metric([name], row["count"] if row else 0)
        age.add_metric([name], max(0.0, (now - row["first"]).total_seconds()) if row else 0.0)
    yield from (depth, age)


def _figures(markets: Iterable[Market]) -> Iterator[Metric]:
    families = {
        key: GaugeMetricFamily(f"shadowprice_{name}", text, labels=["market"]) for key, (name, text) in FIGURES.items()
    }
    readable = GaugeMetricFamily(
        "shadowprice_market_readable", "1 if the market's figures could be read for this answer.", labels=["market"]
    )
    for market in markets:
        name = market.cluster.name
        try:
            summary = market_readings.summary(market)
        except NotReady:
            readable.add_metric([name], 0)
        except Exception:  # one market must not hide the others; the metric says so
            log.exception("the figures of market %s cannot be read", name)
            readable.add_metric([name], 0)
        else:
            readable.add_metric([name], 1)
            for key, family in families.items():
                family.add_metric([name], float(getattr(summary, key)))
    yield from (readable, *families.values())


def _workers(now: datetime) -> Iterator[Metric]:
    age = GaugeMetricFamily(
        "shadowprice_sign_age_seconds", "Time since the last sign of life of a worker or the sweep.", labels=["worker"]
    )
    rows = WorkerSign.objects.exclude(name__startswith=FULL_DISK).order_by("name")
    for name, at in rows.values_list("name", "at"):
        age.add_metric([name], max(0.0, (now - at).total_seconds()))
    yield age
