"""Trace sources that use the current servers of a live cluster."""

from typing import Any

from cluster.facts import inventory_of
from cluster.models import Cluster, Server
from cluster.units import slots_up
from studies.workloads.traces.source import TraceSource


def source_on(cluster: Cluster, *, slot_s: int | None, horizon: int | None, **more: Any) -> TraceSource:
    """Build a trace source on these servers; slots, horizon and upload delays are the cluster's by default."""
    slot_s = cluster.slot_seconds if slot_s is None else slot_s
    delays_s = Server.objects.filter(cluster=cluster).values_list("upload_delay_s", flat=True)
    return TraceSource(
        inventory=inventory_of(cluster),
        cluster=cluster.title or cluster.name,
        delay=tuple(slots_up(after, slot_s) for after in delays_s),
        slot_s=slot_s,
        horizon=cluster.horizon_slots if horizon is None else horizon,
        **more,
    )
