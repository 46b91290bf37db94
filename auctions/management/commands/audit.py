"""`manage.py audit`: check what must always be true on a live database."""

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from auctions.history.audit import audit_market
from auctions.models import Market


class Command(BaseCommand):
    """Run every check on every market, or on one; exit status 1 with the offending rows if any fails."""

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
        findings = {market.cluster.name: audit_market(market) for market in markets}
        if options["json"]:
            document = {name: {f.check: list(f.rows) for f in found} for name, found in findings.items()}
            self.stdout.write(json.dumps(document, indent=2))
        else:
            for name, found in findings.items():
                for finding in found:
                    self.stdout.write(f"{'ok  ' if finding.passed else 'FAIL'} {name}: {finding.check}")
                    for row in finding.rows:
                        self.stdout.write(f"       {row}")
        failed = sum(not finding.passed for found in findings.values() for finding in found)
        if failed:
            raise CommandError(f"{failed} checks failed", returncode=1)
