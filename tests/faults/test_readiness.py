"""Readiness and metrics of a larger installation, while its parts hang, die and return."""

import signal
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import psycopg2
import pytest
import redis
import requests

from tests.faults.installation import read, shell, start_beat, start_web, start_worker_of_everything
from tests.processes import Server, free_port, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.services]
SCRAPE: Final = {"SHADOWPRICE_METRICS_ADDRESSES": "127.0.0.1"}
SILENT: Final = """
from datetime import timedelta
from auctions.models import WorkerSign
from cluster import clock
WorkerSign.objects.filter(name="worker@test").update(at=clock.now() - timedelta(seconds=60))
"""


def test_readiness_names_a_hung_broker_and_a_dead_worker_and_forgets_them_when_they_are_back(
    env: dict[str, str], tmp_path: Path, redis_server: Server
) -> None:
    env |= SCRAPE
    port = free_port()
    address = f"http://127.0.0.1:{port}"

    def problems() -> dict[str, Any]:
        answer = requests.get(f"{address}/readyz", timeout=10).json()
        return {name: text for name, text in answer["checks"].items() if text != "ok"}

    web, beat = start_web(port, env, tmp_path / "web.log"), start_beat(env, tmp_path)
    worker = start_worker_of_everything("worker", env, tmp_path)
    try:
        wait_until(lambda: not problems(), what="a service that is ready", every=0.2)
        with redis_server.hung():
            wait_until(lambda: "broker" in problems(), what="the broker", every=0.2)
            assert problems()["broker"] == "the broker does not answer"
            assert requests.get(f"{address}/healthz", timeout=10).status_code == 200
            assert "shadowprice_broker_up 0.0" in requests.get(f"{address}/metrics", timeout=10).text
        wait_until(lambda: not problems(), what="the broker's return", every=0.2)
        worker.signal_group(signal.SIGKILL)
        worker.popen.wait(10)
        shell(SILENT, env)  # the time that its last sign needs to grow old
        wait_until(lambda: "workers" in problems(), what="the worker", every=0.2)
        assert problems()["workers"].startswith("no worker takes tasks of: bounds, celery")
        worker.end()
        worker = start_worker_of_everything("worker", env, tmp_path)
        wait_until(lambda: not problems(), what="the worker's return", every=0.2)
        metrics = requests.get(f"{address}/metrics", timeout=10).text
        assert 'shadowprice_sign_age_seconds{worker="worker@test"}' in metrics
        assert 'shadowprice_broker_tasks{queue="celery"}' in metrics
        worker.end()  # asked to end, it is missed at once, and its row is gone
        wait_until(lambda: "workers" in problems(), what="the end of the worker", every=0.2)
    finally:
        for process in (worker, beat, web):
            process.end()


CHECKS: Final = """
import json
from auctions.runtime import health
print(json.dumps(health.checks()))
"""


def test_a_database_that_can_write_no_more_is_named_though_it_is_on_another_host(env: dict[str, str]) -> None:
    assert read(CHECKS, env)["database"] == ""
    name = env["DATABASE_URL"].rpartition("/")[2]
    with closing(psycopg2.connect(env["DATABASE_URL"])) as connection:
        connection.autocommit = True
        # As a disk that has no more space.
        connection.cursor().execute(f"ALTER DATABASE {name} SET temp_file_limit = '64kB'")
    found = read(CHECKS, env)
    assert found["database"] == "the database cannot write: its disk is full, or temp_file_limit below 1 MB"
    assert found["disk"] == ""


ISSUING: Final = """
import json
from django.contrib.auth.models import User
from accounts.tokens import NewToken, issue
print(json.dumps(issue(User.objects.create(username="alice"), NewToken("reads")).text))
"""

READING: Final = """
import json, os
from django.test import Client
headers = {"Authorization": f"Token {os.environ['ISSUED']}"}
print(json.dumps(Client(headers=headers).get("/api/v1/clusters", HTTP_HOST="127.0.0.1").status_code))
"""


def test_a_database_that_may_only_be_read_is_named_and_is_read(env: dict[str, str]) -> None:
    env = env | {"ISSUED": read(ISSUING, env)}
    name = env["DATABASE_URL"].rpartition("/")[2]
    with closing(psycopg2.connect(env["DATABASE_URL"])) as connection:
        connection.autocommit = True
        # As a server that follows another.
        connection.cursor().execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    assert read(CHECKS, env)["database"] == "the database is read-only"
    assert read(READING, env) == 200  # though the use of the token cannot be noted


def test_a_broker_that_answers_and_stores_nothing_is_named(env: dict[str, str], redis_server: Server) -> None:
    with closing(redis.Redis.from_url(redis_server.url)) as broker:
        broker.config_set("maxmemory", "1")
        try:
            found = read(CHECKS, env)["broker"]
        finally:
            broker.config_set("maxmemory", "0")
    assert found == "the broker stores nothing: it is full, read-only or cannot write to its disk"
    assert read(CHECKS, env)["broker"] == ""


def test_the_disk_of_a_database_on_this_host_is_looked_at(env: dict[str, str]) -> None:
    found = read(CHECKS, env | {"SHADOWPRICE_LEAST_FREE_MB": "999999999"})
    assert found["database"] == ""
    assert found["disk"].startswith("less than 1e+09 MB left on the disk of: data, ")
    assert found["disk"].endswith(", database")
