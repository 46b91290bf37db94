"""`manage.py reproduction_tables`: the tables of the document about reproductions, from the results beside it."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from studies.papers.registry import PAPERS
from studies.papers.results import read_results
from studies.papers.tables import with_tables


class Command(BaseCommand):
    """Write the tables; with --check only compare, with exit status 1 if they differ."""

    help = "Make the tables of docs/measurements/reproduction.md from the results in docs/measurements/reproduction."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the choice to compare only."""
        parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 if the tables differ")

    def handle(self, *args: Any, **options: Any) -> None:
        """Write or compare."""
        path = settings.BASE_DIR / "docs/measurements/reproduction.md"
        text = path.read_text()
        made = with_tables(text, PAPERS.values(), read_results(path.with_suffix("")))
        if options["check"]:
            if made != text:
                raise CommandError(f"{path}: expected the tables of the results, got others; run reproduction_tables")
        else:
            path.write_text(made)
