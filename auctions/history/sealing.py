"""Moves the settled past of a market into archives: a file, then its seal, then the rows leave the database.

A cut lies just before the event of a slot. The events before it are replayed, which must give the recorded bytes; the
state after them is the start of every later replay. The file is written and synchronised first. One transaction stores
the seal, marks the bids that are over, and moves the cut. Then documents and events leave in small transactions. A kill
leaves a file without a seal, which is ignored, or rows that `clear` deletes when it is called again.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import Any, Final

from django.conf import settings
from django.db import transaction
from django.db.models import Min, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce

from auctions.domain.errors import AuctionError
from auctions.domain.lock import locked_market
from auctions.history import archive_file
from auctions.history.archive_file import Archive, archive_of, digest_of
from auctions.history.audit_pass import EventPass
from auctions.history.recorded import Rows
from auctions.history.replay import UNREADABLE
from auctions.models import Bid, DecisionRecord, Event, EventKind, FirstDecision, Market, Seal, Webhook, WebhookCursor
from auctions.state.seals import last_seal
from cluster import changes, clock
from scheduling.model.decision import canonical, parse
from scheduling.model.types import Json

MOST_EVENTS: Final = 10_000
"""Events of one archive, unless one slot has more: they are in memory together."""
AT_ONCE: Final = 200
"""Bids whose documents leave the database in one transaction, and events of slots."""
MOST_DAYS: Final = 36_500
"""Largest number of days for which a market may keep events."""
MOST_PROBLEMS: Final = 5
"""Problems that a message names."""
KEPT_OF_BODY: Final = "program"
"""The part of an archived bid's request that stays, because its training refers to it."""

Progress = Callable[[int, int], object]
"""Called with the number of bids whose documents have just left the database, and the number in the archive."""


class CannotArchive(AuctionError):
    """The past of the market cannot be archived as it is."""


@dataclass(frozen=True)
class Before:
    """The end of what may be archived: a slot, or a time; events from then on stay."""

    slot: int | None = None
    time: datetime | None = None


class _Noting(Rows):
    """Rows of a market that notes every event and bid it gives, which are those that a replay needs."""

    def __init__(self, market: Market, *, since: int, until: int) -> None:
        super().__init__(market, since=since, until=until)
        self.events: list[Event] = []
        self.known: dict[int, Bid] = {}

    def pages(self) -> Iterator[list[Event]]:
        """Yield the events in order, with their bids."""
        for page in super().pages():
            self.events += page
            yield page

    def bids(self, keys: Collection[int]) -> dict[int, Bid]:
        """Return the bids of these keys, with their receipts."""
        found = super().bids(keys)
        self.known |= found
        return found

    def numbered(self, numbers: Collection[int]) -> dict[int, Bid]:
        """Return the bids of these sequence numbers, with their receipts."""
        found = super().numbered(numbers)
        self.known |= {bid.pk: bid for bid in found.values()}
        return found


def archive(
    market: Market,
    before: Before,
    *,
    folder: Path | None = None,
    most: int = MOST_EVENTS,
    progress: Progress | None = None,
) -> Seal | None:
    """Archive the next events of a market, at most `most` of them if a slot has no more; finish what was begun before.

    Return the seal; None if nothing is left to archive. Decisions may be made meanwhile.

    Raises
    ------
    CannotArchive
        If a replay does not give what is recorded, or if no directory is named. Nothing is changed then.
    """
    folder = archive_folder(folder)
    for unfinished in Seal.objects.filter(market=market, cleared_at=None).order_by("number"):
        clear(unfinished, progress)
    market = Market.objects.select_related("cluster").get(pk=market.pk)
    cut = _cut(market, before, most)
    if cut is None:
        return None
    made, gone = _archive(market, cut)
    data = made.written()
    name = f"{market.cluster.name}-{made.manifest['number']:05}-{made.digest[:12]}.xz"
    archive_file.write(folder / name, data)
    seal = _seal(market, made, gone, name, data)
    if seal is not None:
        clear(seal, progress)
    return seal


def archive_folder(chosen: Path | None) -> Path:
    """Return the directory of archives, which may be chosen; raises CannotArchive if no setting names one."""
    found: Path | None = chosen or settings.ARCHIVE_DIR
    if found is None:
        raise CannotArchive("SHADOWPRICE_ARCHIVES: expected a directory that is kept, where archives are, got none.")
    return found


def archive_old(market: Market, *, most: int, until: float) -> int:
    """Archive what is older than the market keeps, piece by piece; return the number of archives.

    No further piece is begun after `until`, a time of `time.monotonic`.
    """
    if market.keep_days is None:
        return 0
    made, before = 0, Before(time=clock.now() - timedelta(days=market.keep_days))
    while monotonic() < until and archive(market, before, most=most) is not None:
        made += 1
    return made


def keep_days(market: Market, days: int | None) -> None:
    """Say for how many days events are kept before they are archived in the background; None for all days."""
    with locked_market(market.pk) as held:
        found = {"keep_days": (held.keep_days, days)}
        held.keep_days = days
        held.save(update_fields=["keep_days"])
        cluster = held.cluster.name
        changes.note(held, "retention changed", found, cluster=cluster, name=f"market {cluster}")


