"""Django's handle on this room."""

from django.apps import AppConfig


class AuctionsConfig(AppConfig):
    """The `auctions` room."""

    name = "auctions"
