"""Health checks name each cause for which bids are not taken or not decided, and only then."""

import logging
import os
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import User
from django.db import OperationalError, connection
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client, RequestFactory

from auctions import tasks
from auctions.engine import decision_queue, slots
from auctions.models import Event, EventKind, Market, WorkerSign
from auctions.runtime import disks, health, signs
from cluster import clock
from tests.auctions.worlds import submit
from web import logs

FINE = {"database", "disk", "workers", "beat", "decisions", "slots", "clock"}


@pytest.fixture(autouse=True)
def _nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "KEPT_S", -1.0)
    monkeypatch.setattr(health, "MIGRATED_S", -1.0)


@pytest.fixture
def alive(market: Market, settings: LazySettings) -> Market:
    """A service in which everything works."""
    signs.give("embedded@localhost", settings.QUEUES)
    tasks.sweep()
    return market


def problems() -> dict[str, str]:
    """The checks of /readyz that find a problem."""
    answer = Client().get("/readyz")
    found = {name: text for name, text in answer.json()["checks"].items() if text != "ok"}
    assert answer.status_code == (503 if found else 200)
    assert answer.json()["status"] == ("not ready" if found else "ok")
    return found


def older(seconds: float, **which: str) -> None:
    WorkerSign.objects.filter(**which).update(at=clock.now() - timedelta(seconds=seconds))


def test_a_service_in_which_everything_works_is_ready(alive: Market) -> None:
    assert problems() == {}
    assert set(Client().get("/readyz").json()["checks"]) == FINE


