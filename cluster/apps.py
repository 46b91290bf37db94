"""Django's handle on this room."""

from django.apps import AppConfig


class ClusterConfig(AppConfig):
    """The `cluster` room."""

    name = "cluster"
