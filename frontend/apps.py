"""Django's handle on this room."""

from django.apps import AppConfig


class FrontendConfig(AppConfig):
    """The `frontend` room."""

    name = "frontend"
