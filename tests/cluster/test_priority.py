"""Processes that let others go first."""

import os
import subprocess
import sys

import pytest

from cluster import priority
from cluster.priority import AUTOGROUP, NICENESS, NICENESS_OF_DECISIONS
from tests.forks import project
from tests.processes import ROOT, python_env

SHOW = """
import os
from cluster.priority import AUTOGROUP, give_way
give_way()
scheduler = os.sched_getscheduler(0) if hasattr(os, "sched_getscheduler") else ""
print(os.getpriority(os.PRIO_PROCESS, 0), scheduler, AUTOGROUP.read_text().split()[-1] if AUTOGROUP.exists() else "")
"""


@pytest.mark.parametrize("leads", [True, False])
def test_a_process_lets_others_go_first_and_its_session_too_if_that_is_its_own(leads: bool) -> None:
    command = [sys.executable, "-c", SHOW if leads else f"import os; os.fork() and (os.wait(), os._exit(0)){SHOW}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, start_new_session=True)
    niceness, *more = done.stdout.split()
    assert int(niceness) == max(NICENESS, os.getpriority(os.PRIO_PROCESS, 0))
    if AUTOGROUP.exists():
        scheduler, session = map(int, more)
        assert scheduler == os.SCHED_IDLE
        assert session == (NICENESS if leads else 0)


def test_a_process_that_lets_others_go_first_already_stays_as_it_is() -> None:
    least = max(15, os.getpriority(os.PRIO_PROCESS, 0))
    become = f"import os; os.setpriority(os.PRIO_PROCESS, 0, {least}); os.geteuid() or os.setuid(65534)"
    command = [sys.executable, "-c", f"import cluster.priority\n{become}{SHOW}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, start_new_session=True)
    assert int(done.stdout.split()[0]) == least


@pytest.mark.skipif(not AUTOGROUP.exists(), reason="sessions have no niceness here")
@pytest.mark.parametrize(("before", "after"), [(0, NICENESS_OF_DECISIONS), (19, 19)])
def test_a_session_that_lets_others_go_first_already_stays_as_it_is(before: int, after: int) -> None:
    code = f"""
from cluster.priority import AUTOGROUP, _be_nice_as_session, let_answers_pass
_be_nice_as_session({before})
let_answers_pass()
print(AUTOGROUP.read_text().split()[-1])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, start_new_session=True
    )
    assert int(done.stdout) == after


class Busy:
    """The niceness of a session, which the system refuses to change a few times."""

    def __init__(self, *, refusals: float, text: str = "/autogroup-1 nice 0") -> None:
        self.refusals, self.text = refusals, text

    def read_text(self) -> str:
        return self.text

    def write_text(self, text: str) -> None:
        self.refusals -= 1
        if self.refusals >= 0:
            raise BlockingIOError
        self.text = text


def test_a_session_that_begins_while_others_do_gets_its_niceness_a_little_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for busy in (Busy(refusals=2), Busy(refusals=1, text="")):
        monkeypatch.setattr(priority, "AUTOGROUP", busy)
        priority._be_nice_as_session(5)
        assert busy.text == "5"
    monkeypatch.setattr(priority, "AUTOGROUP", Busy(refusals=float("inf")))
    monkeypatch.setattr(priority, "LONGEST_S", 0.0)
    with pytest.raises(BlockingIOError):
        priority._be_nice_as_session(5)


WORKER = """
import os, sys
from config.celery import app
app.Worker(queues=sys.argv[1] or None, concurrency=1, hostname="test@localhost")
print(os.getpriority(os.PRIO_PROCESS, 0))
"""


@pytest.fixture(scope="module")
def worker_env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a worker; nobody answers at its broker's address, and nobody is asked."""
    directory = tmp_path_factory.mktemp("worker")
    return python_env(directory, REDIS_URL="redis://127.0.0.1:1/0", SHADOWPRICE_SECRET_KEY="only for this test")


@pytest.mark.parametrize(
    ("queues", "niceness"),
    [("", NICENESS_OF_DECISIONS), ("celery,bounds", NICENESS_OF_DECISIONS), ("plans", 0), ("bounds", NICENESS)],
)
def test_workers_of_decisions_let_answers_pass_and_those_of_certificates_all_others(
    worker_env: dict[str, str], queues: str, niceness: int
) -> None:
    shown = project(worker_env).run([sys.executable, "-c", WORKER, queues], env=worker_env, seconds=120)
    assert int(shown) == max(niceness, os.getpriority(os.PRIO_PROCESS, 0))
