"""A Slurm cluster of three servers on this machine, for tests and the demo: `python -m execution.engines.small_slurm`.

As root, with the packages slurmctld, slurmd, slurm-client and munge of Debian or their like. It has a configuration, a
key, ports and a socket of its own, needs no systemd, and touches no other Slurm. The servers edge-0, edge-1 and edge-2
are three `slurmd -N` on loopback, which pretend to have many processors: the market decides what fits.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

SERVERS: Final = ("edge-0", "edge-1", "edge-2")
PROGRAMS: Final = ("munged", "slurmctld", "slurmd", "sbatch")
INSTALL: Final = "apt-get install slurmctld slurmd slurm-client munge"
UP_S: Final = 30.0
"""Longest time until all servers are up, seconds."""
SYSTEM: Final = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
CONFIGURATION: Final = """
ClusterName=shadowprice
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={munge}
CredType=cred/munge
SlurmctldPort={port}
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/%n.pid
SlurmctldLogFile={root}/slurmctld.log
SlurmdLogFile={root}/%n.log
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
SlurmdTimeout=10
KillWait=5
ReturnToService=2
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def lacking() -> str:
    """Return what this machine has not to run it, or nothing."""
    missing = [program for program in PROGRAMS if shutil.which(program, path=SYSTEM) is None]
    return ", ".join(missing) or ("" if os.geteuid() == 0 else "right of root")


@contextmanager
def running(root: Path) -> Iterator[Path]:
    """Run it while the block lasts, with its files in this directory; yield the path of its `slurm.conf`."""
    root.mkdir(parents=True, exist_ok=True)
    root.chmod(0o755)  # munge refuses a directory into which others may write
    (root / "state").mkdir(exist_ok=True)
    munge, key = root / "munge.socket", root / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(1024))
    ports = _free_ports(1 + len(SERVERS))
    nodes = "\n".join(
        f"NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs=1000 State=UNKNOWN"
        for name, port in zip(SERVERS, ports[1:], strict=True)
    )
    host = socket.gethostname().partition(".")[0]
    configuration = root / "slurm.conf"
    configuration.write_text(CONFIGURATION.format(host=host, munge=munge, port=ports[0], root=root, nodes=nodes))
    environment = {"PATH": SYSTEM, "SLURM_CONF": str(configuration)}
    with ExitStack() as daemons:
        files = [f"--{file}-file={root}/munged.{file}" for file in ("log", "pid", "seed")]
        start = [("munged", "--foreground", "--force", f"--socket={munge}", f"--key-file={key}", *files)]
        start += [("slurmctld", "-D", "-c"), *(("slurmd", "-D", "-N", name) for name in SERVERS)]
        for command in start:
            daemons.enter_context(_daemon(command, environment))
        _wait_until_up(environment)
        yield configuration


@contextmanager
def _daemon(command: Sequence[str], environment: dict[str, str]) -> Iterator[None]:
    quiet = subprocess.DEVNULL
    daemon = subprocess.Popen(  # noqa: S603
        command, env=environment, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
    )
    try:
        yield
    finally:
        daemon.terminate()
        try:
            daemon.wait(5)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()


def _wait_until_up(environment: dict[str, str]) -> None:
    deadline = time.monotonic() + UP_S
    while _idle(environment) < len(SERVERS):
        if time.monotonic() > deadline:
            raise TimeoutError(f"expected {len(SERVERS)} servers to be up within {UP_S:.0f} s, see the logs")
        time.sleep(0.1)


def _idle(environment: dict[str, str]) -> int:
    command = ["sinfo", "--noheader", "--Node", "--states=idle", "--format=%N"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)  # noqa: S603
    return len(done.stdout.split()) if done.returncode == 0 else 0


def _free_ports(count: int) -> list[int]:
    with ExitStack() as sockets:
        probes = [sockets.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def main(root: Path) -> None:
    """Run it until this process gets SIGINT or SIGTERM."""
    lacks = lacking()
    if lacks:
        sys.exit(f"This machine has no {lacks}. Run as root: {INSTALL}")
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    with running(root.resolve()) as configuration:
        print(f"Slurm has the servers {', '.join(SERVERS)}. In another shell: export SLURM_CONF={configuration}")
        print("Ctrl-C ends it", flush=True)
        signal.sigwait({signal.SIGINT, signal.SIGTERM})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
