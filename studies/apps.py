"""Django's handle on this room."""

from django.apps import AppConfig


class StudiesConfig(AppConfig):
    """The `studies` room."""

    name = "studies"
