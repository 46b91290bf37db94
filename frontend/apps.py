"""Django's handle on this room."""

from django.apps import AppConfig

from cluster import memory


class FrontendConfig(AppConfig):
    """The `frontend` room."""

    name = "frontend"

    def ready(self) -> None:
        """The last of the rooms is loaded."""
        memory.end_to_load()
