"""Django's configuration of this app."""

from django.apps import AppConfig


class ExecutionConfig(AppConfig):
    """The `execution` app."""

    name = "execution"

    def ready(self) -> None:
        """Register the check of programs that bids name, and metrics, and record changes of programs."""
        from auctions.domain import programs as named  # noqa: PLC0415 (needs the app registry)
        from cluster import changes  # noqa: PLC0415
        from execution import programs  # noqa: PLC0415
        from execution.execution_metrics import ExecutionMetrics  # noqa: PLC0415
        from execution.models import Execution, Program  # noqa: PLC0415
        from web import metrics  # noqa: PLC0415

        metrics.of_rooms.append(ExecutionMetrics())
        named.register(programs.problems)
        changes.record(Execution)
        # Not its environment, which may hold secrets.
        changes.record(Program, fields=("name", "owner", "arguments", "working_directory", "archive_sha256", "is_open"))
