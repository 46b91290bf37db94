"""The jobs of a trace that came as text."""

from cluster.traces.formats import Trace, UnknownFormat, read_trace
from cluster.traces.records import TraceJob
from scheduling.errors import InvalidField


def read_text(text: str, *, source: str = "", sha256: str = "") -> Trace[TraceJob]:
    """Its jobs and malformed lines; raises InvalidField if it is of no format that has jobs."""
    lines = text.removeprefix("\ufeff").split("\n")
    if lines[-1] == "":
        lines.pop()
    try:
        return read_trace(lines, TraceJob, source=source, sha256=sha256)
    except UnknownFormat as error:
        raise InvalidField("text", str(error)) from None
