"""Small clusters under a stopped clock, and bids that fit in the head.

It is not recorded here who made users and clusters and set clocks: a record takes longer than the deed.
"""

from collections.abc import Mapping
from typing import Any, Final

from auditlog.context import disable_auditlog
from django.contrib.auth.models import Group, User
from django.utils import timezone

from auctions.engine import decision_queue
from auctions.engine.markets import open_market
from auctions.engine.submission import submit_bid
from auctions.models import Bid, BidState, Market
from cluster.clock import set_clock
from cluster.models import (
    Capacity,
    ClockKind,
    Cluster,
    Demand,
    MachineRole,
    MachineType,
    ModelProfile,
    Resource,
    Server,
    ServerKind,
    StepTime,
)
from cluster.operators import OPERATORS

SLOT_S = 100


def make_cluster(name: str = "lab", *, servers: int = 2, units: int = 4, horizon: int = 12) -> Cluster:
    """Servers edge-0, edge-1, ... and a cloud; worker type `gpu` and PS type `ps`, a unit each; slots of 100 s.

    A bid that does not say so does not stand: a rejection is final.
    """
    with disable_auditlog():
        cluster = Cluster.objects.create(
            name=name,
            title=name.title(),
            epoch=timezone.now(),
            slot_seconds=SLOT_S,
            horizon_slots=horizon,
            standing_by_default=False,
            clock_kind=ClockKind.VIRTUAL,
            clock_running=False,
            clock_offset_s=0.0,
        )
    named = (Resource(cluster=cluster, name=name, position=i) for i, name in enumerate(("gpu", "ps")))
    gpu, ps = Resource.objects.bulk_create(named)
    worker, server = MachineType.objects.bulk_create(
        MachineType(cluster=cluster, role=role, name=resource.name, bandwidth_mbps=bandwidth, position=0)
        for role, resource, bandwidth in ((MachineRole.WORKER, gpu, 1000), (MachineRole.PS, ps, 4000))
    )
    Demand.objects.bulk_create(
        Demand(machine_type=machine, resource=resource, amount=1) for machine, resource in ((worker, gpu), (server, ps))
    )
    _add_servers(cluster, {**{f"edge-{i}": units for i in range(servers)}, "cloud": 2 * units})
    profile = ModelProfile.objects.create(cluster=cluster, name="ResNet-50", gradient_mb=10, chunks=4, minibatches=10)
    StepTime.objects.bulk_create(
        StepTime(profile=profile, machine_type=machine, seconds=seconds)
        for machine, seconds in ((worker, 9.0), (server, 1.0))
    )
    return cluster


def add_server(cluster: Cluster, name: str, *, units: int, delay_s: float | None = None) -> Server:
    """A server with as many units of every resource."""
    [server] = _add_servers(cluster, {name: units}, delay_s=delay_s)
    return server


def _add_servers(cluster: Cluster, units: Mapping[str, int], *, delay_s: float | None = None) -> list[Server]:
    """Servers by name, after those that there are."""
    first = Server.objects.filter(cluster=cluster).count()
    servers = Server.objects.bulk_create(
        Server(
            cluster=cluster,
            name=name,
            kind=ServerKind.CLOUD if name == "cloud" else ServerKind.EDGE,
            upload_delay_s=delay_s if delay_s is not None else (300.0 if name == "cloud" else 0.0),
            position=position,
        )
        for position, name in enumerate(units, start=first)
    )
    resources = Resource.objects.filter(cluster=cluster)
    Capacity.objects.bulk_create(
        Capacity(server=server, resource=resource, amount=units[server.name])
        for server in servers
        for resource in resources
    )
    return servers


PRICED: Final[Mapping[str, float]] = {"initial_low": 0.01, "initial_high": 1.0}
"""Initial prices at which a bid of hardly any value is rejected before prices have learned."""


def make_market(cluster: Cluster | None = None, **parameters: Any) -> Market:
    """An open market under DPS with quantile prices and initial prices of `PRICED`, or what the parameters say."""
    return open_market(cluster or make_cluster(), policy="dps", parameters={**PRICED, **parameters})


def make_user(name: str = "alice", **fields: Any) -> User:
    """A user, who cannot log in by password."""
    with disable_auditlog():
        return User.objects.create(username=name, **fields)


def make_operator(name: str = "olga") -> User:
    """A member of the group of operators; without staff status, which nothing asks for."""
    user = make_user(name)
    user.groups.add(Group.objects.get(name=OPERATORS))
    return user


def body(value: float = 100.0, *, epochs: int = 1, **changes: Any) -> dict[str, Any]:
    """ResNet-50: 40 mini-batches an epoch of 10 s each on one server, 4 worker-slots an epoch; a constant worth."""
    return {"model": "ResNet-50", "epochs": epochs, "utility": {"form": "constant", "value": value}, **changes}


def submit(market: Market, owner: User, value: float = 100.0, **changes: Any) -> Bid:
    """A stored bid."""
    return submit_bid(cluster=market.cluster, owner=owner, body=body(value, **changes)).bid


def sell_out(market: Market) -> Market:
    """Sell every machine of a market to a user named other, and return the market."""
    other = make_user("other")
    while True:
        bid = submit(market, other, 1e6)
        decision_queue.process_pending(market.pk)
        bid.refresh_from_db()
        if bid.state == BidState.REJECTED:
            return market


def set_time(market: Market, seconds: float) -> None:
    """Set the cluster's stopped clock."""
    with disable_auditlog():
        set_clock(market.cluster, at_s=seconds)
