"""Every command and health check of docker-compose.yml, run natively against a real PostgreSQL and Redis."""

import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.architecture.test_compose import SERVICES
from tests.conftest import INSTALL, missing
from tests.forks import project
from tests.processes import Process, Server, binary, free_port, fresh_database, python_env, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.services]
OF_PYTHON = ("python", "celery")
"""Programs that begin with everything imported."""


class Native:
    """The compose file's commands with this machine's ports in place of the containers' own."""

    def __init__(self, *, directory: Path, postgres_url: str, redis_url: str) -> None:
        self.directory = directory
        self.port = free_port()
        self.postgres, self.redis = urlsplit(postgres_url), urlsplit(redis_url)
        self.env = python_env(
            directory,
            DATABASE_URL=postgres_url,
            REDIS_URL=redis_url,
            SHADOWPRICE_SECRET_KEY="only for this test",
            PGPORT=str(self.postgres.port),
        )

    def words(self, words: list[str]) -> list[str]:
        """A command for this machine; a ping waits its 8 seconds only where nobody answers, so 2 will do here."""
        ports = {"8000": str(self.port), "6379": str(self.redis.port), "0.0.0.0": "127.0.0.1", "8": "2"}
        swapped = [ports.get(word, word).replace("$$", "$").replace(":8000/", f":{self.port}/") for word in words]
        return swapped if swapped[0] in OF_PYTHON else [binary(swapped[0]) or swapped[0], *swapped[1:]]

    def start(self, name: str) -> Process:
        """The service's process."""
        command = self.words(SERVICES[name]["command"])
        parent = project(self.env) if command[0] in OF_PYTHON else None
        return Process(command, log=self.directory / f"{name}.log", env=self.env, parent=parent)

    def is_healthy(self, name: str) -> bool:
        """What its health check says."""
        kind, *words = SERVICES[name]["healthcheck"]["test"]
        command = ["sh", "-c", words[0].replace("$$", "$")] if kind == "CMD-SHELL" else self.words(words)
        if command[0] in OF_PYTHON:
            return project(self.env).complete(command, env=self.env, seconds=60).returncode == 0
        return subprocess.run(command, env=self.env, capture_output=True, timeout=60).returncode == 0


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory, postgres_server: Server, redis_url: str) -> Native:
    """On a database whose tables are made, as whenever containers are started again."""
    address = fresh_database(postgres_server)
    made = Native(directory=tmp_path_factory.mktemp("compose"), postgres_url=address, redis_url=redis_url)
    migrate = made.start("migrate")
    try:
        assert migrate.popen.wait(120) == 0, migrate.text()
        assert "No migrations to apply" in migrate.text()
    finally:
        migrate.end()
    return made


@pytest.mark.parametrize("name", ["web", "worker-1", "worker-2", "bounds", "planner", "webhooks", "beat"])
def test_a_process_comes_up_healthy_and_is_unhealthy_when_gone(native: Native, name: str) -> None:
    assert not native.is_healthy(name)
    process = native.start(name)
    try:
        wait_until(lambda: native.is_healthy(name) or not process.alive, what=name, every=0.5)
        assert process.alive, process.text()
    finally:
        process.end()
    if name != "beat":  # its file must grow old first
        assert not native.is_healthy(name)


@pytest.mark.parametrize("name", ["postgres", "redis"])
def test_the_servers_health_checks_answer(native: Native, name: str) -> None:
    assert native.is_healthy(name)


def test_rediss_own_command_starts_it(tmp_path: Path) -> None:
    port = free_port()
    command = SERVICES["redis"]["command"]
    program = binary(command[0]) or missing("Redis", install=INSTALL)
    process = Process(
        [program, *command[1:], "--port", str(port), "--bind", "127.0.0.1"],
        log=tmp_path / "redis.log",
        cwd=tmp_path,
    )
    try:
        wait_until(
            lambda: subprocess.run(["redis-cli", "-p", str(port), "ping"], capture_output=True).returncode == 0,
            what="Redis",
        )
    finally:
        process.end()