def test_a_change_of_what_is_wrong_is_logged_once_with_its_cause(
    alive: Market, settings: LazySettings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(health, "_said", frozenset())
    older(60, name="embedded@localhost")
    for _ in range(3):
        problems()
    signs.give("embedded@localhost", settings.QUEUES)
    for _ in range(2):
        problems()
    first, second = (line.getMessage() for line in caplog.records if line.name == "shadowprice.health")
    assert first.startswith("Not ready: workers: ")
    assert second == "Ready."


def test_the_console_has_no_line_for_each_probe() -> None:
    asked = RequestFactory().get("/readyz")
    refused = logging.LogRecord("django.request", logging.WARNING, "", 0, "Service Unavailable: /readyz", (), None)
    refused.request = asked
    assert not logs.NotReadyBriefly().filter(refused)
    refused.request = RequestFactory().get("/healthz")
    assert logs.NotReadyBriefly().filter(refused)
    failed = logging.LogRecord("django.request", logging.ERROR, "", 0, "Error: /readyz", (), (None, None, None))
    failed.request = asked
    assert logs.NotReadyBriefly().filter(failed)


def test_a_process_is_alive_without_a_database(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(connection, "cursor", _busy)
        assert Client().get("/livez").json() == {"status": "ok"}


def test_a_busy_database_is_named_and_hides_nothing_else(alive: Market, monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = dict.fromkeys(("workers", "beat", "decisions", "slots", "clock"), "not known without the database")
    with monkeypatch.context() as patch:
        patch.setattr(connection, "cursor", _busy)
        assert Client().get("/healthz").status_code == 503
        assert problems() == {"database": "the database is away or busy"} | unknown


def test_a_process_is_not_ready_before_its_migrations_are_applied(alive: Market) -> None:
    recorder = MigrationRecorder(connection)
    recorder.record_unapplied("auctions", "0007_budgets_of_teams")  # an earlier one is not asked for
    assert Client().get("/healthz").status_code == 200
    (last,) = (name for app, name in health._latest_migrations() if app == "auctions")
    recorder.record_unapplied("auctions", last)
    answer = Client().get("/healthz")
    assert (answer.status_code, answer.json()["status"]) == (503, f"migrations are not applied: auctions.{last}")
    assert problems() == {"database": f"migrations are not applied: auctions.{last}"}
    assert Client().get("/livez").status_code == 200
    recorder.record_applied("auctions", last)
    recorder.record_applied("auctions", "9999_of_a_newer_version")
    assert Client().get("/healthz").status_code == 200


def test_a_process_without_any_table_is_not_ready(db: None) -> None:
    MigrationRecorder.Migration.objects.all().delete()
    assert Client().get("/healthz").json()["status"].startswith("migrations are not applied: accounts.")


def test_workers_that_are_gone_are_named_by_their_queues(alive: Market) -> None:
    older(signs.LOST_S + 1, name="embedded@localhost")
    assert problems() == {"workers": "no worker takes tasks of: bounds, celery, plans, runs, webhooks"}
    signs.give("worker-1@shadowprice", ["celery"])
    assert problems() == {"workers": "no worker takes tasks of: bounds, plans, runs, webhooks"}
    assert Client().get("/healthz").status_code == 200  # this process can serve all the same


def test_a_worker_that_ends_by_itself_is_not_missed(alive: Market, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[str] = []
    monkeypatch.setattr(signs, "give", lambda name, queues: given.append(name))
    monkeypatch.setattr(signs, "forget", lambda: None)
    WorkerSign.objects.create(name="worker-2@shadowprice", queues="celery", at=clock.now())
    worker = signs.Signs("worker-2@shadowprice", ["celery"])
    monkeypatch.setattr(connection, "close", lambda: None)
    worker.close()
    assert given == ["worker-2@shadowprice"]
    assert not WorkerSign.objects.filter(name="worker-2@shadowprice").exists()


def test_beat_that_is_gone_is_named(alive: Market) -> None:
    older(health.BEAT_LOST_S + 1, name=signs.BEAT)
    assert problems() == {"beat": "no task from beat has run for 60 s: beat or its workers are gone"}
    tasks.sweep()
    assert problems() == {}


def test_a_beat_that_has_just_started_is_not_said_to_be_gone(alive: Market) -> None:
    WorkerSign.objects.filter(name=signs.BEAT).delete()
    assert problems() == {"beat": "no task from beat has run yet"}


def test_beat_is_alive_although_workers_stay_with_their_markets_and_run_no_sweep(alive: Market) -> None:
    for task in (tasks.certify, tasks.deliver_webhooks):
        older(health.BEAT_LOST_S + 1, name=signs.BEAT)
        task()
        assert problems() == {}


def test_a_decision_queue_that_is_stuck_is_named_until_its_bids_are_decided(alive: Market, alice: User) -> None:
    bid = submit(alive, alice)
    assert problems() == {}
    alive.bids.filter(pk=bid.pk).update(submitted_at=bid.submitted_at - timedelta(seconds=health.STUCK_S + 1))
    assert problems() == {"decisions": "1 decision queue is stuck: a bid has waited for more than 60 s"}
    decision_queue.process_pending(alive.pk)
    assert problems() == {}


def test_a_decision_queue_that_is_worked_off_is_behind_until_nothing_was_decided_for_a_while(
    alive: Market, alice: User
) -> None:
    submit(alive, alice)
    decision_queue.process_pending(alive.pk)
    bid = submit(alive, alice)
    alive.bids.filter(pk=bid.pk).update(submitted_at=bid.submitted_at - timedelta(seconds=health.STUCK_S + 1))
    assert problems() == {"decisions": "1 decision queue is behind: a bid has waited for more than 60 s"}
    long_ago = clock.now() - timedelta(seconds=health.BEHIND_S + 1)
    Event.objects.exclude(kind=EventKind.SUBMITTED).update(at=long_ago)
    assert problems() == {"decisions": "1 decision queue is stuck: a bid has waited for more than 60 s"}
    decision_queue.process_pending(alive.pk)
    assert problems() == {}


@pytest.mark.parametrize(("speed", "ahead_s"), [(1.0, 61.0), (3600.0, 61.0 * 3600)])
def test_a_market_whose_slots_do_not_pass_is_named_though_no_bid_waits(
    alive: Market, monkeypatch: pytest.MonkeyPatch, speed: float, ahead_s: float
) -> None:
    cluster = alive.cluster
    clock.set_clock(cluster, running=False, speed=speed)
    begins_s = (Market.objects.get().slot + 1) * cluster.slot_seconds

    def at(seconds: float) -> None:
        cluster.refresh_from_db()
        clock.set_clock(cluster, at_s=seconds)

    with monkeypatch.context() as patch:
        patch.setattr(slots, "pass_slots", _fails)
        patch.setattr(decision_queue, "decide_batch", lambda _: 0)
        for late_s in (-1.0, 0.0, ahead_s - 2 * speed):
            at(begins_s + late_s)
            tasks.sweep()
            assert problems() == {}
        at(begins_s + ahead_s)
        tasks.sweep()
        assert problems() == {"slots": "1 market is stuck: a slot began more than 60 s ago and was not processed"}
    tasks.sweep()
    assert problems() == {}


@pytest.fixture
def directories(settings: LazySettings, tmp_path: Path) -> dict[str, Path]:
    """The directories whose disks are looked at, each of its own."""
    found = {name: tmp_path / name for name in ("data", "execution", "archives", "metrics")}
    for directory in found.values():
        directory.mkdir()
    settings.VAR_DIR, settings.EXECUTION_DIR = found["data"], found["execution"]
    settings.ARCHIVE_DIR, settings.METRICS_DIR = found["archives"], found["metrics"]
    return found


def test_disks_that_have_less_space_than_the_settings_say_are_named(
    alive: Market, settings: LazySettings, directories: dict[str, Path]
) -> None:
    settings.LEAST_FREE_MB = shutil.disk_usage(directories["data"]).free / 2e6
    assert problems() == {}
    settings.LEAST_FREE_MB = 1e12
    start = "less than 1e+12 MB left on the disk of: "
    assert problems() == {"disk": f"{start}data, execution, archives, metrics"}
    settings.ARCHIVE_DIR = settings.METRICS_DIR = None
    directories["execution"].rmdir()
    assert problems() == {"disk": f"{start}data"}


def test_a_database_that_may_only_be_read_is_named(
    alive: Market, directories: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "shadowprice.sqlite3"
    file.touch()
    monkeypatch.setitem(connection.settings_dict, "NAME", str(file))
    assert problems() == {}
    # Its mode would say nothing to root, who may write to every file that is not on a read-only disk.
    monkeypatch.setattr(os, "access", lambda path, mode: not (path == file and mode == os.W_OK))
    assert problems() == {"database": "the database is read-only"}


@pytest.mark.parametrize("name", ["data", "execution", "archives", "metrics", "database"])
def test_each_full_disk_is_named_by_itself(
    name: str, alive: Market, directories: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directories["database"] = tmp_path
    (tmp_path / "shadowprice.sqlite3").touch()
    monkeypatch.setitem(connection.settings_dict, "NAME", str(tmp_path / "shadowprice.sqlite3"))
    usage = shutil.disk_usage

    def usage_of(directory: Path) -> Any:
        found = usage(directory)
        return found._replace(free=0) if directory == directories[name] else found

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", usage_of)
        assert problems() == {"disk": f"less than 200 MB left on the disk of: {name}"}
    assert problems() == {}


def test_a_full_disk_of_a_worker_on_another_host_is_named_until_it_has_space_again(
    alive: Market, settings: LazySettings, directories: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as of_worker:
        of_worker.setattr(disks, "full", lambda: ["archives"])
        signs.name_full_disks()
    assert problems() == {"disk": "less than 200 MB left on the disk of: archives of a worker"}
    settings.METRICS_TOKEN = "of the scrape"
    metrics = Client().get("/metrics", headers={"Authorization": "Bearer of the scrape"}).text
    assert 'shadowprice_sign_age_seconds{worker="embedded@localhost"}' in metrics
    assert "full disk" not in metrics
    older(signs.LOST_S + 1, name="full disk: archives")
    assert problems() == {}


def test_rows_of_workers_that_were_lost_long_ago_are_deleted(alive: Market) -> None:
    for name in ("worker-7d9f@shadowprice", "worker-8e0a@shadowprice"):
        signs.give(name, ["celery"])
    older(signs.FORGET_S + 1, name="worker-7d9f@shadowprice")
    signs.forget()
    left = WorkerSign.objects.filter(name__startswith="worker").values_list("name", flat=True)
    assert list(left) == ["worker-8e0a@shadowprice"]


@pytest.mark.parametrize("stored", ["sign", "event"])
def test_a_clock_that_was_set_back_is_named(alive: Market, stored: str) -> None:
    later = clock.now() + timedelta(seconds=100)
    if stored == "sign":
        WorkerSign.objects.filter(name="embedded@localhost").update(at=later)
    else:
        Event.objects.filter(market=alive).update(at=later)
    found = problems()
    assert set(found) == {"clock"}
    assert found["clock"].startswith("the clock of this host is ")
    assert found["clock"].endswith(" s behind what is stored")


def test_a_broker_that_is_away_is_named(alive: Market, settings: LazySettings) -> None:
    settings.EMBEDDED, settings.REDIS_URL = False, "redis://127.0.0.1:1/0"
    assert problems() == {"broker": "the broker does not answer"}


def test_results_are_kept_for_a_moment_whoever_asks(alive: Market, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "KEPT_S", 3600.0)
    monkeypatch.setattr(health, "_kept", None)
    assert problems() == {}
    WorkerSign.objects.all().delete()
    assert problems() == {}
    monkeypatch.setattr(health, "_kept", None)
    assert set(problems()) == {"workers", "beat"}


def test_no_answer_names_a_market_or_a_bidder(alive: Market, alice: User) -> None:
    bid = submit(alive, alice)
    alive.bids.filter(pk=bid.pk).update(submitted_at=bid.submitted_at - timedelta(seconds=1000))
    text = Client().get("/readyz").content.decode()
    assert "alice" not in text
    assert alive.cluster.name not in text


def _fails(_market_id: int) -> bool:
    raise ZeroDivisionError


def _busy(*_: Any, **__: Any) -> Any:
    raise OperationalError("database is locked") from OSError("no answer")
