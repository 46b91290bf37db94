"""Runs of plans on PostgreSQL, where two workers may ask for the next one at the same moment."""

import pytest

from tests.faults.installation import read

pytestmark = [pytest.mark.slow, pytest.mark.services]

TWO_ASK = """
import json
from threading import Thread
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.utils import timezone
from studies.background import states
from studies.job_tables import PLAN_RUNS
from studies.models import PlanRun
from tests.auctions.worlds import make_market
from tests.processes import wait_until
from tests.studies.plans.conftest import submitted

cluster, asked = make_market().cluster, {"slot_s": 0.05, "batches": 1, "submitted_at": timezone.now()}
for name in ("anna", "boris"):
    owner = User.objects.create_user(name)
    PlanRun.objects.create(owner=owner, plan=submitted(owner), cluster=cluster, **asked)
claimed = []

def ask():
    claimed.append(states.claim_next(PLAN_RUNS))
    connection.close()

def waits():
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return cursor.fetchone()[0] > 0

with transaction.atomic():
    claimed.append(states.claim_next(PLAN_RUNS))
    other = Thread(target=ask)
    other.start()
    wait_until(lambda: not other.is_alive() or waits(), what="the second worker")
other.join()
print(json.dumps([attempt is not None for attempt in claimed]))
"""


def test_of_two_workers_that_ask_at_once_one_runs_a_plan(env: dict[str, str]) -> None:
    assert read(TWO_ASK, env) == [True, False]
