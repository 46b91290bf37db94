"""Common parts of separate processes that compute background jobs. They have no database."""

import json
import os
from collections.abc import Callable
from typing import Final, TextIO

from scheduling.model.types import Json

LOADING: Final = "loading kernels"
DRAWING: Final = "drawing jobs"
"""Stages before a process can begin."""
Report = Callable[[Json], None]


def own_output() -> TextIO:
    """Return standard output for the caller alone; all other output goes to standard error from now on.

    HiGHS prints a line there where it repairs a solution, whatever its options say, and a buffer of such lines may end
    anywhere: between two lines of JSON it would be taken for the end.
    """
    own = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return own


def reports_to(sink: TextIO) -> Report:
    """Return the function that writes a report as one line of JSON."""

    def report(row: Json) -> None:
        sink.write(json.dumps(row, allow_nan=False) + "\n")
        sink.flush()

    return report
