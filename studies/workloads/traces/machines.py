"""Inventories for replays: a given number of GPUs, or the machines that a trace lists."""

from collections.abc import Iterable
from fractions import Fraction

import numpy as np

from cluster.traces.records import Machine
from scheduling.model.errors import InvalidField
from scheduling.model.inventory import Inventory, MachineType

LINK_MBPS = Fraction(10_000)
"""Link of a worker and of a parameter server: one PS serves all workers that reach it over the network."""
MOST_SERVERS = 10_000
"""Largest number of servers of a trace: five times the number of PAI's."""
MOST_KINDS = 50
"""Largest number of GPU types: ten times the number of PAI's. Each is a resource of every server."""
PSS = 12
"""Parameter servers for each GPU: 96 a server, as in `studies/workloads/generated/preemptive.py`."""


def gpu_cluster(gpus: int, *, per_server: int = 8, apart: bool = False) -> Inventory:
    """Build equal servers of `per_server` GPUs each (the last has the rest), with one worker for each GPU.

    Parameter servers are hardly ever scarce. They are on the same servers, or with `apart` on an equal number of
    separate servers, as OASiS requires.

    Raises
    ------
    InvalidField
        If there is not at least one GPU, and one for each server.
    """
    for name, number in (("gpus", gpus), ("per_server", per_server)):
        if number < 1:
            raise InvalidField(name, f"expected at least 1, got {number}")
    full, rest = divmod(gpus, per_server)
    sizes = [per_server] * full + ([rest] if rest else [])
    rows = [(size, 0 if apart else PSS * size) for size in sizes] + [(0, PSS * size) for size in sizes if apart]
    return Inventory(
        resources=("gpu", "ps"),
        servers=tuple(f"server-{s}" for s in range(len(rows))),
        cloud=(False,) * len(rows),
        capacity=np.array(rows, dtype=np.int64),
        workers=(MachineType("gpu", (1, 0), LINK_MBPS),),
        parameter_servers=(MachineType("ps", (0, 1), LINK_MBPS),),
    )


def machine_cluster(machines: Iterable[Machine]) -> Inventory:
    """Build the machines of a trace: a worker type for each GPU type takes one GPU and its share of cores and memory.

    The share is the least amount for each GPU over all machines of this type, rounded down. A parameter server takes
    one core and 1 GB wherever there is room; machines without GPUs host only parameter servers.

    Raises
    ------
    InvalidField
        If no machine has a GPU, or there are more than MOST_SERVERS or MOST_KINDS.
    """
    machines = list(machines)
    count = sum(row.count for row in machines)
    if count > MOST_SERVERS:
        raise InvalidField("machines", f"expected at most {MOST_SERVERS:,}, got {count:,}")
    rows = [row for row in machines for _ in range(row.count)]
    kinds = sorted({row.gpu_type or "gpu" for row in rows if row.gpus})
    if not kinds:
        raise InvalidField("machines", "expected at least one machine with GPUs, got none")
    if len(kinds) > MOST_KINDS:
        raise InvalidField("machines", f"expected at most {MOST_KINDS} types of GPU, got {len(kinds):,}")
    capacity = np.zeros((len(rows), len(kinds) + 2), dtype=np.int64)
    for s, row in enumerate(rows):
        capacity[s, -2:] = row.cpus, row.memory_gb
        if row.gpus:
            capacity[s, kinds.index(row.gpu_type or "gpu")] = row.gpus
    workers = []
    for k, kind in enumerate(kinds):
        having = capacity[capacity[:, k] > 0]
        share = (having[:, -2:] // having[:, k, None]).min(axis=0).tolist()
        workers.append(MachineType(kind, (*(int(j == k) for j in range(len(kinds))), *share), LINK_MBPS))
    return Inventory(
        resources=(*(f"gpu-{kind}" for kind in kinds), "vcpu", "memory_gb"),
        servers=tuple(f"{row.name}-{i}" for i, row in enumerate(rows)),
        cloud=(False,) * len(rows),
        capacity=capacity,
        workers=tuple(workers),
        parameter_servers=(MachineType("ps", (*[0] * len(kinds), 1, 1), LINK_MBPS),),
    )
