"""The demo as a Django app: its command."""

from django.apps import AppConfig


class DemoConfig(AppConfig):
    """No models."""

    name = "demo"
