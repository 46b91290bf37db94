"""The Celery application: over Redis, or in the memory of the worker of `manage.py serve`."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

app = Celery("shadowprice")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
