"""Rows of a training, made without an executor: for tests of who may read what."""

from auctions.models import Bid
from cluster import clock
from cluster.models import MachineRole
from execution.models import Execution, Generation, Process, ProcessState, Program, Progress, Training, TrainingState

KEY = "0123456789ab-g0-w0"


def make_training(bid: Bid) -> Training:
    """Give a bid a training, by a program of its owner, with one worker that runs and has reported a step."""
    cluster = bid.market.cluster
    trusting = {"own_programs": True, "users_trust_each_other": True, "runs_plans": True}
    Execution.objects.get_or_create(cluster=cluster, defaults=trusting)
    given = {"owner": bid.owner, "arguments": ["x"], "archive_sha256": 64 * "0", "archive_bytes": 1}
    program, _ = Program.objects.get_or_create(cluster=cluster, name="train", defaults=given)
    training = Training.objects.create(bid=bid, program=program, steps=9, step=3, state=TrainingState.RUNNING)
    server = cluster.servers.earliest("position")
    machine = cluster.machine_types.filter(role=MachineRole.WORKER).earliest("position")
    generation = Generation.objects.create(
        training=training,
        number=0,
        fence=1,
        allocation=[["worker", server.pk, machine.pk, 1]],
        slot=0,
        until=clock.now().timestamp() + 60,
        created_at=clock.now(),
    )
    process = Process(generation=generation, role="worker", rank=0, local_rank=0, server=server, key=KEY)
    process.machine_type, process.state, process.started_at = machine, ProcessState.RUNNING, clock.now()
    process.save()
    Progress.objects.create(generation=generation, step=3, loss=0.5, seconds=1.0, at=clock.now())
    return training
