"""`manage.py encrypt_again`: encrypt stored secrets with the present key, so that older ones are needed no longer."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.template.defaultfilters import pluralize

from auctions.webhooks.hooks import encrypt_again


class Command(BaseCommand):
    """Encrypt all secrets of webhooks again."""

    help = "Encrypt stored secrets with SHADOWPRICE_SECRET_KEY; earlier keys are not needed for them any longer."

    def handle(self, *args: Any, **options: Any) -> None:
        """Encrypt them, and say how many."""
        read, unreadable = encrypt_again()
        self.stdout.write(f"Secrets of {read} webhook{pluralize(read)} are encrypted with the present key.")
        if unreadable:
            raise CommandError(
                "SHADOWPRICE_SECRET_KEY_FALLBACKS: expected every key under which secrets are encrypted, got none for"
                f" {unreadable} webhook{pluralize(unreadable)}; their owners can replace these secrets."
            )
