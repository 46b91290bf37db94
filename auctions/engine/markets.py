"""A cluster's market: open it, let it accept bids or not, and record changes of the inventory."""

from typing import Final

import numpy as np
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q, QuerySet

from auctions.domain.errors import NoMarket
from auctions.domain.inventory_snapshot import Holding, InventorySnapshot, snapshot_in_force, snapshot_of, units_held
from auctions.domain.lock import lock, locked_market, market_time, save_counters
from auctions.engine import inventories
from auctions.engine.policies import add_version
from auctions.engine.slots import caught_up
from auctions.kernels import warming
from auctions.models import Bid, Commitment, EventKind, Market, PolicyVersion
from auctions.state.storage import storage_problems
from cluster import changes
from cluster.database.prepared import Prepared
from cluster.facts import inventory_of
from cluster.models import Cluster
from scheduling.model.errors import InvalidField, refuse_all
from scheduling.model.inventory import Inventory
from scheduling.model.types import Json
from scheduling.policies.base import Policy
from scheduling.registry import POLICIES, make_policy

DEFAULT_POLICY: Final = "completions"
"""The policy of new markets, by the table of docs/measurements/market-on-traces.md."""
_OF_CLUSTER = Prepared(lambda cluster: Market.objects.select_related("cluster").filter(cluster=cluster), int)


def open_market(
    cluster: Cluster, *, policy: str = DEFAULT_POLICY, parameters: Json | None = None, by: User | None = None
) -> Market:
    """Open the cluster's market under a policy; a market that exists already is only opened for bids again.

    Raises
    ------
    scheduling.model.errors.InvalidField
        If the cluster cannot run any job, or not under this policy.
    """
    check_openable(cluster, make_policy(policy, parameters or {}))
    with transaction.atomic():
        market, created = Market.objects.get_or_create(cluster=cluster)
        market = lock(market.pk)
        if created:
            market.slot = -1  # before the epoch no slot has begun: a job that starts in slot 0 is planned until then
            moment = market_time(market)
            market.slot = moment.slot
            inventories.record_inventory(market, moment, snapshot_of(market.cluster), kind=EventKind.OPENED)
            add_version(market, moment, name=policy, parameters=parameters or {}, by=by)
        _note_open(market, was=not created and market.is_open, is_open=True)
        market.is_open = True
        save_counters(market)
        transaction.on_commit(lambda: warming.load_soon(market.pk), robust=True)
    return market


def check_openable(cluster: Cluster, policy: Policy) -> None:
    """Raise InvalidField if no job could run on the cluster, or not under the policy."""
    inventory = inventory_of(cluster)
    needed = {"worker types": inventory.workers, "servers": inventory.servers}
    problem = "expected at least one before a market is opened, got none"
    refuse_all([InvalidField(field, problem) for field, rows in needed.items() if not rows])
    policy.check(inventory)


def set_open(market: Market, is_open: bool) -> None:
    """Set whether the market accepts bids; waiting bids are decided in both cases."""
    with locked_market(market.pk) as held:
        _note_open(held, was=held.is_open, is_open=is_open)
        held.is_open = is_open
        save_counters(held)
        if is_open:
            transaction.on_commit(lambda: warming.load_soon(held.pk), robust=True)
    market.is_open = is_open


def _note_open(market: Market, *, was: bool, is_open: bool) -> None:
    name = market.cluster.name
    what = "market opened" if is_open else "market closed"
    changes.note(market, what, {"is_open": (was, is_open)}, cluster=name, name=f"market {name}")


def market_of(cluster: Cluster) -> Market:
    """Return the cluster's market; raises NoMarket."""
    found = _OF_CLUSTER.first(cluster.pk)
    if found is None:
        raise NoMarket(f"The cluster {cluster.name} has no market.")
    return found


def has_bids(cluster: Cluster) -> bool:
    """Return whether a bid was ever recorded. Its times are counted in slots, so the slot length is then fixed."""
    return Bid.objects.filter(market__cluster=cluster).exists()


def slot_begun(cluster: Cluster) -> int | None:
    """Return the last slot that began in the cluster's market; None if none has, or without a market."""
    return Market.objects.filter(cluster=cluster, slot__gte=0).values_list("slot", flat=True).first()


