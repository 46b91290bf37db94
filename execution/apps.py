"""Django's configuration of this app."""

from django.apps import AppConfig


class ExecutionConfig(AppConfig):
    """The `execution` app."""

    name = "execution"
