"""Write a cluster's document."""

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from cluster.documents import export_cluster
from cluster.models import Cluster


class Command(BaseCommand):
    """Print one cluster as a JSON document."""

    help = "Print a cluster as one JSON document, which cluster_import reads back."

    def add_arguments(self, parser: CommandParser) -> None:
        """The cluster's name."""
        parser.add_argument("name")

    def handle(self, *args: Any, **options: Any) -> None:
        """Print the document."""
        cluster = Cluster.objects.filter(name=options["name"]).first()
        if cluster is None:
            known = ", ".join(Cluster.objects.values_list("name", flat=True)) or "none"
            raise CommandError(f"there is no cluster {options['name']}; known: {known}")
        self.stdout.write(json.dumps(export_cluster(cluster), indent=1, ensure_ascii=False))
