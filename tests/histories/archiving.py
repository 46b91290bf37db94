"""Histories in which the past is archived again and again: what happens must be the same bytes as without.

`differences` runs each twice. Faults that hit a process at its n-th statement are left out then: a process that reads
the book again after an archive has more statements than one that catches up.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from django.conf import settings

from auctions.history import archive_file, audit_archives
from auctions.history.audit import audit_market
from auctions.history.sealing import Before, archive
from auctions.models import Bid, DecisionRecord, Event, FirstDecision, Market, Seal
from tests.histories.__main__ import empty_tables
from tests.histories.history import History
from tests.histories.invariants import memories

OFTEN = 0.2
"""Probability that something is archived after something has happened."""


class Archived(History):
    """A history whose market archives what is before slots that are drawn; nothing else depends on these draws."""

    folder: Path

    def __post_init__(self) -> None:
        super().__post_init__()
        self.cuts = np.random.default_rng([self.seed, 3])
        self.simulation.after_step = self._archive
        self.seals = 0

    def _archive(self) -> None:
        market = Market.objects.filter(cluster__name="lab").first()
        if market is None or self.cuts.random() >= OFTEN:
            return
        before, most = int(self.cuts.integers(0, market.slot + 2)), int(self.cuts.choice([3, 10, 10_000]))
        self.seals += archive(market, Before(slot=before), folder=self.folder, most=most) is not None


def differences(seed: int, folder: Path, *, faults: bool) -> list[str]:
    """Return what is wrong with a history whose past is archived; with faults, it is not compared with another one."""
    records, problems = [], []
    for history in (History(seed), Archived(seed)):
        if isinstance(history, Archived):
            history.folder = settings.ARCHIVE_DIR = folder
        elif faults:
            continue
        if not faults:
            history.simulation.rates.fault = history.simulation.rates.between = 0.0
        empty_tables()
        with history.ran():
            market = Market.objects.get()
            records.append(record_of(market, folder))
            if isinstance(history, Archived):
                problems = [*problems_of(history, market), *history.simulation.unexpected]
    if any(record != records[0] for record in records):
        problems.append("events or receipts are not those of the same history without archives")
    return problems


def record_of(market: Market, folder: Path | None) -> dict[str, Any]:
    """Return all events and receipts of a market, from its rows and its archives."""
    events = {one.version: _event(one) for one in Event.objects.filter(market=market)}
    receipts = {("last", one.bid_id): one.receipt for one in DecisionRecord.objects.filter(bid__market=market)}
    receipts |= {("first", one.bid_id): one.receipt for one in FirstDecision.objects.filter(bid__market=market)}
    for seal in Seal.objects.filter(market=market).order_by("number"):
        assert folder is not None
        found = archive_file.read(folder / seal.file_name)
        events |= {one.version: _event(one) for page in found.pages() for one in page}
        for key, bid in found.bids(list(found.archived)).items():
            for name, kind in (("last", "decision"), ("first", "first_decision")):
                if hasattr(bid, kind):
                    receipts[name, key] = getattr(bid, kind).receipt
    return {"events": events, "receipts": receipts}


def problems_of(history: Archived, market: Market) -> Iterator[str]:
    """Yield what the audit, the replays of the archives and the memories of processes find."""
    yield from (f"{one.check}: {row}" for one in audit_market(market) for row in one.rows[:3])
    for seal in Seal.objects.filter(market=market):
        yield from audit_archives.archive_replays(market, seal, history.folder)
    yield from memories(history, market)
    for bid in Bid.objects.filter(market=market):
        if bool(bid.core_bid) is not (bid.seal_id is None):
            yield f"the documents of bid {bid.sequence} are where they should not be"


def _event(one: Event) -> list[Any]:
    # Each reading of the clock takes a microsecond, and a process that archives reads it more often.
    return [one.kind, one.slot, round(one.at.timestamp(), 1), one.bid_id, one.payload]
