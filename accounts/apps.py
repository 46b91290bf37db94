"""Django's configuration of this app."""

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """The `accounts` app."""

    name = "accounts"

    def ready(self) -> None:
        """Record who makes, replaces and ends tokens, without their digests."""
        from accounts.models import Token  # noqa: PLC0415 (needs the app registry)
        from cluster import changes  # noqa: PLC0415

        changes.record(Token, fields=("user", "name", "scope", "cluster", "expires_at"))
