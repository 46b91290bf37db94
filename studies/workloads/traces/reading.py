"""Read trace files from text."""

from typing import Final

from cluster.traces.formats import KINDS, One, TooManyMalformed, Trace, UnknownFormat, lines_of, read_trace
from cluster.traces.records import Record, TraceJob
from scheduling.model.errors import InvalidField, refuse_all

MOST_LINES: Final = 500_000
"""Largest number of lines. Uploads are at most 8 MB and have far fewer lines in practice."""
MOST_MALFORMED: Final = 50_000


def read_text(text: str, *, source: str = "", sha256: str = "") -> Trace[TraceJob]:
    """Read jobs and malformed lines; raises InvalidField for a format without jobs, or for too many lines."""
    return _read(text, TraceJob, source=source, sha256=sha256)


def read_any(text: str, *kinds: str, source: str = "", sha256: str = "") -> Trace[Record]:
    """Read a file of one of these kinds; raises as `read_text` does."""
    return _read(text, *(KINDS[kind] for kind in kinds), source=source, sha256=sha256)


def _read(text: str, *kinds: type[One], source: str, sha256: str) -> Trace[One]:
    if text.count("\n") > MOST_LINES:
        raise InvalidField("text", f"expected at most {MOST_LINES:,} lines, got {text.count(chr(10)):,}")
    try:
        lines = lines_of(text.removeprefix("\ufeff"))
        return read_trace(lines, *kinds, source=source, sha256=sha256, most_malformed=MOST_MALFORMED)
    except InvalidField as error:
        refuse_all([InvalidField("text", str(one)) for one in error.all_wrong])
        raise
    except (UnknownFormat, TooManyMalformed) as error:
        raise InvalidField("text", str(error)) from None
