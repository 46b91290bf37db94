"""The processes of `manage.py serve`: their starts, their ends, and the wake-ups between them."""

import signal
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
import uvicorn
from django.test import RequestFactory

from auctions.domain import waking
from auctions.management.commands.serve import Server
from auctions.models import Market
from auctions.runtime import health
from auctions.runtime.supervisor import SILENT_S, Link
from tests.forks import libraries
from tests.processes import python_env
from web import shutdown

pytestmark = pytest.mark.thorough

RUN = """
import os, signal, sys, time
from auctions.runtime import supervisor
supervisor.PAUSE_S = 0.0

def serve(link):
    {serve}

def work(link):
    {work}

supervisor.run(serve, work)
print("the end", flush=True)
"""


@pytest.fixture
def link() -> Iterator[Link]:
    made = Link.make()
    yield made
    for end in (made.web, made.worker, made.opened, made.opening):
        end.close()


def run(tmp_path: Path, *, serve: str, work: str) -> tuple[int, list[str]]:
    """The exit status, and what was printed, when these functions are run."""
    done = libraries().complete(
        ["python", "-c", RUN.format(serve=serve, work=work)], env=python_env(tmp_path), seconds=30
    )
    return done.returncode, [*done.stdout.splitlines(), *done.stderr.splitlines()]


def test_the_worker_begins_when_the_link_is_opened_and_hears_of_work_and_of_the_end(tmp_path: Path) -> None:
    serve = """
    time.sleep(0.2)
    print("open", flush=True)
    link.open()
    opened = link.pulse.value
    link.wake("decide", (7,), {"queue": "a"})
    while link.pulse.value == opened:  # else the web process might end before the worker begins
        time.sleep(0.01)
"""
    work = "link.beat(); print('begun', link.read(), link.read(), flush=True)"
    assert run(tmp_path, serve=serve, work=work) == (
        0,
        ["open", "begun ('decide', [7], {'queue': 'a'}) None", "the end"],
    )


def test_without_an_open_link_there_is_no_worker(tmp_path: Path) -> None:
    assert run(tmp_path, serve="print('served', flush=True)", work="print('begun')") == (0, ["served", "the end"])


def test_a_link_is_open_once_the_web_process_says_so_and_not_when_that_process_has_only_ended(link: Link) -> None:
    assert not link.is_open()
    link.open()
    assert link.is_open()
    link.opening.close()
    assert not link.is_open()


def test_a_worker_that_dies_is_followed_by_another_which_gets_what_the_first_one_did_not_read(
    tmp_path: Path,
) -> None:
    serve = "link.open(); [link.wake('decide', (i,), {}) for i in range(3)]; time.sleep(1.0)"
    work = "print(link.read()[1], flush=True); os.kill(os.getpid(), signal.SIGKILL) if link.read()[1] == [1] else None"
    status, lines = run(tmp_path, serve=serve, work=work)
    assert (status, [line for line in lines if line.startswith("[")]) == (0, ["[0]", "[2]"])
    assert any("the worker ended with status -9; another one is started" in line for line in lines)


@pytest.mark.parametrize(
    ("serve", "expected"),
    [("sys.exit(3)", 3), ("os.kill(os.getpid(), signal.SIGKILL)", 1), ("sys.exit('in words')", 1)],
)
def test_the_command_ends_as_the_web_process_does(tmp_path: Path, serve: str, expected: int) -> None:
    status, lines = run(tmp_path, serve=f"link.open(); {serve}", work="link.read()")
    assert status == expected
    assert ("in words" in lines) == ("words" in serve)


@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT"])
def test_a_signal_ends_both_and_the_worker_after_the_web_process(tmp_path: Path, number: str) -> None:
    serve = (
        f"signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); link.open(); time.sleep(0.2);"
        f" os.kill(os.getppid(), signal.{number}); time.sleep(20)"
    )
    work = "print(link.read(), flush=True)"
    assert run(tmp_path, serve=serve, work=work) == (0, ["None", "the end"])


def test_wake_ups_that_a_busy_worker_does_not_read_are_dropped(link: Link) -> None:
    for i in range(100_000):
        link.wake("decide", (i,), {})
    assert link.read() == ("decide", [0], {})
    link.web.close()
    read = 1
    while link.read() is not None:
        read += 1
    assert 10 < read < 100_000


def test_a_web_process_gives_wake_ups_to_its_own_worker(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waking, "carry", link.wake)
    waking.publish("studies.tasks.compute_plans", queue="plans")
    assert link.read() == ("studies.tasks.compute_plans", [], {"queue": "plans"})


def test_the_health_check_says_that_the_worker_is_silent(
    market: Market, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "worker_is_silent", link.is_silent)
    request = RequestFactory().get("/healthz")
    assert health.healthz(request).status_code == 200
    link.pulse.value -= SILENT_S + 1
    silent = health.healthz(request)
    assert (silent.status_code, silent.content) == (503, b'{"status": "the worker gives no sign of life"}')
    link.beat()
    assert health.healthz(request).status_code == 200


def test_a_second_signal_does_not_wait_for_what_the_first_one_holds() -> None:
    server = Server(uvicorn.Config("config.asgi:application"))
    with shutdown.begun._cond:  # type: ignore[attr-defined]  # as the thread that is interrupted may hold it
        handler = Thread(target=server.handle_exit, args=(signal.SIGTERM, None), daemon=True)
        handler.start()
        handler.join(10)
        assert not handler.is_alive()
    assert server.should_exit


def test_ctrl_c_reaches_the_web_process_once(tmp_path: Path) -> None:
    serve = (
        "import django; django.setup(); import uvicorn;"
        "from auctions.management.commands.serve import Server;"
        "\n    server = Server(uvicorn.Config('config.asgi:application'))"
        "\n    with server.capture_signals():"
        "\n        os.kill(os.getpid(), signal.SIGINT); assert not server.should_exit"
        "\n        os.kill(os.getpid(), signal.SIGTERM); assert server.should_exit"
    )
    assert run(tmp_path, serve=serve, work="link.read()") == (0, ["the end"])
