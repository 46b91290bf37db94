"""Django's configuration of this app."""

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """The `accounts` app."""

    name = "accounts"

    def ready(self) -> None:
        """Record changes of teams, and who makes, replaces and ends tokens, without their digests."""
        from accounts.models import ClusterTeams, Identity, Membership, Team, Token  # noqa: PLC0415 (needs the app registry)
        from cluster import changes  # noqa: PLC0415

        changes.record(Token, fields=("user", "name", "scope", "cluster", "expires_at"))
        changes.record(Identity, fields=("user", "issuer", "subject"))
        changes.record(Team)
        changes.record(Membership)
        changes.record(ClusterTeams, m2m_fields={"teams"})
