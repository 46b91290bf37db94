"""`manage.py archive`: move the settled past of a market into archives, and check archives."""

from argparse import ArgumentTypeError
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.template.defaultfilters import pluralize
from tqdm import tqdm

from auctions.history.audit_archives import archive_replays, chain_is_whole, outcomes_are_as_sealed
from auctions.history.sealing import MOST_DAYS, Before, CannotArchive, archive, archive_folder, keep_days
from auctions.models import Market, Seal
from scheduling.model.validation import LARGEST_INTEGER

OFF: Final = "off"
"""Word by which `--keep-days` lets a market keep everything."""


class Command(BaseCommand):
    """Archive the past of a market, say for how long it is kept, or replay its archives."""

    help = "Move the settled past of a market into archives, or check these; see docs/operators/archives.md."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the market and what to do."""
        parser.add_argument("cluster", help="the name of the market's cluster")
        parser.add_argument("--folder", type=Path, help="where the files of archives are; else SHADOWPRICE_ARCHIVES")
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("--before", metavar="SLOT|DATE", type=_before, help="archive what was before that")
        what.add_argument(
            "--keep-days", metavar="DAYS", type=_days, help=f"archive in the background what is older; {OFF}: nothing"
        )
        what.add_argument("--check", action="store_true", help="replay every archive, and compare")

    def handle(self, *args: Any, **options: Any) -> None:
        """Do it and print what was done; exit status 1 if something is not as it was sealed."""
        market = Market.objects.select_related("cluster").filter(cluster__name=options["cluster"]).first()
        if market is None:
            raise CommandError(f"cluster: expected a cluster with a market, got {options['cluster']!r}", returncode=2)
        try:
            folder = archive_folder(options["folder"])
            if options["check"]:
                self._check(market, folder)
            elif options["before"] is not None:
                self._archive(market, options["before"], folder)
        except CannotArchive as error:
            raise CommandError(str(error), returncode=1) from error
        if options["keep_days"] is not None:
            days = options["keep_days"]
            keep_days(market, None if days == OFF else days)
            self.stdout.write(
                f"{market}: nothing is archived in the background"
                if days == OFF
                else f"{market}: events are archived after {days} day{pluralize(days)}"
            )

    def _archive(self, market: Market, before: Before, folder: Path) -> None:
        made = 0
        with tqdm(desc=market.cluster.name, unit=" bids", disable=None, leave=False) as bar:
            while seal := archive(market, before, folder=folder, progress=lambda done, _: bar.update(done)):
                made += 1
                self.stdout.write(f"archive {seal.number}: {seal.summary} in {folder / seal.file_name}")
        if not made:
            self.stdout.write("nothing is old enough: no slot before that began after events that are not archived")

    def _check(self, market: Market, folder: Path) -> None:
        seals = list(Seal.objects.filter(market=market).order_by("number"))
        found = [*chain_is_whole(market), *outcomes_are_as_sealed(market)]
        for seal in tqdm(seals, desc=market.cluster.name, unit=" archives", disable=None, leave=False):
            found += archive_replays(market, seal, folder)
        for problem in found:
            self.stdout.write(problem)
        if found:
            differ = "1 thing is not as it was" if len(found) == 1 else f"{len(found)} things are not as they were"
            raise CommandError(f"{differ} sealed", returncode=1)
        self.stdout.write(f"{len(seals)} archive{pluralize(seals)} replayed, byte for byte the same")


def _before(text: str) -> Before:
    """Read a slot's number, or a day or time of ISO 8601, in UTC unless it says otherwise."""
    try:
        if text.lstrip("-").isdecimal() and abs(int(text)) <= LARGEST_INTEGER:
            return Before(slot=int(text))
        found = datetime.fromisoformat(text) if "T" in text else datetime.combine(date.fromisoformat(text), time.min)
        return Before(time=found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC))
    except (ValueError, OverflowError) as error:  # the latter for a time that in UTC is no date of the calendar
        raise ArgumentTypeError(f"expected a slot, a day such as 2026-11-25 or a time, got {text!r}") from error


def _days(text: str) -> int | str:
    if text == OFF:
        return OFF
    if not text.isdecimal() or not 1 <= int(text) <= MOST_DAYS:
        raise ArgumentTypeError(f"expected days from 1 to {MOST_DAYS}, or {OFF}, got {text!r}")
    return int(text)
