"""Django's configuration of this app."""

from django.apps import AppConfig


class AuctionsConfig(AppConfig):
    """The `auctions` app."""

    name = "auctions"

    def ready(self) -> None:
        """Register the checks and listeners for changes of a cluster that has a market."""
        from auctions.engine.markets import has_bids, inventory_changed, inventory_problems  # noqa: PLC0415 (needs the app registry)
        from cluster import guards  # noqa: PLC0415

        guards.register(check=inventory_problems, listener=inventory_changed)
        guards.register_history(has_bids)
