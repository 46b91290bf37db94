"""Archives: files of events and of the bids that these name, which a replay can read without the database.

A file is compressed with xz and has a JSON document a line: the manifest, the state before the first event, one line
for each policy, bid and event, and the state after the last event. The manifest has the SHA-256 of the other parts and
the digest of the manifest before it; the digest of an archive is the SHA-256 of its manifest.
"""

import json
import lzma
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, TypeVar

from django.db import models

from auctions.models import OUTCOME, Bid, DecisionRecord, Event, EventKind, FirstDecision, PolicyVersion
from scheduling.model.decision import canonical, parse
from scheduling.model.types import Json

FORMAT: Final = "shadowprice archive 1"
ABOUT: Final = (
    "Line 1 is this manifest. Line 2 is the state of the market before the first event, null if there was none. Then"
    " follow policies, bids with their receipts, and events in order. The last line is the state after the last event."
)
PAGE: Final = 500
"""Events that a replay reads at a time."""
NOT_ARCHIVED: Final = frozenset({"seal_id"})
M = TypeVar("M", bound=models.Model)


class Damaged(ValueError):
    """A file is not the archive that was sealed; the message says in what."""


@dataclass(frozen=True)
class Archive:
    """The parts of an archive; it is the source of a replay."""

    manifest: Json
    begin: str
    """State before the first event, canonical JSON."""
    records: tuple[str, ...]
    """Lines of policies, bids and events."""
    end: str
    """State after the last event, canonical JSON."""

    @property
    def digest(self) -> str:
        """SHA-256 of the manifest."""
        return digest_of(canonical(self.manifest))

    @property
    def start(self) -> Json | None:
        """The state before the first event; None if nothing was before it."""
        found: Json | None = json.loads(self.begin)
        return found

    @cached_property
    def archived(self) -> dict[int, int]:
        """Sequence numbers of the bids whose documents left the database, by key."""
        return {row["bid"]["id"]: row["bid"]["sequence"] for row in self._rows("bid") if row["archived"]}

    def first_slot(self) -> int | None:
        """Return the first slot that began by an event, if only by the one after the cut."""
        slots = (event for event in self._events if event.kind == EventKind.SLOT)
        first: int = next((event.payload["from"] for event in slots), self.manifest["cut_slot"])
        return first

    def pages(self) -> Iterator[list[Event]]:
        """Yield the events in order, with their bids."""
        for first in range(0, len(self._events), PAGE):
            yield self._events[first : first + PAGE]

    def bids(self, keys: Collection[int]) -> dict[int, Bid]:
        """Return the bids of these keys, with their receipts."""
        return {key: self._bids[key] for key in keys if key in self._bids}

    def numbered(self, numbers: Collection[int]) -> dict[int, Bid]:
        """Return the bids of these sequence numbers, with their receipts."""
        return {bid.sequence: bid for bid in self._bids.values() if bid.sequence in set(numbers)}

    def outcome_of(self, key: int) -> list[Any]:
        """Return what stays of an archived bid in the database, in the order of `OUTCOME`."""
        return [getattr(self._bids[key], name) for name in OUTCOME]

    def written(self) -> bytes:
        """Return the bytes of the file."""
        text = "\n".join((canonical(self.manifest), self.begin, *self.records, self.end)) + "\n"
        return lzma.compress(text.encode(), check=lzma.CHECK_SHA256)

    def _rows(self, name: str) -> Iterator[Json]:
        return (row for row in self._parsed if name in row)

    @cached_property
    def _parsed(self) -> list[Json]:
        return [json.loads(line) for line in self.records]

    @cached_property
    def _bids(self) -> dict[int, Bid]:
        policies = {row["policy"]["id"]: _row_of(PolicyVersion, row["policy"]) for row in self._rows("policy")}
        found = {}
        kinds: dict[str, type[DecisionRecord] | type[FirstDecision]] = {
            "decision": DecisionRecord,
            "first_decision": FirstDecision,
        }
        for row in self._rows("bid"):
            bid = found[row["bid"]["id"]] = _row_of(Bid, row["bid"])
            for name, kind in kinds.items():
                receipt = None if row[name] is None else _row_of(kind, row[name])
                if receipt is not None:
                    receipt.policy = policies[receipt.policy_id]
                # None is remembered, too: the row of the database must not be read.
                relation: Any = Bid._meta.get_field(name)
                relation.set_cached_value(bid, receipt)
        return found

    @cached_property
    def _events(self) -> list[Event]:
        events = [_row_of(Event, row["event"]) for row in self._rows("event")]
        for event in events:
            if event.bid_id is not None:
                event.bid = self._bids[event.bid_id]
        return events


