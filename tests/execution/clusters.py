"""Clusters whose jobs run the example trainer as real processes, in slots of some seconds."""

import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.utils import timezone

from cluster.models import ClockKind, Cluster, ModelProfile, Server, StepTime
from execution.models import EngineKind, Execution, Program
from tests.auctions.worlds import SLOT_S, make_cluster
from tests.processes import ROOT

GRACE_S = 0.8
STEP_S = 0.1
"""Shortest time of the trainer's step."""
OF_TRAINER = ("--hidden", "32", "--checkpoint-every", "5")
"""Arguments of the trainer on which its weights and checkpoints depend."""


def executing_cluster(
    name: str,
    *,
    slot_s: float,
    slurm: Path | None = None,
    units: int = 4,
    loopback: int = 1,
    grace_s: float = GRACE_S,
    step_s: float = STEP_S,
) -> Cluster:
    """Three servers, edge-0 to edge-2, in real time, in the middle of slot 0, for jobs of at most two workers.

    Parameters
    ----------
    slot_s
        Length of a slot, seconds; an epoch takes 1.8 slots of a worker.
    slurm
        The `slurm.conf` of a Slurm that has these servers; None for the engine `local`.
    units
        Workers, and parameter servers, for which a server has room.
    loopback
        Servers have the addresses 127.0.`loopback`.1 and so on: other tests may use the same ports at other addresses.
    grace_s
        Time to write a checkpoint, seconds.
    step_s
        Shortest time of a step, seconds.
    """
    cluster = make_cluster(name, servers=3, units=units)
    Server.objects.get(cluster=cluster, name="cloud").delete()
    cluster.clock_kind, cluster.slot_seconds = ClockKind.REAL, slot_s
    cluster.epoch = timezone.now() - timedelta(seconds=slot_s / 2)
    cluster.save()
    for step in StepTime.objects.filter(profile__cluster=cluster):
        step.seconds *= slot_s / SLOT_S
        step.save()
    ModelProfile.objects.filter(cluster=cluster).update(gradient_mb=0.1, chunks=2)
    addresses = {f"edge-{number}": f"127.0.{loopback}.{number + 1}" for number in range(3)}
    # Runs are compared with the clock, beside other tests: programs are as important as those.
    own: dict[str, Any] = {"engine": EngineKind.LOCAL, "niceness": 0}
    if slurm is not None:
        own = {"engine": EngineKind.SLURM, "niceness": 0, "slurm_configuration": str(slurm)}
    Execution.objects.create(cluster=cluster, grace_s=grace_s, addresses=addresses, allow_root=True, **own)
    command = [sys.executable, str(ROOT / "examples" / "train.py"), "--step-s", str(step_s), *OF_TRAINER]
    Program.objects.create(
        cluster=cluster,
        name="train",
        arguments=command,
        working_directory="/",
        environment={"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    return cluster
