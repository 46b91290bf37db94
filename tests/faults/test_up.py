"""`make up`, `make smoke` and `make down`: the processes of the compose file on this machine, without containers."""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any

import pytest

from demo import client
from tests.architecture.test_compose import SERVICES
from tests.conftest import INSTALL, missing
from tests.processes import ROOT, binary, free_port, python_env, wait_until

NATIVE = ROOT / "deploy/native.py"


def run(*arguments: str, var: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    """Run a command of it to its end."""
    command = [sys.executable, str(NATIVE), *arguments]
    return subprocess.run(command, cwd=ROOT, env=python_env(var, **extra), capture_output=True, text=True, timeout=300)


@pytest.fixture
def var() -> Iterator[Path]:
    """A data directory that PostgreSQL's user can enter, which pytest's are not."""
    made = Path(tempfile.mkdtemp(prefix="shadowprice-up-"))
    made.chmod(0o755)
    yield made
    run("down", var=made)
    shutil.rmtree(made)


@pytest.fixture
def native(var: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of these commands, for this data directory."""
    monkeypatch.setenv("SHADOWPRICE_VAR", str(var))
    spec = importlib.util.spec_from_file_location("native", NATIVE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "native", module)
    spec.loader.exec_module(module)
    return module


def children(process: int) -> dict[int, str]:
    """The children of a process with their commands."""
    command = ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(process)]
    rows = (
        line.split(maxsplit=1) for line in subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    )
    return {int(number): command for number, command in rows}


def is_alive(process: int) -> bool:
    """Whether a process exists and is no zombie."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True).stdout.strip()
    return bool(state) and not state.startswith("Z")


@pytest.mark.slow
@pytest.mark.services
def test_everything_comes_up_decides_a_bid_survives_a_dead_worker_and_ends(var: Path) -> None:
    for name in ("initdb", "redis-server"):
        if binary(name) is None:
            missing(name, install=INSTALL)
    port = free_port()
    up = run("up", "--port", str(port), var=var)
    assert up.returncode == 0, up.stdout + up.stderr
    assert f"Ready at http://127.0.0.1:{port}" in up.stdout
    state = json.loads((var / "up/state.json").read_text())
    for file in ("state.json", "secrets.json", "redis/redis.conf"):
        assert (var / "up" / file).stat().st_mode & 0o077 == 0, file
    started = children(state["process"])
    assert len(started) == len(SERVICES) - len({"migrate"}) + len({"execution"})
    secrets = json.loads((var / "up/secrets.json").read_text()).values()
    assert not [command for command in started.values() for secret in secrets if secret in command]
    assert "runs already" in run("up", "--port", str(port), var=var).stdout
    first = run("smoke", var=var)
    assert first.stdout.startswith("Bid 1 was decided: "), first.stdout + first.stderr
    worker = next(number for number, command in started.items() if "worker-1@" in command)
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: any("worker-1@" in c for n, c in children(state["process"]).items() if n != worker), what="it")
    second = run("smoke", var=var)
    assert second.stdout.startswith("Bid 2 was decided: "), second.stdout + second.stderr
    last = children(state["process"])
    down = run("down", var=var)
    assert down.returncode == 0, down.stdout + down.stderr
    assert not [command for number, command in last.items() if is_alive(number)]
    assert "does not run" in run("down", var=var).stdout
    assert (var / "up/postgres/PG_VERSION").exists()


def test_the_commands_are_those_of_the_compose_file(native: ModuleType) -> None:
    commands = native.processes(8123)
    assert set(commands) == set(SERVICES) - {"migrate", "postgres", "redis"} | {"execution"}
    assert commands["web"] == [sys.executable, "manage.py", "serve", "--host", "127.0.0.1", "--port", "8123"]
    assert commands["worker-1"] == SERVICES["worker-1"]["command"]
    assert "$SHADOWPRICE_VAR" in commands["beat"][2]
    assert "$$" not in commands["beat"][2]


def test_everything_that_is_missing_is_named_with_its_package(
    native: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native.shutil, "which", lambda *_, **__: None)
    monkeypatch.setattr(native, "answers", lambda port: True)
    with pytest.raises(native.Failed) as error:
        native.check_machine(8000)
    text = str(error.value)
    assert "initdb is missing: apt-get install postgresql" in text
    assert "redis-server is missing: apt-get install redis-server" in text
    assert "port 8000 is in use: choose another one with make up PORT=8001" in text


@pytest.mark.parametrize("port", [0, -1, 65536, 99999])
def test_a_port_that_is_none_is_refused(native: ModuleType, monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    monkeypatch.setattr(native, "server_user", lambda: None)
    monkeypatch.setattr(native, "program", lambda name: name)
    with pytest.raises(native.Failed, match=f"port: expected 1 to 65535, got {port}"):
        native.check_machine(port)


def test_a_directory_that_the_user_of_postgresql_cannot_enter_is_named(
    native: ModuleType, var: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("Only root runs PostgreSQL as another user.")
    monkeypatch.setattr(native, "program", lambda name: name)
    native.UP.mkdir()
    native.check_machine(free_port())
    var.chmod(0o700)
    with pytest.raises(native.Failed, match=r"cannot enter .* set SHADOWPRICE_VAR"):
        native.check_machine(free_port())


def test_secrets_are_made_once_and_the_environment_may_add_settings(
    native: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    native.UP.mkdir()
    monkeypatch.setenv("SHADOWPRICE_RATE", "5/second")
    monkeypatch.setenv("PGPASSWORD", "of another server")
    monkeypatch.setenv("SHADOWPRICE_HOSTS", "market.example.org")
    first, second = native.environment(8000), native.environment(8000)
    assert first["SHADOWPRICE_SECRET_KEY"] == second["SHADOWPRICE_SECRET_KEY"]
    assert len(first["SHADOWPRICE_SECRET_KEY"]) >= 50
    assert first["SHADOWPRICE_RATE"] == "5/second"
    assert first["SHADOWPRICE_HOSTS"] == "market.example.org,127.0.0.1", "`up` and `smoke` ask by the address"
    assert "PGPASSWORD" not in first


def test_a_secret_key_may_come_from_a_file_and_addresses_of_servers_may_not(
    native: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    native.UP.mkdir()
    for name in ("SHADOWPRICE_SECRET_KEY_FILE", "DATABASE_URL_FILE", "REDIS_URL_FILE"):
        monkeypatch.setenv(name, f"/run/secrets/{name}")
    made = native.environment(8000)
    assert made["SHADOWPRICE_SECRET_KEY_FILE"] == "/run/secrets/SHADOWPRICE_SECRET_KEY_FILE"
    # With both no process starts.
    assert not {"SHADOWPRICE_SECRET_KEY", "DATABASE_URL_FILE", "REDIS_URL_FILE"} & set(made)


def test_up_says_that_the_installation_ended_while_it_waited(
    native: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ended:
        pid = os.getpid()

        def poll(self) -> int:
            native.STATE.unlink()  # as `down` does
            return 0

    monkeypatch.setattr(native, "check_machine", lambda port: None)
    with monkeypatch.context() as patched:
        patched.setattr(native.subprocess, "Popen", lambda *_, **__: Ended())
        with pytest.raises(native.Failed, match="It ended"):
            native.up(8000)


def test_a_management_command_gets_the_environment_of_the_caller_below_that_of_the_installation(
    native: ModuleType, var: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {
        "DJANGO_SUPERUSER_PASSWORD": "of the new account",
        "DATABASE_URL": "of another installation",
        "SHADOWPRICE_RATE": "of another installation",
        "PGPASSWORD": "of another server",
    }
    for name, value in asked.items():
        monkeypatch.setenv(name, value)
    (var / "manage.py").write_text("import json, os; open('seen', 'w').write(json.dumps(dict(os.environ)))")
    installation = {"DATABASE_URL": "of this installation", "SHADOWPRICE_HOSTS": "of this installation"}
    monkeypatch.setattr(native, "ROOT", var)
    monkeypatch.setattr(native, "running", lambda: {"environment": installation})
    assert native.manage(["createsuperuser"]) == 0
    seen = json.loads((var / "seen").read_text())
    assert installation.items() <= seen.items()
    assert {name: seen.get(name) for name in asked} == {
        "DJANGO_SUPERUSER_PASSWORD": "of the new account",
        "DATABASE_URL": "of this installation",
        "SHADOWPRICE_RATE": None,
        "PGPASSWORD": None,
    }


def test_commands_say_that_nothing_runs(var: Path) -> None:
    assert "make up" in run("smoke", var=var).stderr
    assert "does not run" in run("down", var=var).stdout


def test_this_machine_is_asked_without_the_proxy_of_the_environment(
    native: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ready(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with HTTPServer(("127.0.0.1", 0), Ready) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            assert native.not_ready(server.server_port) == ""
            assert client.is_up(f"http://127.0.0.1:{server.server_port}")
        finally:
            server.shutdown()


def test_another_process_with_the_number_of_an_earlier_one_is_left_alone(native: ModuleType) -> None:
    native.UP.mkdir()
    other = subprocess.Popen(["sleep", "60"])
    try:
        state: dict[str, Any] = {"process": other.pid, "started": "1", "environment": {}}
        native.STATE.write_text(json.dumps(state))
        assert native.running() is None
        native.down()
        assert other.poll() is None
        native.STATE.write_text(json.dumps(state | {"started": native.started(other.pid)}))
        assert native.running() is not None
        native.down()
        assert other.wait(10) == -signal.SIGTERM
    finally:
        other.kill()
        other.wait()
