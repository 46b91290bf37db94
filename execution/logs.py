"""The output of processes, for readers: parts of a log in whole lines, and the lines that contain a text."""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from execution.engines.files import Logs

BLOCK: Final = 65_536
"""Bytes of a log that are read at a time."""
MOST_FOUND: Final = 500
"""Lines that a search returns at most: the first ones."""
LONGEST_LINE: Final = 1_000_000
"""Bytes after which a line that does not end is taken as whole."""
LONGEST_FOUND: Final = 1_000
"""Characters of a line that was found; of a longer one those around the text are returned."""
BEFORE_TEXT: Final = 200
"""Characters before the text that are returned of such a line."""
CONTINUED: Final = bytes(range(0x80, 0xC0))
"""Bytes of a character in UTF-8 after its first one."""

_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*(?:[@-~]|\Z)|\][^\x07\x1b\n\r]*(?:\x07|\x1b\\)?|[@-Z\\^_]|\Z)")
"""Sequences by which programs colour a terminal; of the last one the rest may follow. None is longer than a version of
a line: one that does not end hides no others."""
_UNSEEN: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Characters that are not shown, or that turn the direction of a line."""


@dataclass(frozen=True)
class Part:
    """Lines of a log."""

    text: str
    begin: int
    """Offset of the first byte, in bytes of all output."""
    end: int
    """Offset behind the last byte."""
    first: int
    """Offset of the first byte that is kept."""
    size: int
    """Offset of the end of all output."""
    unfinished: str = ""
    """Last version of the line that begins at `end`, if it may still change: a progress bar, for example."""


def part_from(logs: Logs, key: str, offset: int, *, is_over: bool) -> Part:
    """Return whole lines from byte `offset` on; the last one may lack its end if the process is over."""
    first, size = logs.log_size(key)
    begin = min(max(first, offset), size)
    data = logs.log(key, begin, BLOCK)
    if is_over and begin + len(data) >= size:
        return Part(shown(data), begin, begin + len(data), first, size)
    return _split(data, begin, first, size)


def part_before(logs: Logs, key: str, until: int | None) -> Part:
    """Return the lines before byte `until`; None for the newest, of which the last one may be unfinished."""
    first, size = logs.log_size(key)
    end = size if until is None else min(max(first, until), size)
    begin = max(first, end - BLOCK)
    data = logs.log(key, begin, end - begin)
    if begin > first:  # it begins within a line, which is shown from there if it is the only one
        cut = data.find(b"\n", 0, len(data) - 1) + 1 or 3 - len(data[:3].lstrip(CONTINUED))
        begin, data = begin + cut, data[cut:]
    if until is None:
        return _split(data, begin, first, size)
    return Part(shown(data), begin, begin + len(data), first, size)


def _split(data: bytes, begin: int, first: int, size: int) -> Part:
    """Return output as whole lines and the unfinished one behind them; a line that fills a block is taken as whole."""
    whole = data.rfind(b"\n") + 1
    end = whole + _replaced(data[whole:])
    characters = codecs.utf_8_decode(data, "replace", False)[1]  # all but the bytes of one that is not all there
    if end == 0 and len(data) >= BLOCK:
        return Part(shown(data[:characters]), begin, begin + characters, first, size)
    return Part(shown(data[:whole]), begin, begin + end, first, size, shown(data[end:characters]))


def _replaced(line: bytes) -> int:
    """Return how many bytes of a line are versions of it that were written over, so that `shown` leaves them out."""
    end, blank = len(line.rstrip(b"\r")), {b""}
    while (at := line.rfind(b"\r", 0, end)) >= 0:
        version = line[at + 1 : end]
        if version not in blank:  # programs may erase a line a million times by the same sequence
            if _ESCAPES.sub("", version.decode("utf-8", "replace")):
                return at + 1
            blank.add(version)
        end = at
    return 0


def blocks(logs: Logs, key: str) -> Iterator[bytes]:
    """Yield all output that is kept, block by block."""
    offset, end = logs.log_size(key)
    while offset < end and (data := logs.log(key, offset, min(BLOCK, end - offset))):
        offset += len(data)
        yield data


def found(logs: Logs, key: str, word: str) -> tuple[list[str], bool]:
    """Return the first lines that contain the text, in any case of letters, and whether there are more."""
    sought = word.casefold()
    lines: list[str] = []
    for text in _texts(logs, key):
        if sought not in text.casefold():  # most parts are passed over as a whole
            continue
        for line in text.split("\n"):
            if sought in line.casefold():
                if len(lines) == MOST_FOUND:
                    return lines, True
                lines.append(_around(line, word))
    return lines, False


def _around(line: str, word: str) -> str:
    """Return a line; of a long one only the part around the text."""
    if len(line) <= LONGEST_FOUND:
        return line
    at = re.search(re.escape(word), line, re.IGNORECASE)
    begin = max(0, at.start() - BEFORE_TEXT) if at else 0
    end = begin + LONGEST_FOUND
    return f"{'…' * (begin > 0)}{line[begin:end]}{'…' * (end < len(line))}"


def _texts(logs: Logs, key: str) -> Iterator[str]:
    """Yield all output that is kept as texts of whole lines, without the end of the last one."""
    rest = b""
    for data in blocks(logs, key):
        whole, end, rest = (rest + data).rpartition(b"\n")
        if end:
            yield shown(whole + end)[:-1]  # with its end: no rest of a sequence follows
        if len(rest) > LONGEST_LINE:  # only then, so that no byte is looked at again with each block
            rest = rest[_replaced(rest) :]
        if len(rest) > LONGEST_LINE:
            yield shown(rest)
            rest = b""
    if rest:
        yield shown(rest)


def shown(data: bytes) -> str:
    """Return output as text: without colours, and of a line that was written over again, only the last version."""
    text = _ESCAPES.sub("", data.decode("utf-8", "replace").replace("\r\n", "\n"))
    if "\r" in text:
        text = "\n".join(next(filter(None, reversed(line.split("\r"))), "") for line in text.split("\n"))
    return _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", text)
