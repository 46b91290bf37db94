"""Small clusters under a stopped clock, and bids that fit in the head."""

from collections.abc import Mapping
from typing import Any, Final

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
    resources = [Resource.objects.create(cluster=cluster, name=n, position=i) for i, n in enumerate(("gpu", "ps"))]
    for role, resource, bandwidth in ((MachineRole.WORKER, resources[0], 1000), (MachineRole.PS, resources[1], 4000)):
        machine = MachineType.objects.create(
            cluster=cluster, role=role, name=resource.name, bandwidth_mbps=bandwidth, position=0
        )
        Demand.objects.create(machine_type=machine, resource=resource, amount=1)
    for i in range(servers + 1):
        add_server(cluster, f"edge-{i}" if i < servers else "cloud", units=units if i < servers else 2 * units)
    profile = ModelProfile.objects.create(cluster=cluster, name="ResNet-50", gradient_mb=10, chunks=4, minibatches=10)
    for machine in MachineType.objects.filter(cluster=cluster):
        StepTime.objects.create(
            profile=profile, machine_type=machine, seconds=9.0 if machine.role == MachineRole.WORKER else 1.0
        )
    return cluster


def add_server(cluster: Cluster, name: str, *, units: int, delay_s: float | None = None) -> Server:
    """A server with as many units of every resource."""
    cloud = name == "cloud"
    server = Server.objects.create(
        cluster=cluster,
        name=name,
        kind=ServerKind.CLOUD if cloud else ServerKind.EDGE,
        upload_delay_s=delay_s if delay_s is not None else (300.0 if cloud else 0.0),
        position=Server.objects.filter(cluster=cluster).count(),
    )
    for resource in Resource.objects.filter(cluster=cluster):
        Capacity.objects.create(server=server, resource=resource, amount=units)
    return server


PRICED: Final[Mapping[str, float]] = {"initial_low": 0.01, "initial_high": 1.0}
"""Initial prices at which a bid of hardly any value is rejected before prices have learned."""


def make_market(cluster: Cluster | None = None, **parameters: Any) -> Market:
    """An open market under DPS with quantile prices and initial prices of `PRICED`, or what the parameters say."""
    return open_market(cluster or make_cluster(), policy="dps", parameters={**PRICED, **parameters})


def make_user(name: str = "alice", **fields: Any) -> User:
    """A user, who cannot log in by password."""
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
    set_clock(market.cluster, at_s=seconds)
