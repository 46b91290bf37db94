"""The jobs of a trace that came as text."""

from typing import Final

from cluster.traces.formats import TooManyMalformed, Trace, UnknownFormat, read_trace
from cluster.traces.records import TraceJob
from scheduling.errors import InvalidField

MOST_LINES: Final = 500_000
"""No trace of 8 MB, which is what may be sent, comes near: more lines only keep whoever reads them."""
MOST_MALFORMED: Final = 50_000


def read_text(text: str, *, source: str = "", sha256: str = "") -> Trace[TraceJob]:
    """Its jobs and malformed lines; raises InvalidField if it is of no format that has jobs, or has too many lines."""
    if text.count("\n") > MOST_LINES:
        raise InvalidField("text", f"expected at most {MOST_LINES:,} lines, got {text.count(chr(10)):,}")
    lines = text.removeprefix("\ufeff").split("\n")
    if lines[-1] == "":
        lines.pop()
    try:
        return read_trace(lines, TraceJob, source=source, sha256=sha256, most_malformed=MOST_MALFORMED)
    except (UnknownFormat, TooManyMalformed) as error:
        raise InvalidField("text", str(error)) from None
