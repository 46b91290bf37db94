"""Checks of archives: the chain of seals, the files, and what stays of archived bids in the database."""

from collections.abc import Iterator
from pathlib import Path

from django.db.models import QuerySet

from auctions.history import archive_file
from auctions.history.archive_file import Archive, Damaged, digest_of, outcomes_digest
from auctions.history.audit_rows import receipt_otherwise
from auctions.history.sealing import CannotArchive, archive_folder, replayed_otherwise
from auctions.models import OUTCOME, Bid, Market, Seal
from cluster.database.paging import in_pages
from scheduling.model.decision import canonical, parse


def chain_is_whole(market: Market) -> Iterator[str]:
    """Check that seals follow one another without a gap, and that each is that of its manifest."""
    previous, version = "", 0
    seals = list(Seal.objects.filter(market=market).order_by("number"))
    for expected, seal in enumerate(seals, start=1):
        if seal.number != expected:
            yield f"the chain is broken: archive {expected} has no seal, archive {seal.number} follows"
            return
        if digest_of(seal.manifest) != seal.digest:
            yield f"archive {seal.number}: its manifest in the database is not the one that was sealed"
            return
        said = parse(seal.manifest)
        claims = {
            "it follows the seal before it": said["previous"] == previous,
            "it is of this market": said["market"] == str(market.token),
            "its number is that of its place": said["number"] == seal.number,
            "it begins after the archive before it": said["first_version"] == version + 1,
            "it ends where its seal says": (said["last_version"], said["cut_slot"]) == (seal.version, seal.slot),
        }
        yield from (f"archive {seal.number}: it is not so that {claim}" for claim, holds in claims.items() if not holds)
        previous, version = seal.digest, seal.version
    if market.sealed_version != version:
        yield f"events up to version {market.sealed_version} are archived by the market, up to {version} by its seals"
    if seals and digest_of(seals[-1].end_state) != parse(seals[-1].manifest)["end"]:
        yield f"archive {seals[-1].number}: the state at its end in the database is not the one that was sealed"


def outcomes_are_as_sealed(market: Market) -> Iterator[str]:
    """Check that what stays of archived bids in the database is what their seals have a digest of."""
    for seal in Seal.objects.filter(market=market).order_by("number"):
        said, rows = parse(seal.manifest), _outcomes(seal)
        found = in_pages(rows.values_list(*OUTCOME, named=True), by="sequence")
        if outcomes_digest(list(row) for row in found) != said["outcomes"]:
            count = rows.count()
            less = "" if count == said["archived"] else f" ({count} bids instead of {said['archived']})"
            yield f"archive {seal.number}: what the database has of its bids is not what was sealed{less}"
    # Checks of rows leave out bids that a seal has: a seal of another market would hide one.
    own = Seal.objects.filter(market=market)
    strangers = Bid.objects.filter(market=market, seal__isnull=False).exclude(seal__in=own).order_by("sequence")
    for number in strangers.values_list("sequence", flat=True):
        yield f"bid {number} is in no archive of this market, yet it names the seal of one"


def files_are_as_sealed(market: Market, folder: Path | None = None) -> Iterator[str]:
    """Check that the file of each seal is there and has its bytes."""
    seals = Seal.objects.filter(market=market).order_by("number")
    try:
        where = archive_folder(folder) if seals else None
    except CannotArchive as error:
        yield f"{seals.count()} archives were not looked at. {error}"
        return
    for seal in seals:
        yield from _changed(seal, _path(seal, where))


def archive_replays(market: Market, seal: Seal, folder: Path | None = None) -> list[str]:
    """Replay one archive: it must give its receipts and its last state byte for byte, and name what stays of its bids.

    Nothing is read of the database but prices of slots, publications and what stays of bids.
    """
    path = _path(seal, folder)
    changed = list(_changed(seal, path))
    if changed:
        return changed
    try:
        found = archive_file.read(path)
    except Damaged as error:
        return [f"archive {seal.number} ({path.name}): {error}"]
    if found.digest != seal.digest:
        return [f"archive {seal.number} ({path.name}) is another archive: its digest is {found.digest}"]
    return [f"archive {seal.number}: {problem}" for problem in _replayed(market, seal, found)]


def _replayed(market: Market, seal: Seal, found: Archive) -> Iterator[str]:
    seen, problems = replayed_otherwise(market, found, found.start, slot=seal.slot)
    yield from problems
    if not problems and canonical(seen.state(found.archived, first_slot=seal.slot)) != found.end:
        yield "a replay of its events ends in another state"
    rows = {row[0]: list(row[1:]) for row in _outcomes(seal).values_list("pk", *OUTCOME)}
    archived = found.bids(list(found.archived))
    for key, number in sorted(found.archived.items()):
        bid = archived[key]
        if rows.get(key) != found.outcome_of(key):
            yield f"bid {number} is not in the database as it was archived"
        if hasattr(bid, "decision"):
            yield from receipt_otherwise(bid, bid.decision)


def _changed(seal: Seal, path: Path) -> Iterator[str]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        yield f"archive {seal.number} is missing: there is no file {path.name} in {path.parent}"
    except OSError as error:
        yield f"archive {seal.number} ({path.name}) cannot be read: {error.strerror}"
    else:
        if digest_of(data) != seal.file_sha256:
            yield f"archive {seal.number} ({path.name}): its bytes are not those that were sealed"


def _path(seal: Seal, folder: Path | None) -> Path:
    return archive_folder(folder) / seal.file_name


def _outcomes(seal: Seal) -> "QuerySet[Bid]":
    return Bid.objects.filter(market=seal.market_id, seal=seal).order_by("sequence")