def digest_of(text: str | bytes) -> str:
    """Return the SHA-256 of a text, hexadecimal."""
    return sha256(text.encode() if isinstance(text, str) else text).hexdigest()


def outcomes_digest(rows: Iterable[Collection[Any]]) -> str:
    """Return the digest of what stays of archived bids in the database, rows in order of their sequence numbers."""
    return digest_of("\n".join(canonical(list(row)) for row in rows))


def archive_of(
    about: Mapping[str, Any],
    *,
    begin: Json | None,
    end: Json,
    events: Iterable[Event],
    bids: Iterable[Bid],
    gone: Collection[int],
) -> Archive:
    """Return the archive of these events and bids, of which those with keys in `gone` leave the database.

    `about` has the other fields of the manifest.
    """
    rows = sorted(bids, key=lambda bid: bid.sequence)
    receipts = {bid.pk: [getattr(bid, name, None) for name in ("decision", "first_decision")] for bid in rows}
    policies = {one.policy_id: one.policy for found in receipts.values() for one in found if one is not None}
    lines = [_line({"policy": _document(policies[key])}) for key in sorted(policies)]
    for bid in rows:
        last, first = (None if one is None else _document(one) for one in receipts[bid.pk])
        row = {"bid": _document(bid), "decision": last, "first_decision": first, "archived": bid.pk in gone}
        lines.append(_line(row))
    lines += [_line({"event": _document(event)}) for event in events]
    before, after = canonical(begin), canonical(end)
    manifest = {
        **about,
        "format": FORMAT,
        "about": ABOUT,
        "begin": digest_of(before),
        "records": digest_of("\n".join(lines)),
        "end": digest_of(after),
        "outcomes": outcomes_digest([getattr(bid, name) for name in OUTCOME] for bid in rows if bid.pk in gone),
    }
    return Archive(manifest, before, tuple(lines), after)


def write(path: Path, data: bytes) -> None:
    """Write a file so that it is there with all its bytes or not at all, even if the power fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    with part.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read(path: Path) -> Archive:
    """Read an archive and check its own digests. Raises Damaged, or OSError if the file cannot be read."""
    try:
        lines = lzma.decompress(path.read_bytes()).decode().splitlines()
        first, begin, *records, end = lines
        manifest = parse(first)
        sealed = {name: manifest[name] for name in ("format", "begin", "records", "end")}
    except (lzma.LZMAError, ValueError, LookupError, TypeError) as error:
        raise Damaged(f"it cannot be read as an archive ({error})") from error
    if sealed["format"] != FORMAT:
        raise Damaged(f"its format is {sealed['format']!r}; this version reads {FORMAT!r}")
    found = {"begin": begin, "records": "\n".join(records), "end": end}
    words = {"begin": "the state before its first event", "records": "its events or bids", "end": "its last state"}
    changed = [words[name] for name, text in found.items() if digest_of(text) != sealed[name]]
    if changed or canonical(manifest) != first:
        raise Damaged(f"{', '.join(changed) or 'its manifest'}: not what the manifest says")
    return Archive(manifest, begin, tuple(records), end)


def _line(row: Json) -> str:
    # Keys keep their order: documents of bids do so in the database.
    return json.dumps(row, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _document(row: models.Model) -> Json:
    fields = {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in fields.items()
        if name not in NOT_ARCHIVED
    }


def _row_of(model: type[M], document: Json) -> M:
    # Columns that this version no longer has are left out.
    fields = {field.attname: field for field in model._meta.concrete_fields if field.attname in document}
    return model(**{name: _value(field, document[name]) for name, field in fields.items()})


def _value(field: Any, value: Any) -> Any:
    return datetime.fromisoformat(value) if isinstance(field, models.DateTimeField) and value is not None else value
