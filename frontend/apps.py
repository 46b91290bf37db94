"""The Django application `frontend`."""

from django.apps import AppConfig

from cluster import memory


class FrontendConfig(AppConfig):
    """The configuration of the application."""

    name = "frontend"

    def ready(self) -> None:
        """Run once all applications are loaded."""
        memory.end_to_load()
