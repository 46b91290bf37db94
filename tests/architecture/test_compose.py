"""The compose file, read as data; tests/faults runs its commands."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from auctions import tasks
from auctions.tasks import DECISIONS
from tests.processes import ROOT

FILE = ROOT / "docker-compose.yml"
COMPOSE = yaml.safe_load(FILE.read_text())
SERVICES = COMPOSE["services"]
ONE_SHOT = {"migrate"}
PROCESSES = ("web", "worker-1", "worker-2", "bounds", "planner", "webhooks", "beat")


def test_it_has_web_workers_beat_and_both_servers() -> None:
    assert set(SERVICES) == {*PROCESSES, "migrate", "postgres", "redis"}


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_every_lasting_service_restarts_and_has_a_health_check(name: str) -> None:
    service = SERVICES[name]
    if name in ONE_SHOT:
        assert service["restart"] == "on-failure"
        return
    assert service["restart"] == "unless-stopped"
    check = service["healthcheck"]
    assert check["test"][0] in ("CMD", "CMD-SHELL")
    assert {"interval", "timeout", "retries"} <= set(check)


@pytest.mark.parametrize("name", PROCESSES)
def test_every_process_waits_for_the_servers_and_the_migration(name: str) -> None:
    waits = {key: value["condition"] for key, value in SERVICES[name]["depends_on"].items()}
    assert waits == {
        "postgres": "service_healthy",
        "redis": "service_healthy",
        "migrate": "service_completed_successfully",
    }


def test_each_worker_is_asked_by_its_own_name() -> None:
    for name in ("worker-1", "worker-2", "bounds", "planner", "webhooks"):
        assert f"{name}@shadowprice" in SERVICES[name]["command"]
        assert SERVICES[name]["healthcheck"]["test"][-1] == f"{name}@shadowprice"


def test_no_worker_listens_to_what_other_workers_say_of_themselves() -> None:
    """Nothing uses it, and Celery logs a long traceback each time the broker ends the connection."""
    for name in ("worker-1", "worker-2", "bounds", "planner", "webhooks"):
        assert "--without-gossip" in SERVICES[name]["command"]


def test_each_queue_has_a_worker_and_decisions_have_workers_of_their_own(settings: Any) -> None:
    taken = [_queues(service["command"]) for service in SERVICES.values() if "worker" in service.get("command", ())]
    routed = {route["queue"] for route in settings.CELERY_TASK_ROUTES.values()} | {DECISIONS}
    assert set().union(*taken) == set(settings.QUEUES) == routed
    assert taken.count({DECISIONS}) == 2
    assert sum(DECISIONS in queues for queues in taken) == 2


def test_bounds_never_stand_before_decisions(settings: Any) -> None:
    for task in (tasks.certify, tasks.measure):
        assert settings.CELERY_TASK_ROUTES[task.name]["queue"] == "bounds"
    assert tasks.certify.name in {entry["task"] for entry in settings.CELERY_BEAT_SCHEDULE.values()}


def test_webhooks_wait_for_their_receivers_alone(settings: Any) -> None:
    [queues] = [_queues(one["command"]) for name, one in SERVICES.items() if name == "webhooks"]
    assert queues == {"webhooks"}
    assert settings.CELERY_TASK_ROUTES[tasks.deliver_webhooks.name]["queue"] == "webhooks"


def _queues(command: list[str]) -> set[str]:
    """Return the queues of a worker."""
    if "--queues" not in command:
        return {DECISIONS}
    return set(command[command.index("--queues") + 1].split(","))


def test_secrets_come_from_outside_and_their_absence_stops_the_start() -> None:
    for secret in ("POSTGRES_PASSWORD", "SHADOWPRICE_SECRET_KEY"):
        uses = re.findall(r"\$\{" + secret + r"\b(?!_)([^}]*)\}", FILE.read_text())
        assert uses
        assert all(use.startswith(":?") for use in uses)


def test_the_health_check_is_answered_whatever_name_the_site_has() -> None:
    hosts = SERVICES["web"]["environment"]["SHADOWPRICE_HOSTS"]
    assert hosts.rpartition(",")[2] in SERVICES["web"]["healthcheck"]["test"][-1]


def test_the_web_process_trusts_the_proxies_that_the_environment_names_and_no_others() -> None:
    assert SERVICES["web"]["environment"]["SHADOWPRICE_PROXIES"] == "${SHADOWPRICE_PROXIES:-}"


def test_every_variable_that_is_documented_reaches_the_processes() -> None:
    page = (ROOT / "docs/operators/installation.md").read_text()
    documented = set(re.findall(r"^\| `([A-Z_]+)` \|", page, re.M))
    of_the_image = {"SHADOWPRICE_VAR", "NUMBA_CACHE_DIR"}
    not_here = {"SHADOWPRICE_DEBUG", "SHADOWPRICE_EXECUTION"}  # and no jobs run in a container
    given = SERVICES["web"]["environment"]
    named = {name for value in given.values() if value for name in re.findall(r"\$\{([A-Z_]+)", value)}
    of_compose = set(re.findall(r"\$\{([A-Z_]+)", FILE.read_text())) - named
    assert {"SHADOWPRICE_EMAIL_URL", "SHADOWPRICE_LOG_FORMAT", "SHADOWPRICE_WAITING_BIDS"} <= documented
    assert documented == set(given) | named | of_compose | of_the_image | not_here


def test_no_service_mounts_a_path_of_the_host_and_every_volume_is_declared() -> None:
    mounts = [volume for service in SERVICES.values() for volume in service.get("volumes", [])]
    assert {mount.split(":")[0] for mount in mounts} == set(COMPOSE["volumes"])
    assert not [mount for mount in mounts if mount.startswith(("/", ".", "~"))]


def test_the_file_of_the_secrets_is_in_no_image() -> None:
    assert "> .env" in FILE.read_text()
    assert ".env*" in (ROOT / ".dockerignore").read_text().splitlines()


def test_the_image_is_made_from_the_pinned_requirements() -> None:
    dockerfile = Path(ROOT / "Dockerfile").read_text()
    assert "ARG REQUIREMENTS=requirements.txt\n" in dockerfile
    assert "pip install --no-cache-dir -r ${REQUIREMENTS}" in dockerfile
    assert re.search(r"^USER (?!root)", dockerfile, re.M)
