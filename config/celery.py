"""The Celery application: over Redis, or in the memory of the worker of `manage.py serve`."""

import os

from celery import Celery
from celery.signals import worker_init

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

app = Celery("shadowprice")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@worker_init.connect
def _go_on_after_a_failed_ack(**_: object) -> None:
    from config.broker import go_on_after_a_failed_ack  # noqa: PLC0415 (only workers need the client of Redis)

    go_on_after_a_failed_ack()
