"""The testbed's servers as a cluster of the market, with the calibrated profile, and how it executes."""

from datetime import datetime
from pathlib import Path
from typing import Final

from cluster.documents import import_cluster
from cluster.models import Cluster
from execution.models import Execution, Program
from scheduling.model.types import Json
from studies.testbed import trainer
from studies.testbed.calibration import Profile
from studies.testbed.jobs import MINIBATCHES, MODEL, PROGRAM
from studies.testbed.servers import PROCESSORS, PS_SERVER, TYPES, WORKER_SERVERS, Servers

HORIZON: Final = 20
GRACE_S: Final = 0.8
ONE_TYPE: Final = ("preemptive",)
"""Policies that count workers one by one, so that no two types may share a resource: they have the first type alone."""


def document(name: str, *, policy: str, profile: Profile, slot_s: int, epoch: datetime) -> Json:
    """Return the cluster: workers take hundredths of a processor, parameter servers places."""
    kinds = [next(iter(TYPES))] if policy in ONE_TYPE else list(TYPES)
    workers = [
        {"name": kind, "bandwidth_mbps": trainer.WORKER_MBPS, "demand": {"processor": round(100 * TYPES[kind])}}
        for kind in kinds
    ]
    capacity: dict[str, Json] = {server: {"processor": round(100 * PROCESSORS[server])} for server in WORKER_SERVERS}
    capacity[PS_SERVER] = {"place": trainer.PLACES}
    return {
        "name": name,
        "title": f"Testbed under {policy}",
        "note": "Servers are control groups and network namespaces of this machine.",
        "epoch": epoch.isoformat(),
        "slot_seconds": slot_s,
        "horizon_slots": HORIZON,
        "standing_by_default": False,
        "clock": {"kind": "real"},
        "resources": [{"name": "processor", "unit": "%"}, {"name": "place", "unit": "place"}],
        "worker_types": workers,
        "ps_types": [{"name": "ps", "bandwidth_mbps": trainer.PS_MBPS, "demand": {"place": 1}}],
        "servers": [
            {"name": server, "kind": "edge", "upload_delay_s": 0.0, "capacity": has} for server, has in capacity.items()
        ],
        "models": [
            {
                "name": MODEL,
                "gradient_mb": round(trainer.GRADIENT_MB, 4),
                "chunks": 2,
                "minibatches": MINIBATCHES,
                "worker_step_s": {kind: round(profile.worker_step_s[kind], 4) for kind in kinds},
                "ps_step_s": {"ps": round(profile.ps_step_s, 4)},
            }
        ],
    }


def make(facts: Json, servers: Servers, root: Path) -> Cluster:
    """Create a cluster by its document, with its execution and the trainer as its program."""
    import_cluster(facts)
    cluster = Cluster.objects.get(name=facts["name"])
    # The trainer is this project's own; the interpreter of root may be in a directory that no other user may read.
    Execution.objects.create(
        cluster=cluster, grace_s=GRACE_S, addresses=servers.addresses(), allow_root=True, niceness=0
    )
    Program.objects.create(
        cluster=cluster,
        name=PROGRAM,
        arguments=trainer.command(root, servers),
        working_directory="/",
        environment=trainer.ENVIRONMENT,
    )
    return cluster
