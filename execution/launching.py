"""The launch of the processes of a generation, with all that they need on the servers."""

import logging
import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from cluster.models import Server
from execution import archives, records
from execution.archives import BadArchive, DiskFull
from execution.engines.base import Engine, EngineError
from execution.models import Execution, Generation, Process, Program, Training
from execution.places import archive_file
from execution.starting import directory_of, refusal, start_of, user_of

LONGEST_DELAY_S: Final = 60.0
"""Longest time until a launch that was refused is tried again, seconds; the first time is a second."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Refused:
    """A launch that was refused."""

    problem: str
    until: float
    """Time before which it is not tried again, by a clock that is never set."""
    delay_s: float


class Launcher:
    """Launches processes. It remembers what was refused only so that it does not try, and say so, each second."""

    def __init__(self) -> None:
        self._refused: dict[str, Refused] = {}

    def launch(
        self,
        fence: int,
        execution: Execution,
        engine: Engine,
        generation: Generation,
        processes: Sequence[Process],
        keys: Collection[str],
        *,
        tick: float,
    ) -> None:
        """Start the processes of a generation with these keys; those that cannot be started now are started later."""
        due = [process for process in processes if process.key in keys and self._is_due(process, tick)]
        if due:  # operators may have changed the program, or renamed servers, since the last launch
            generation.training.program = Program.objects.get(pk=generation.training.program_id)
            servers = Server.objects.in_bulk({process.server_id for process in processes})
            for process in processes:
                process.server = servers[process.server_id]
        for process in due:
            before = self._refused.get(process.key)
            try:
                if problem := refusal(execution, is_root=os.geteuid() == 0):
                    raise EngineError(problem)
                _provide(execution, generation.training, generation)
                engine.launch(start_of(execution, generation.training, generation, process, processes))
            except (EngineError, BadArchive, DiskFull) as error:
                self._note(fence, process, str(error), before, tick=tick)
            else:
                self._refused.pop(process.key, None)

    def _is_due(self, process: Process, tick: float) -> bool:
        before = self._refused.get(process.key)
        return before is None or tick >= before.until

    def forget(self, processes: Iterable[Process]) -> None:
        """Forget processes whose generation has ended."""
        for process in processes:
            self._refused.pop(process.key, None)

    def _note(self, fence: int, process: Process, problem: str, before: Refused | None, *, tick: float) -> None:
        delay_s = 1.0 if before is None else min(2 * before.delay_s, LONGEST_DELAY_S)
        self._refused[process.key] = Refused(problem, tick + delay_s, delay_s)
        if before is None or before.problem != problem:
            log.warning("%s was not started: %s", process.key, problem)
            records.note_refusal(fence, process, problem)


def _provide(execution: Execution, training: Training, generation: Generation) -> None:
    """Make the directories of a generation, and unpack its program."""
    user, sha256 = user_of(execution, training.bid.owner_id), training.program.archive_sha256
    records.files_of(training).make(generation.number, user=user)
    if sha256:
        file, place = archive_file(execution.cluster.name, sha256), directory_of(execution, training)
        archives.provide(file, sha256, place, user=user)
