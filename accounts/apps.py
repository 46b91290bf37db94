"""Django's configuration of this app."""

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """The `accounts` app."""

    name = "accounts"

    def ready(self) -> None:
        """Record changes of teams, invitations, and who makes, replaces and ends tokens, without their digests."""
        from accounts import models  # noqa: PLC0415 (needs the app registry)
        from cluster import changes  # noqa: PLC0415

        changes.record(models.Token, fields=("user", "name", "scope", "cluster", "expires_at"))
        changes.record(models.Identity, fields=("user", "issuer", "subject"))
        changes.record(models.Team)
        changes.record(models.Membership)
        changes.record(models.Invitation, fields=("team", "role", "email", "expires_at"))
        changes.record(models.ClusterTeams, m2m_fields={"teams"})
