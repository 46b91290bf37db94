"""Django's configuration of this app."""

from django.apps import AppConfig


class ExecutionConfig(AppConfig):
    """The `execution` app."""

    name = "execution"

    def ready(self) -> None:
        """Register the check of programs that bids name."""
        from auctions.domain import programs as named  # noqa: PLC0415 (needs the app registry)
        from execution import programs  # noqa: PLC0415

        named.register(programs.problems)
