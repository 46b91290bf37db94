"""Read a cluster's document."""

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from cluster.documents import import_cluster
from cluster.guards import ChangeRefused
from scheduling.errors import InvalidField


class Command(BaseCommand):
    """Create or change a cluster from a JSON document."""

    help = "Create the cluster a JSON document describes, or make the cluster of that name so."

    def add_arguments(self, parser: CommandParser) -> None:
        """The document's file."""
        parser.add_argument("file", type=Path)

    def handle(self, *args: Any, **options: Any) -> None:
        """Import it, or say in one line what is wrong."""
        try:
            document = json.loads(options["file"].read_text(encoding="utf-8"))
        except OSError as error:
            raise CommandError(f"{options['file']}: {error.strerror}") from error
        except ValueError as error:
            raise CommandError(f"{options['file']}: not a JSON document ({error})") from error
        try:
            cluster = import_cluster(document)
        except (InvalidField, ChangeRefused) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{cluster.name}: {cluster.servers.count()} servers")