def clear(seal: Seal, progress: Progress | None = None) -> None:
    """Delete the events of an archive and the documents of its bids, in small transactions; it can be called again."""
    total = parse(seal.manifest)["archived"]
    rows = Bid.objects.filter(market=seal.market_id, seal=seal).order_by("sequence")
    while batch := list(rows.filter(sequence__gt=seal.cleared_through).only("sequence", "program")[:AT_ONCE]):
        with transaction.atomic():
            _clear_documents(seal, batch)
            seal.cleared_through = batch[-1].sequence
            seal.save(update_fields=["cleared_through"])
        if progress is not None:
            progress(len(batch), total)
    slots = Event.objects.filter(market=seal.market_id, kind=EventKind.SLOT, version__lte=seal.version)
    while keys := list(slots.order_by("version").values_list("pk", flat=True)[:AT_ONCE]):
        Event.objects.filter(pk__in=keys).delete()
    seal.cleared_at = clock.now()
    seal.save(update_fields=["cleared_at"])


def replayed_otherwise(market: Market, source: Any, start: Json | None, *, slot: int) -> tuple[EventPass, list[str]]:
    """Replay the events of a source up to the cut in this slot; return the pass, and what is wrong with the record."""
    seen = EventPass(market, source=source, start=start)
    try:
        problems = [problem for one in seen.readings for problem in one.found_so_far()]
        problems += seen.replay.reader.broken()
        problems += seen.replay.reader.slots_otherwise(before=slot)
    except UNREADABLE as error:
        problems = [f"the record cannot be read: {type(error).__name__}: {error}"]
    return seen, problems


def _cut(market: Market, before: Before, most: int) -> Event | None:
    """Return the event before which the next archive ends: that of a slot; None if there is none."""
    since = market.sealed_version
    slots = Event.objects.filter(market=market, kind=EventKind.SLOT, version__gt=since + 1).order_by("version")
    if before.slot is not None:
        slots = slots.filter(payload__from__lte=before.slot)
    if before.time is not None:
        slots = slots.filter(at__lte=before.time)
    # Messages are made from events; a webhook that is off gets none of those that it missed. One of another cluster
    # reads none of them.
    hooks = Webhook.objects.filter(Q(cluster=None) | Q(cluster=market.cluster_id), is_on=True, owner__is_active=True)
    # A webhook without a cursor is older than the market, and has read nothing of it yet.
    cursors = WebhookCursor.objects.filter(market=market, webhook=OuterRef("pk")).values("version")
    read = hooks.aggregate(least=Min(Coalesce(Subquery(cursors), 0)))["least"]
    if read is not None:
        slots = slots.filter(version__lte=read + 1)
    return slots.filter(version__lte=since + most + 1).last() or slots.first()


def _archive(market: Market, cut: Event) -> tuple[Archive, dict[int, int]]:
    """Return the archive of the events before the event `cut`, and the numbers of the bids that leave, by key."""
    last, slot = last_seal(market), cut.payload["from"]
    start = None if last is None else parse(last.end_state)
    source = _Noting(market, since=market.sealed_version, until=cut.version - 1)
    seen, problems = replayed_otherwise(market, source, start, slot=slot)
    if problems:
        words = "; ".join(problems[:MOST_PROBLEMS])
        more = "" if len(problems) <= MOST_PROBLEMS else f"; and {len(problems) - MOST_PROBLEMS} more"
        raise CannotArchive(f"The record before slot {slot} is not what a replay gives, so it stays: {words}{more}.")
    over, running = seen.states.reader.over(), seen.replay.reader.under_way
    others = sorted(over - source.known.keys())  # they had no event of their own since the last cut
    for first in range(0, len(others), AT_ONCE):
        source.bids(others[first : first + AT_ONCE])
    gone = {pk: source.known[pk].sequence for pk in sorted(over) if source.known[pk].sequence not in running}
    about = {
        "cluster": market.cluster.name,
        "market": str(market.token),
        "number": 1 if last is None else last.number + 1,
        "previous": "" if last is None else last.digest,
        "first_version": market.sealed_version + 1,
        "last_version": cut.version - 1,
        "cut_slot": slot,
        "events": len(source.events),
        "bids": len(source.known),
        "archived": len(gone),
    }
    end = seen.state(gone, first_slot=slot)
    made = archive_of(about, begin=start, end=end, events=source.events, bids=source.known.values(), gone=gone)
    return made, gone


def _seal(market: Market, made: Archive, gone: Collection[int], name: str, data: bytes) -> Seal | None:
    """Store the seal of a file that was written; return None if another process was faster."""
    with locked_market(market.pk) as held:
        if held.sealed_version + 1 != made.manifest["first_version"]:
            return None
        seal = Seal.objects.create(
            market=held,
            number=made.manifest["number"],
            version=made.manifest["last_version"],
            slot=made.manifest["cut_slot"],
            digest=made.digest,
            manifest=canonical(made.manifest),
            end_state=made.end,
            file_name=name,
            file_sha256=digest_of(data),
            file_bytes=len(data),
            sealed_at=clock.now(),
        )
        Seal.objects.filter(market=held).exclude(pk=seal.pk).update(end_state="")
        keys = sorted(gone)
        for first in range(0, len(keys), AT_ONCE):
            Bid.objects.filter(pk__in=keys[first : first + AT_ONCE]).update(seal=seal)
        held.sealed_version = seal.version
        held.save(update_fields=["sealed_version"])
    return seal


def _clear_documents(seal: Seal, batch: Collection[Bid]) -> None:
    """Delete the events of these bids, which are all before the cut, their requests and their receipts."""
    keys = [bid.pk for bid in batch]
    Event.objects.filter(market=seal.market_id, version__lte=seal.version, bid__in=keys).delete()
    Bid.objects.filter(pk__in=keys).update(body={}, resolved_request={}, core_bid={})
    for bid in batch:
        if bid.program is not None:
            Bid.objects.filter(pk=bid.pk).update(body={KEPT_OF_BODY: bid.program})
    DecisionRecord.objects.filter(bid__in=keys).update(receipt="", costs=None)
    FirstDecision.objects.filter(bid__in=keys).update(receipt="")
