"""Experiments on PostgreSQL with workers over Redis: one is killed in the middle, and every run is there once."""

import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.faults.installation import read, shell, start_beat, start_planner, until
from tests.processes import Process

pytestmark = [pytest.mark.slow, pytest.mark.services]
ASK = """
from django.contrib.auth.models import User
from studies.experiments.requests import create, rerun
from studies.experiments.request import ExperimentRequest
from studies.models import Trace
body = {
    "workloads": [{"generator": "dps", "setting": {"jobs": 200, "servers": 30}}],
    "policies": [{"name": "dps"}],
    "seeds": [1, 2],
    "bound": False,
}
owner = User.objects.create_user("alice")
rerun(owner, create(owner, ExperimentRequest.from_json(body, Trace.objects.all())))
"""
READ = """
import json
from studies.models import Run
columns = ("experiment", "number", "state", "attempts", "decided", "outcome_sha256", "error")
print(json.dumps(list(Run.objects.order_by("experiment", "number").values(*columns))))
"""

RUNNING = """
from studies.models import Run
print(Run.objects.filter(state="running").count())
"""


def _stop_in_a_run(victim: Process, env: dict[str, str]) -> None:
    """Stop it, and let it go on if its run ended meanwhile: a run takes about as long as a look does."""
    while True:
        until("Run.objects.filter(state='running').exists()", env, seconds=120)
        victim.signal_group(signal.SIGSTOP)
        if read(RUNNING, env):
            return
        victim.signal_group(signal.SIGCONT)


def test_every_run_of_a_killed_worker_is_there_once_with_the_same_bytes(env: dict[str, str], tmp_path: Path) -> None:
    """The second experiment repeats the first, so that each run has a twin that another worker may have computed."""
    with ExitStack() as started:
        started.callback(start_beat(env, tmp_path).end)
        victim = start_planner("victim", env, tmp_path)
        started.callback(victim.end)
        shell(ASK, env)
        _stop_in_a_run(victim, env)
        victim.signal_group(signal.SIGKILL)
        started.callback(start_planner("heir", env, tmp_path).end)
        until("not Run.objects.filter(state__in=('queued', 'running')).exists()", env, seconds=240)
    runs = read(READ, env)
    assert [(run["state"], run["error"]) for run in runs] == [("completed", "")] * 4
    assert sorted(run["attempts"] for run in runs) == [1, 1, 1, 2], "the one that was computed when its worker died"
    first, again = ([run["outcome_sha256"] for run in half] for half in (runs[:2], runs[2:]))
    assert first == again
    assert len(set(first)) == 2


CANCEL_BESIDE_A_DELETION = """
import json
from threading import Thread
from django.contrib.auth.models import User
from django.db import OperationalError, connection, transaction
from studies.experiments.requests import cancel, create
from studies.experiments.request import ExperimentRequest
from studies.models import Experiment, Trace
body = {"workloads": [{"generator": "dps", "setting": {"jobs": 5}}], "policies": [{"name": "fifo"}]}
request = ExperimentRequest.from_json(body, Trace.objects.all())
experiment, waited = create(User.objects.create_user("alice"), request), []

def act():
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '200ms'")
    try:
        cancel(experiment)
    except OperationalError as error:
        waited.append("lock timeout" in str(error))
    connection.close()

with transaction.atomic():  # as a deletion begins
    Experiment.objects.select_for_update().get(pk=experiment.pk)
    thread = Thread(target=act)
    thread.start()
    thread.join()
print(json.dumps([waited, cancel(experiment)]))
"""


def test_who_cancels_waits_for_who_deletes_before_any_run_is_locked(env: dict[str, str]) -> None:
    """Else both lock the same runs, each in its own order, and now and then each waits for the other."""
    assert read(CANCEL_BESIDE_A_DELETION, env) == [[True], 2]
