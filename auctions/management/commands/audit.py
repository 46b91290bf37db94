"""`manage.py audit`: check what must always be true on a live database."""

import json
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.template.defaultfilters import pluralize
from tqdm import tqdm

from auctions.history.audit import Finding, audit_market, audit_teams
from auctions.models import Market
from cluster.read_transaction import read_transaction

TEAMS: Final = "credits of teams"
"""Name under which the checks of teams are reported; no cluster is called so."""


class Command(BaseCommand):
    """Run every check on every market and the credits of teams, or on one market.

    Exit status 1 with the offending rows if any fails.
    """

    help = "Check what must always be true; exits 1 with the offending rows if something is not."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the market and the format of the report."""
        parser.add_argument("--market", metavar="CLUSTER", help="only the market of this cluster")
        parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")

    def handle(self, *args: Any, **options: Any) -> None:
        """Print one line a check, then the rows that break it."""
        markets = Market.objects.select_related("cluster").order_by("cluster__name")
        if options["market"] is not None:
            markets = markets.filter(cluster__name=options["market"])
            if not markets:
                raise CommandError(
                    f"--market: expected a cluster with a market, got {options['market']!r}", returncode=2
                )
        failed, document = 0, {}
        audits: list[tuple[str, Callable[[], tuple[Finding, ...]]]] = [
            (market.cluster.name, partial(self._audited, market)) for market in markets
        ]
        if options["market"] is None:
            audits.append((TEAMS, audit_teams))
        for name, audit in audits:
            with read_transaction():  # the market may decide meanwhile
                found = audit()
            failed += sum(not finding.passed for finding in found)
            if options["json"]:
                document[name] = {finding.check: list(finding.rows) for finding in found}
            else:
                self._print(name, found)
        if options["json"]:
            self.stdout.write(json.dumps(document, indent=2))
        if failed:
            raise CommandError(f"{failed} check{pluralize(failed)} failed", returncode=1)

    def _audited(self, market: Market) -> tuple[Finding, ...]:
        """Run the checks with a bar on a terminal; without one, nothing is shown."""
        name = market.cluster.name
        # A page of events takes seconds, so each page is shown.
        with tqdm(
            total=market.version, desc=name, unit=" events", mininterval=0, miniters=1, disable=None, leave=False
        ) as bar:
            return audit_market(market, lambda read, _: bar.update(read - bar.n))

    def _print(self, name: str, found: Iterable[Finding]) -> None:
        for finding in found:
            self.stdout.write(f"{'ok  ' if finding.passed else 'FAIL'} {name}: {finding.check}")
            for row in finding.rows:
                self.stdout.write(f"       {row}")
