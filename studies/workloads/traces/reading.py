"""Files of traces that came as text."""

from typing import Final

from cluster.traces.formats import KINDS, One, TooManyMalformed, Trace, UnknownFormat, lines_of, read_trace
from cluster.traces.records import Record, TraceJob
from scheduling.model.errors import InvalidField

MOST_LINES: Final = 500_000
"""No trace of 8 MB, which is what may be sent, comes near: more lines only keep whoever reads them."""
MOST_MALFORMED: Final = 50_000


def read_text(text: str, *, source: str = "", sha256: str = "") -> Trace[TraceJob]:
    """Its jobs and malformed lines; raises InvalidField if it is of no format that has jobs, or has too many lines."""
    return _read(text, TraceJob, source=source, sha256=sha256)


def read_any(text: str, *kinds: str, source: str = "", sha256: str = "") -> Trace[Record]:
    """What it holds, if that is one of these kinds; raises as `read_text`."""
    return _read(text, *(KINDS[kind] for kind in kinds), source=source, sha256=sha256)


def _read(text: str, *kinds: type[One], source: str, sha256: str) -> Trace[One]:
    if text.count("\n") > MOST_LINES:
        raise InvalidField("text", f"expected at most {MOST_LINES:,} lines, got {text.count(chr(10)):,}")
    try:
        lines = lines_of(text.removeprefix("\ufeff"))
        return read_trace(lines, *kinds, source=source, sha256=sha256, most_malformed=MOST_MALFORMED)
    except (UnknownFormat, TooManyMalformed, InvalidField) as error:
        raise InvalidField("text", str(error)) from None
