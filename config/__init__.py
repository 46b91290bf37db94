"""Settings, root URLs and entry points; nothing else."""

from cluster import memory

memory.begin_to_load()  # until frontend.apps

from config.celery import app as celery_app  # noqa: E402

__all__ = ["celery_app"]
