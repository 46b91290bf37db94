"""`manage.py smoke`: submit a bid, and wait for its decision."""

from argparse import ArgumentTypeError
from typing import Any
from urllib.parse import urlsplit

from django.core.management.base import BaseCommand, CommandError, CommandParser

from demo import smoke
from demo.client import Refused, Unreachable


class Command(BaseCommand):
    """Exit with status 0 if the installation decides a bid, and 1 if it does not."""

    help = "Submit a bid to the market `smoke`, which is made if it is not there, and wait for its decision."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the address of the server."""
        parser.add_argument("--url", type=_address, default="http://127.0.0.1:8000", help="address of a web process")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the smoke test."""
        try:
            bid = smoke.run(options["url"].rstrip("/"))
        except (Refused, Unreachable, smoke.NotDecided) as error:
            raise CommandError(f"{options['url']}: {error}") from None
        self.stdout.write(f"Bid {bid['sequence']} was decided: {bid['state']}.")


def _address(text: str) -> str:
    try:
        parts = urlsplit(text)
        is_right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, or one bracket without the other
        is_right = False
    if not is_right:
        raise ArgumentTypeError(f"expected an address such as http://127.0.0.1:8000, got {text!r}")
    return text
