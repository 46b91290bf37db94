"""`manage.py migrate`: Django's command, during which a lock of the database that is held for long is no news."""

from typing import Any

from django.core.management.commands import migrate

from cluster.database import holding


class Command(migrate.Command):
    """Change the tables: nothing else is served meanwhile, and a migration is one transaction."""

    def handle(self, *args: Any, **options: Any) -> None:
        """Migrate."""
        with holding.expected():
            super().handle(*args, **options)
