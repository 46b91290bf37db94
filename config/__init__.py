"""Settings, root URLs and entry points; nothing else."""

from config.celery import app as celery_app

__all__ = ["celery_app"]
