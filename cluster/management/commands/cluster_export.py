"""`manage.py cluster_export NAME`: the cluster as one JSON document on standard output."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from cluster.documents import document_text
from cluster.models import Cluster


class Command(BaseCommand):
    """Print a cluster's document."""

    help = "Print a cluster as one JSON document, which cluster_import reads."

    def add_arguments(self, parser: CommandParser) -> None:
        """The cluster's name."""
        parser.add_argument("name")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Print it; an unknown name is an error of one line."""
        cluster = Cluster.objects.filter(name=options["name"]).first()
        if cluster is None:
            known = ", ".join(Cluster.objects.values_list("name", flat=True)) or "none"
            raise CommandError(f"name: expected a cluster ({known}), got {options['name']!r}")
        self.stdout.write(document_text(cluster), ending="")
