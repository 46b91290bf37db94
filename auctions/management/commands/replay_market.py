"""`manage.py replay_market`: decide a market's recorded bids again."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.template.defaultfilters import pluralize

from auctions.domain.policy_errors import PolicyFailed
from auctions.history.replay import replay_market
from auctions.models import Market
from scheduling.model.errors import UnknownPolicy


class Command(BaseCommand):
    """Replay a market; exit status 1 if a decision comes out otherwise."""

    help = "Decide a market's recorded bids again and compare the receipts byte for byte."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the market."""
        parser.add_argument("cluster", help="the name of the market's cluster")

    def handle(self, *args: Any, **options: Any) -> None:
        """Print how many decisions were replayed, and those that differ."""
        market = Market.objects.filter(cluster__name=options["cluster"]).first()
        if market is None:
            raise CommandError(f"cluster: expected a cluster with a market, got {options['cluster']!r}", returncode=2)
        try:
            replay = replay_market(market)
        except PolicyFailed as failed:
            raise CommandError(f"the policy fails on what it decided: {failed}", returncode=1) from failed
        except UnknownPolicy as error:
            raise CommandError(f"the record names an {error}", returncode=1) from error
        for mismatch in replay.mismatches:
            self.stdout.write(
                f"bid {mismatch.sequence}\n  recorded {mismatch.recorded}\n  replayed {mismatch.replayed}"
            )
        if replay.mismatches:
            raise CommandError(f"{len(replay.mismatches)} of {replay.decisions} decisions differ", returncode=1)
        self.stdout.write(f"{replay.decisions} decision{pluralize(replay.decisions)} replayed, byte for byte the same")
