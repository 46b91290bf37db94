"""Beat logs a broker that is out of reach in one line a minute, and other errors with their traceback."""

import io
import logging

import pytest
from celery import Celery
from celery.beat import Scheduler

from config import logs
from tests.processes import free_port


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What the console shows of errors."""
    (console,) = (h for h in logging.getLogger().handlers if type(h) is logging.StreamHandler)
    printed = io.StringIO()
    monkeypatch.setattr(console, "stream", printed)
    monkeypatch.setattr(logs.BeatBriefly, "logged_at", None)
    return printed


def send(broker: str, **options: object) -> None:
    """One task, as beat does."""
    app = Celery("nowhere", broker=broker, set_as_current=False)
    app.conf.update(broker_transport_options={"socket_connect_timeout": 1.0, "max_retries": 1, "interval_start": 0})
    app.conf.task_publish_retry = False
    app.conf.beat_schedule = {"sweep": {"task": "sweep", "schedule": 2.0, "options": options}}
    scheduler = Scheduler(app)
    scheduler.apply_entry(scheduler.schedule["sweep"])


def test_a_broker_that_is_out_of_reach_is_one_line(printed: io.StringIO) -> None:
    send(f"redis://127.0.0.1:{free_port()}/0")
    assert "Couldn't apply scheduled task sweep" in printed.getvalue()
    assert "Connection refused" in printed.getvalue()
    assert printed.getvalue().count("\n") == 1


def test_a_broker_that_stays_out_of_reach_is_one_line_a_minute(
    printed: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        send(f"redis://127.0.0.1:{free_port()}/0")
    assert printed.getvalue().count("\n") == 1
    send("memory://", countdown="soon")
    assert "Traceback" in printed.getvalue(), "another error is logged meanwhile"
    printed.truncate(0)
    monkeypatch.setattr(logs, "EVERY_S", 0.0)
    send(f"redis://127.0.0.1:{free_port()}/0")
    assert "Connection refused" in printed.getvalue()


def test_another_error_of_beat_keeps_its_traceback(printed: io.StringIO) -> None:
    send("memory://", countdown="soon")
    assert "Couldn't apply scheduled task sweep" in printed.getvalue()
    assert "Traceback" in printed.getvalue()
