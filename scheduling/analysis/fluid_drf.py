"""Dominant resource fairness as an ideal that no ledger can hold: shares of machines, in continuous time."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from scheduling.model.bid import Bid
from scheduling.model.inventory import Inventory
from scheduling.model.types import Floats
from scheduling.policies.baselines.gang import Gang, ideal_gang

TOLERANCE = 1e-9
"""Shares, units and mini-batches below this count as 0."""


@dataclass
class _Flow:
    gang: Gang
    ready: float
    left: float
    demand: Floats
    """Demand of one worker with its part of a PS, R numbers."""
    rate: float = 0.0
    """Mini-batches a slot."""


def fluid_drf(bids: Iterable[Bid], inventory: Inventory) -> dict[str, float]:
    """Return the completion of each job under fluid DRF, slots, by the bid's id, without jobs that no server can host.

    The cluster is one server; workers and PSs are divisible; jobs change their shares at no cost, at any moment, and
    are complete at any moment. So this is a yardstick and not a policy: no schedule of whole machines in whole slots
    does it, and none can be committed to a ledger.

    Notes
    -----
    Between two events (an upload is over, a completion) all unfinished jobs have the max-min fair dominant shares:
    shares grow together; a job stops at D workers, or when a resource it uses is used up. x workers of the ideal type
    take x times a worker and x b / B PSs, and do x / k mini-batches a slot: k = v + U + 2 pi / b, and in a ring
    v + (U + 2 pi / b) (x - 1) / x for x > 1, else v. In doubles.
    """
    waiting = sorted((flow for bid in bids if (flow := _flow(bid, inventory)) is not None), key=lambda f: -f.ready)
    active: list[_Flow] = []
    done: dict[str, float] = {}
    now = 0.0
    while waiting or active:
        now = max(now, waiting[-1].ready) if not active else now
        while waiting and waiting[-1].ready <= now:
            active.append(waiting.pop())
        _share_out(active, inventory)
        span = min(flow.left / flow.rate for flow in active if flow.rate > 0)
        if waiting:
            span = min(span, waiting[-1].ready - now)
        now += span
        for flow in active:
            flow.left -= span * flow.rate
            if flow.left <= TOLERANCE * flow.gang.bid.work:
                done[flow.gang.bid.id] = now
        active = [flow for flow in active if flow.gang.bid.id not in done]
    return done


def fluid_workers(demands: Floats, most: Floats, capacity: Floats) -> Floats:
    """Max-min fair workers of each job, J fractions: demands of one worker J x R, most workers J, capacity R."""
    totals = np.maximum(capacity, 1.0)
    dominant = (demands / totals).max(axis=1)
    workers = np.zeros(len(demands))
    free = capacity.astype(np.float64)
    growing = np.ones(len(demands), dtype=np.bool_)
    while growing.any():
        slope = (demands[growing] / dominant[growing, None]).sum(axis=0)
        used = slope > 0
        step = float((free[used] / slope[used]).min())
        step = max(0.0, min(step, float(((most - workers) * dominant)[growing].min())))
        workers[growing] += step / dominant[growing]
        free = free - step * slope
        spent = free <= TOLERANCE * totals
        growing &= (workers < most * (1 - TOLERANCE)) & ~(demands[:, spent] > 0).any(axis=1)
    return workers


def _flow(bid: Bid, inventory: Inventory) -> _Flow | None:
    gang = ideal_gang(bid, inventory, bid.chunks)
    if gang is None:
        return None
    demand = inventory.worker_demand[gang.worker].astype(np.float64)
    if gang.ps is not None:
        ratio = inventory.workers[gang.worker].bandwidth_mbps / inventory.parameter_servers[gang.ps].bandwidth_mbps
        demand = demand + float(ratio) * inventory.ps_demand[gang.ps]
    return _Flow(gang, float(bid.arrival + min(bid.delay)), float(bid.work), demand)


def _share_out(active: list[_Flow], inventory: Inventory) -> None:
    demands = np.array([flow.demand for flow in active]).reshape(len(active), -1)
    most = np.array([float(flow.gang.bid.chunks) for flow in active])
    capacity = inventory.capacity.sum(axis=0).astype(np.float64)
    for flow, workers in zip(active, fluid_workers(demands, most, capacity), strict=True):
        flow.rate = _rate(flow.gang, float(workers))


def _rate(gang: Gang, workers: float) -> float:
    if workers <= 0:
        return 0.0
    bid = gang.bid
    step, transfer = float(bid.worker_time[gang.worker]), float(bid.transfer_time[gang.worker])
    if gang.ps is None:
        step += (float(bid.reduce_time) + transfer) * max(0.0, workers - 1) / workers
    else:
        step += float(bid.ps_time[gang.ps]) + transfer
    return workers / max(step, TOLERANCE)
