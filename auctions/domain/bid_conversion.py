"""Check a bid's body, in seconds, MB and Mbit/s, and convert it to the core's bid, in slots.

There are two steps. `resolve` checks a body, by the rules of `bid_check.py`, and fills in the model's profile, by
name. `core_bid` converts the result for one inventory. It cannot fail, so a waiting bid stays decidable when servers
or machine types come and go.
"""

from collections.abc import Callable
from fractions import Fraction
from math import isfinite
from typing import Any

from django.contrib.auth.models import User

from auctions.domain.bid_check import BidContext, BidIn
from auctions.domain.inventory_snapshot import InventorySnapshot
from auctions.domain.utilities import core_utility
from auctions.models import PolicyVersion
from cluster import units
from cluster.database.prepared import Prepared
from cluster.models import Cluster
from scheduling.model.bid import Architecture, Bid
from scheduling.model.errors import InvalidField
from scheduling.model.types import Json
from scheduling.model.utility import utility_from_json
from scheduling.registry import POLICIES

_POLICY = Prepared(
    lambda cluster: PolicyVersion.objects.filter(market__cluster=cluster).order_by("-number").values_list("name")[:1],
    int,
)


def resolve(
    body: Json,
    cluster: Cluster,
    snapshot: InventorySnapshot,
    policy: type[Any] | None = None,
    *,
    bidder: User | None = None,
) -> Json:
    """Return the body with its model's profile filled in; raises one InvalidField that names all wrong fields.

    `policy` is the policy class in force, if the caller knows it already.
    """
    return resolver(cluster, snapshot, policy, bidder=bidder)(body)


def resolver(
    cluster: Cluster,
    snapshot: InventorySnapshot,
    policy: type[Any] | None = None,
    *,
    bidder: User | None = None,
    profiles: dict[str, Json] | None = None,
) -> Callable[[Json], Json]:
    """Return `resolve` for many bodies: profiles are read once.

    `profiles` holds those that were read before; others are added.
    """
    policy = policy_in_force(cluster) if policy is None else policy
    known = {} if profiles is None else profiles
    read = BidIn.reader(bids=BidContext(cluster, snapshot, policy, bidder, known))

    def resolved(body: Json) -> Json:
        checked = {"architecture": Architecture.PS.value, **read(body)}
        return {key: value for key, value in checked.items() if key not in ("label", "model")}

    return resolved


def policy_in_force(cluster: Cluster) -> type[Any]:
    """Return the policy class that the cluster's market decides by; it defines which keys a bid has."""
    [(name,)] = _POLICY(cluster.pk)
    return POLICIES[name]


def check_finite(value: object, field: str) -> None:
    """Raise InvalidField, naming the field, if a document contains NaN or infinity: JSON has neither."""
    if isinstance(value, float) and not isfinite(value):
        raise InvalidField(field, f"expected a finite number, got {value}")
    if isinstance(value, dict):
        for key, part in value.items():
            check_finite(part, f"{field}.{key}" if field else str(key))
    elif isinstance(value, list):
        for i, part in enumerate(value):
            check_finite(part, f"{field}[{i}]")


def core_bid(offer: Json, snapshot: InventorySnapshot, *, bid_id: str, arrival: int) -> Bid:
    """Return a resolved body as the core's bid, in slots, for one inventory.

    A machine type without a step time in the offer gets one that is longer than the horizon. A server without an
    upload delay in the offer has its own default delay. A ring has no step times of parameter servers.
    """
    slot_s, inventory = snapshot.slot_seconds, snapshot.inventory
    never = Fraction(snapshot.horizon + 1)
    steps = {
        key: tuple(
            units.slots(offer[key][machine.name], slot_s) if machine.name in offer.get(key, {}) else never
            for machine in machines
        )
        for key, machines in (("worker_step_s", inventory.workers), ("ps_step_s", inventory.parameter_servers))
    }
    after = offer["start_after_s"]
    delays = offer["upload_delay_s"]
    return Bid(
        id=bid_id,
        arrival=arrival,
        epochs=offer["epochs"],
        chunks=offer["chunks"],
        minibatches=offer["minibatches"],
        worker_time=steps["worker_step_s"],
        ps_time=steps["ps_step_s"],
        transfer_time=tuple(
            units.transfer_slots(offer["gradient_mb"], machine.bandwidth_mbps, slot_s) for machine in inventory.workers
        ),
        delay=tuple(
            units.slots_up(max(after, delays.get(name, default)), slot_s)
            for name, default in zip(inventory.servers, snapshot.delays_s, strict=True)
        ),
        utility=utility_from_json(_core_utility(offer, slot_s)),
        # Offers stored before rings and storage were introduced have none of these keys.
        architecture=Architecture(offer.get("architecture", Architecture.PS)),
        reduce_time=units.slots(offer.get("reduce_step_s", 0), slot_s),
        chunk_size=units.bytes_up(offer.get("chunk_mb", 0)),
    )


def _core_utility(offer: Json, slot_s: int) -> Json:
    """Return the core's utility. A weight becomes a constant: the policy, not the utility, prefers early completion."""
    if "weight" in offer:
        return {"type": "constant", "v": offer["weight"]}
    return core_utility(offer["utility"], slot_s)
