"""Types of arguments that several benchmarks share."""

import argparse
from pathlib import Path

from cluster.traces.formats import open_trace
from cluster.traces.records import TraceJob
from scheduling.model.errors import SchedulingError


def count(text: str) -> int:
    """Read how many seeds, instances or jobs are wanted: with none, a table would have no figures."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return number


def existing_file(text: str) -> Path:
    """Read the name of a file: that it is missing is said before anything is computed."""
    path = Path(text)
    try:
        path.open("rb").close()
    except OSError as error:
        raise argparse.ArgumentTypeError(f"expected a file, got {text!r}: {error.strerror}") from None
    return path


def trace_of_jobs(text: str) -> Path:
    """Read the name of a trace of jobs, which must be of a known format."""
    path = existing_file(text)
    try:
        open_trace(path, TraceJob)
    except (OSError, ValueError, SchedulingError) as error:
        raise argparse.ArgumentTypeError(f"expected a trace of jobs, got {text!r}: {error}") from None
    return path
