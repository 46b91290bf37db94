"""The launch of the processes of a generation, with all that they need on the servers."""

import logging
import os
from collections.abc import Collection, Sequence

from execution import archives, records
from execution.archives import BadArchive
from execution.engines.base import Engine, EngineError
from execution.models import Execution, Generation, Process, Training
from execution.places import archive_file
from execution.starting import directory_of, refusal, start_of, user_of

log = logging.getLogger(__name__)


def launch(
    execution: Execution,
    engine: Engine,
    training: Training,
    generation: Generation,
    processes: Sequence[Process],
    keys: Collection[str],
) -> None:
    """Start the processes of a generation with these keys; those that cannot be started now are started later."""
    for process in processes:
        if process.key in keys:
            try:
                if problem := refusal(execution, is_root=os.geteuid() == 0):
                    raise EngineError(problem)
                _provide(execution, training, generation)
                engine.launch(start_of(execution, training, generation, process, processes))
            except (EngineError, BadArchive) as error:
                log.warning("%s was not started: %s", process.key, error)


def _provide(execution: Execution, training: Training, generation: Generation) -> None:
    """Make the directories of a generation, and unpack its program."""
    user, sha256 = user_of(execution, training), training.program.archive_sha256
    records.files_of(training).make(generation.number, user=user)
    if sha256:
        file, place = archive_file(execution.cluster.name, sha256), directory_of(execution, training)
        archives.provide(file, sha256, place, user=user)
