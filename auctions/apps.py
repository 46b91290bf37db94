"""Django's configuration of this app."""

from django.apps import AppConfig


class AuctionsConfig(AppConfig):
    """The `auctions` app."""

    name = "auctions"

    def ready(self) -> None:
        """Register checks and listeners for changes of a cluster that has a market; record changes of webhooks."""
        from auctions.engine import markets  # noqa: PLC0415 (needs the app registry)
        from auctions.models import Webhook  # noqa: PLC0415
        from cluster import changes, guards  # noqa: PLC0415

        shown = ("owner", "name", "url", "cluster", "of_team", "types", "is_on")
        changes.record(Webhook, fields=(*shown, "secret"), hidden=("secret",))
        guards.register(check=markets.inventory_problems, listener=markets.inventory_changed)
        guards.register_history(markets.has_bids)
        guards.register_begun(markets.slot_begun)
