"""`manage.py cluster_import FILE`: create a cluster from its document, or change the one of that name."""

import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.template.defaultfilters import pluralize

from cluster.documents import import_cluster, read_document
from cluster.guards import ChangeRefused
from scheduling.model.errors import InvalidField, in_words


class Command(BaseCommand):
    """Store a cluster's document."""

    help = "Create or change a cluster from a JSON document such as cluster_export prints; all or nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the path of the document."""
        parser.add_argument("file", help="path of the document, or - for standard input")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Store it; what is wrong is an error of one line."""
        try:
            content = sys.stdin.buffer.read() if options["file"] == "-" else Path(options["file"]).read_bytes()
        except OSError as error:
            raise CommandError(f"file: expected a readable file, got {options['file']}: {error.strerror}") from None
        try:
            cluster = import_cluster(read_document(content))
        except (InvalidField, ChangeRefused) as error:
            raise CommandError(in_words(error)) from None
        count = cluster.servers.count()
        self.stdout.write(f"Stored {cluster.name}: {count} server{pluralize(count)}.")
