"""Background jobs find their Celery tasks by name: each name is a task that exists, has a queue, and is swept."""

from typing import Any

import pytest
from django.conf import settings

from config.celery import app
from studies.background.states import JobTable
from studies.job_tables import COUNTERFACTUALS, PLAN_RUNS, PLANS, RUNS


@pytest.mark.parametrize("table", [PLANS, PLAN_RUNS, COUNTERFACTUALS, RUNS], ids=lambda table: table.plural)
def test_the_task_of_a_table_exists_has_its_queue_and_is_swept(table: JobTable[Any]) -> None:
    app.loader.import_default_modules()
    assert table.task in app.tasks
    assert settings.CELERY_TASK_ROUTES[table.task] == {"queue": table.queue}
    assert table.task in {row["task"] for row in settings.CELERY_BEAT_SCHEDULE.values()}
