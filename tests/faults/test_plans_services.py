"""Plans on PostgreSQL with planners over Redis: one is killed in the middle of a plan, and another begins it again."""

import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.faults.installation import read, shell, start_beat, start_planner, until

pytestmark = [pytest.mark.slow, pytest.mark.services]
ASK = """
from django.contrib.auth.models import User
from studies.split_learning.plans.submission import submit_plan
from studies.split_learning.plans.plan_request import PlanRequest
from tests.studies.plans.conftest import large
owner = User.objects.create_user("alice")
plan = submit_plan(owner, PlanRequest.from_json({**large(), "seconds": 6}))
"""
READ = """
import json
from studies.models import Plan
print(json.dumps(list(Plan.objects.values("state", "attempts", "makespan", "lower_bound", "error"))))
"""


def the_plan(env: dict[str, str]) -> Any:
    (plan,) = read(READ, env)
    return plan


def test_a_plan_of_a_killed_planner_is_begun_again_by_another(env: dict[str, str], tmp_path: Path) -> None:
    with ExitStack() as started:
        started.callback(start_beat(env, tmp_path).end)
        victim = start_planner("victim", env, tmp_path)
        started.callback(victim.end)
        shell(ASK, env)
        until("Plan.objects.filter(makespan__isnull=False).exists()", env, seconds=90)
        victim.signal_group(signal.SIGKILL)
        assert the_plan(env)["state"] == "running"
        started.callback(start_planner("heir", env, tmp_path).end)
        until("not Plan.objects.filter(state__in=('queued', 'running')).exists()", env, seconds=180)
    plan = the_plan(env)
    assert (plan["state"], plan["attempts"], plan["error"]) == ("completed", 2, "")
    assert plan["lower_bound"] <= plan["makespan"]
