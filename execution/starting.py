"""The start of one process: its arguments, its environment, and its limits.

The names of variables are those of torchrun where it has them, so that its scripts run unchanged.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from django.urls import reverse

from execution.engines.base import Limits, Start
from execution.models import Execution, Generation, Process, ProcessRole, Training
from execution.places import JobFiles, unpacked
from execution.tokens import token_of

FIRST_PORT: Final = 21_000
PORTS: Final = 9_000
"""Ports of processes are the keys of their rows modulo this number, so that a port is used again after many others."""
BASIC: Final[Mapping[str, str]] = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
"""Environment of every program, if its own does not say otherwise."""


def start_of(
    execution: Execution, training: Training, generation: Generation, process: Process, peers: Sequence[Process]
) -> Start:
    """Return how one process of a generation is started.

    Parameters
    ----------
    execution, training, generation, process
        Rows; the training's program and the process's server are read from them.
    peers
        All processes of the generation, in the order of their ranks.
    """
    files = JobFiles(execution.cluster.name, training.token)
    program = training.program
    own = {**BASIC, "HOME": str(files.generation(generation.number)), **program.environment}
    return Start(
        key=process.key,
        server=process.server.name,
        arguments=(*program.arguments, *training.arguments),
        environment={**own, **environment_of(execution, training, generation, process, peers, files)},
        working_directory=directory_of(execution, training),
        until=generation.until,
        grace_s=execution.grace_s,
        user=user_of(execution, training.bid.owner_id),
        limits=limits_of(execution),
        machine_type=process.machine_type.name,
    )


def refusal(execution: Execution, *, is_root: bool) -> str:
    """Return why this executor may not start programs of a cluster; empty if it may.

    Parameters
    ----------
    execution
        How the cluster executes.
    is_root
        Whether the executor runs as root.
    """
    if is_root and execution.first_uid is None and not execution.allow_root:
        return (
            "programs would run as root: expected first_uid, or allow_root, in the execution of the cluster, got none"
        )
    if not is_root and execution.first_uid is not None:
        return "expected an executor that runs as root, since the cluster has first_uid, got another user"
    return ""


def directory_of(execution: Execution, training: Training) -> Path:
    """Return the directory in which the program of a training starts."""
    program = training.program
    if program.archive_sha256:
        return unpacked(execution.cluster.name, program.archive_sha256, user_of(execution, training.bid.owner_id))
    return Path(program.working_directory)


def limits_of(execution: Execution) -> Limits:
    """Return the limits of each process of a cluster."""
    return Limits(
        memory_mb=execution.memory_mb,
        open_files=execution.open_files,
        file_mb=execution.file_mb,
        processes=execution.processes,
        niceness=execution.niceness,
    )


def user_of(execution: Execution, owner: int) -> int | None:
    """Return the system user of a user of the service, by key; None for the executor's own user."""
    return None if execution.first_uid is None else execution.first_uid + owner


def environment_of(
    execution: Execution,
    training: Training,
    generation: Generation,
    process: Process,
    peers: Sequence[Process],
    files: JobFiles,
) -> dict[str, str]:
    """Return the variables of the contract between the executor and programs (docs/users/run-your-own.md)."""
    of = {role: [peer for peer in peers if peer.role == role] for role in ProcessRole}
    workers, servers = of[ProcessRole.WORKER], of[ProcessRole.PS]
    resumed = generation.resumed_from
    return {
        "RANK": str(process.rank),
        "WORLD_SIZE": str(len(of[ProcessRole(process.role)])),
        "LOCAL_RANK": str(process.local_rank),
        "MASTER_ADDR": address_of(execution, workers[0]),
        "MASTER_PORT": str(port_of(workers[0])),
        "SHADOWPRICE_ROLE": process.role,
        "SHADOWPRICE_ROLE_RANK": str(process.rank),
        "SHADOWPRICE_WORKERS": _places(execution, workers),
        "SHADOWPRICE_PS": _places(execution, servers),
        "SHADOWPRICE_ARCHITECTURE": "ps" if servers else "ring",
        "SHADOWPRICE_GENERATION": str(generation.number),
        "SHADOWPRICE_STEPS": "" if training.steps is None else str(training.steps),
        "SHADOWPRICE_RESUME": "" if resumed is None else resumed.path,
        "SHADOWPRICE_CHECKPOINTS": str(files.checkpoints(generation.number)),
        "SHADOWPRICE_UNTIL": repr(generation.until),
        "SHADOWPRICE_PROGRESS": str(files.progress(generation.number)),
        **(_by_http(execution, generation) if execution.service_url else {}),
    }


def _by_http(execution: Execution, generation: Generation) -> dict[str, str]:
    url = execution.service_url.rstrip("/") + reverse("api-progress")
    return {"SHADOWPRICE_URL": url, "SHADOWPRICE_TOKEN": token_of(generation)}


def address_of(execution: Execution, process: Process) -> str:
    """Return the address at which a process is reached."""
    return str(execution.addresses.get(process.server.name, "127.0.0.1"))


def port_of(process: Process) -> int:
    """Return the port on which a process may listen."""
    return FIRST_PORT + process.pk % PORTS


def _places(execution: Execution, processes: Sequence[Process]) -> str:
    return ",".join(f"{address_of(execution, one)}:{port_of(one)}" for one in processes)