def inventory_problems(cluster: Cluster, inventory: Inventory) -> list[str]:
    """Return a message for each promise of the market that a changed cluster would break; empty if there is none."""
    market = Market.objects.filter(cluster=cluster).first()
    if market is None:
        return []
    market = lock(market.pk)
    moment = market_time(market)
    new, old = snapshot_of(cluster, inventory), snapshot_in_force(market)
    problems, policy = [], PolicyVersion.in_force(market.pk).policy()
    try:
        policy.check(inventory)
    except InvalidField as error:
        problems.append(f"The market's policy cannot run on this: {error}.")
    if new.slot_seconds != old.slot_seconds and Bid.objects.filter(market=market).exists():
        problems.append(
            f"The slot length cannot change from {old.slot_seconds} s to {new.slot_seconds} s:"
            " recorded bids and schedules count in slots."
        )
    problems += storage_problems(market, new, now=moment.now)
    return problems + _broken_promises(market, new, old, now=moment.now, all_stay=policy.binding)


def inventory_changed(cluster: Cluster) -> None:
    """Record the cluster's new inventory as an event of its market, if it differs from the inventory in force."""
    market = Market.objects.filter(cluster=cluster).first()
    if market is None:
        return
    with transaction.atomic():
        market = lock(market.pk)
        snapshot = snapshot_of(cluster)
        if snapshot.to_json() == snapshot_in_force(market).to_json():
            return
        moment = market_time(market)
        book = caught_up(market, moment)  # slots that began before now had the old inventory
        inventories.change_inventory(market, book, moment, snapshot)
        save_counters(market)


def _broken_promises(
    market: Market, new: InventorySnapshot, old: InventorySnapshot, *, now: int, all_stay: bool
) -> list[str]:
    rows = Commitment.objects.filter(bid__market=market, end__gt=now)
    if not all_stay:
        # Jobs that have not started and were promised nothing are planned again.
        promising = [name for name, kind in POLICIES.items() if kind.binding or kind.keeps_slots]
        rows = rows.filter(Q(bid__start_slot__lt=now) | Q(bid__decision__policy__name__in=promising))
    holdings = [Holding(*row) for row in rows.values_list("server_id", "machine_type_id", "count", "start", "end")]
    if not holdings:
        return []
    end = max(h.end for h in holdings)
    problems = []
    if end > now + new.horizon:
        problems.append(f"The horizon must be at least {end - now} slots: a job holds machines until slot {end}.")
    lost = {h.server_id for h in holdings} - set(new.server_ids)
    lost_names = [name for key, name in zip(old.server_ids, old.inventory.servers, strict=True) if key in lost]
    problems += [
        f"Server {name} holds machines for jobs and cannot be removed. Take it out of service instead."
        for name in lost_names
    ]
    types = {h.machine_type_id for h in holdings} - set(new.worker_ids) - set(new.ps_ids)
    if types:
        problems.append("A machine type that jobs hold cannot be removed.")
    problems += _lost_resources(new, old, rows)
    peak = units_held(new, holdings, start=now, end=end).max(axis=0)
    for s, r in np.argwhere(peak > new.inventory.capacity):
        problems.append(
            f"Server {new.inventory.servers[s]} has {peak[s, r]} {new.inventory.resources[r]} committed;"
            f" its capacity cannot be {new.inventory.capacity[s, r]}. Take the server out of service instead."
        )
    return problems


def _lost_resources(new: InventorySnapshot, old: InventorySnapshot, rows: QuerySet[Commitment]) -> list[str]:
    """Return a message for each removed resource that machines of jobs take: these jobs would hold none of it."""
    ids, machines = (*old.worker_ids, *old.ps_ids), (*old.inventory.workers, *old.inventory.parameter_servers)
    problems = []
    for r, key in enumerate(old.resource_ids):
        if key in new.resource_ids:
            continue
        taking = [i for i, machine in zip(ids, machines, strict=True) if machine.demand[r]]
        jobs = rows.filter(machine_type_id__in=taking).order_by().values("bid_id").distinct().count()
        if jobs:
            held = "1 job holds" if jobs == 1 else f"{jobs} jobs hold"
            problems.append(f"Resource {old.inventory.resources[r]} cannot be removed: {held} machines that take it.")
    return problems
