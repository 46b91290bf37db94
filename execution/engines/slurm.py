"""The engine `slurm`: processes on the servers of a Slurm cluster, each a job on the server that it is given.

The engine's directory is one that all servers see under the same path, with locks that hold across servers. Slurm
starts the shim, and the shim does the rest. Slurm is asked only for what files do not show: whether it still knows
a job that has not started, or whose shim is gone.
"""

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from execution.engines import shim
from execution.engines.base import EngineError, Phase, Seen, Start
from execution.engines.files import FilesEngine, Found
from execution.engines.local import PYTHON

START_S: Final = 10.0
"""Slurm may not know a job yet, or no longer, within this time after it was submitted."""
KILL_S: Final = 1.0
"""Time that a shim has for killing its process, before Slurm wakes it, and then before it is killed, seconds."""
GONE_S: Final = 10.0
"""Longest time until Slurm says that a killed job is gone, seconds."""
ANSWER_S: Final = 5.0
"""Longest time for an answer of Slurm's commands, seconds."""
LOOK_S: Final = 2.0
"""Longest time for an answer while a page is made, seconds."""


class SlurmEngine(FilesEngine):
    """Starts processes as jobs of Slurm.

    Parameters
    ----------
    root
        The engine's directory, which all servers see.
    configuration
        The file `slurm.conf`, if it is not at its usual place.
    options
        More options of `sbatch`, such as a partition.
    prefix
        A job's name is this prefix and the key: two installations that submit as the same user need different ones.
    """

    def __init__(
        self,
        root: Path,
        *,
        configuration: Path | None = None,
        options: Sequence[str] = (),
        prefix: str = "",
    ) -> None:
        super().__init__(root)
        self.options, self.prefix = tuple(options), prefix
        self._environment = _environment(configuration)
        self._jobs: Mapping[str, str] | None = None

    def launch(self, start: Start) -> None:
        """Start a process, unless one with this key was ever started; see `Engine`."""
        created = self.files.create(start)
        found = self.files.find(start.key)
        if found is None or found.seen.phase != Phase.STARTING:
            return
        if not created and self.prefix + start.key in self._ask():
            return
        command = shlex.join([*PYTHON, str(self.files.shim), found.directory])
        options = [f"--job-name={self.prefix}{start.key}", f"--nodelist={start.server}", "--nodes=1", "--no-requeue"]
        where = [f"--chdir={found.directory}", "--output=slurm.out", "--open-mode=append"]
        try:
            self._run("sbatch", *options, *where, *self.options, script=f"#!/bin/sh\nexec {command}\n")
        except EngineError as error:
            self.files.remove(start.key)
            raise EngineError(f"{start.key} on {start.server}: {error}") from None

    def list(self) -> Mapping[str, Seen]:
        """Return all processes that were launched and not retired; see `Engine`."""
        self._jobs = None  # Slurm is asked at most once, and only if a process is in doubt
        return {found.key: self._see(found) for found in self.files.find_all()}

    def see(self, found: Found) -> Seen:
        """Return what is known of a process."""
        self._jobs = None
        return self._see(found)

    def _see(self, found: Found) -> Seen:
        seen = found.seen
        if found.exit is not None or found.locked:
            return seen
        late = seen.phase == Phase.STARTING and self.files.asked_s(found.key) + START_S < shim.now()
        if late and not self._knows(found.key):
            self.files.void(found.key, "Slurm does not know its job", code=None)
        if seen.phase == Phase.LOST and self._knows(found.key):
            return Seen(found.key, Phase.RUNNING, started_s=seen.started_s)
        return seen

    def kill(self, key: str) -> None:
        """End all of a process at once, also if it or its shim is frozen; see `Engine`."""
        self.files.forbid(key)
        found = self.files.find(key)
        if found is None or found.exit is not None:
            return
        self.files.want(key, shim.KILL)
        if found.started is None:
            self.files.void(key, shim.KILLED_BY_ENGINE, code=shim.KILLED)
            if not self.lives(key):
                self._cancel(key)  # it waits in Slurm's queue
        for signal in ("CONT", "KILL"):  # only if it or its shim is frozen: else the shim looks by itself
            if self.ends_within(key, KILL_S):
                return
            self._cancel(key, f"--signal={signal}", "--full")
        if not self.ends_within(key, GONE_S):
            raise EngineError(f"{key}: expected it to be gone after SIGKILL, got: Slurm knows its job")

    def _cancel(self, key: str, *options: str) -> None:
        self._run("scancel", "--me", "--quiet", f"--name={self.prefix}{key}", *options)

    def _knows(self, key: str) -> bool:
        """Whether Slurm knows its job, or does not answer: then the job may be there."""
        if self._jobs is None:
            try:
                self._jobs = self._ask()
            except EngineError:
                return True
        return self.prefix + key in self._jobs

    def _ask(self) -> Mapping[str, str]:
        """Return the states of all jobs of this user that have not ended, by name."""
        lines = self._run("squeue", "--me", "--noheader", "--format=%T %j").splitlines()
        return {name: state for state, _, name in (line.partition(" ") for line in lines)}

    def _run(self, *command: str, script: str = "") -> str:
        return _run(command, self._environment, script=script)


def node_states(configuration: Path | None) -> Mapping[str, str]:
    """Return the states of all servers by name, as Slurm says them: an asterisk means that it does not answer.

    Raises
    ------
    EngineError
        If Slurm does not answer.
    """
    said = _run(["sinfo", "--noheader", "--Node", "--format=%N %T"], _environment(configuration), longest_s=LOOK_S)
    return {name: state for name, _, state in (line.partition(" ") for line in said.splitlines())}


def _environment(configuration: Path | None) -> dict[str, str]:
    """Return the environment of Slurm's commands."""
    named = {} if configuration is None else {"SLURM_CONF": str(configuration)}
    return {"PATH": os.environ.get("PATH", os.defpath), **named}


def _run(
    command: Sequence[str], environment: Mapping[str, str], *, script: str = "", longest_s: float = ANSWER_S
) -> str:
    try:
        done = subprocess.run(  # noqa: S603
            command, input=script, env=environment, capture_output=True, text=True, timeout=longest_s
        )
    except subprocess.TimeoutExpired:
        raise EngineError(f"expected {command[0]} to answer, got nothing within {longest_s:.0f} s") from None
    except OSError as error:
        raise EngineError(f"expected {command[0]} to run, got: {error}") from None
    if done.returncode != 0:
        raise EngineError(f"expected {command[0]} to succeed, got: {done.stderr.strip()}")
    return done.stdout
