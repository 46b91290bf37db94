"""A served market in a process of its own, and a window on it."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests import processes
from tests.conftest import missing
from tests.e2e import browser as browsers
from tests.e2e.browser import Browser
from tests.processes import ROOT, Process


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a server with its in-process worker and a filled market."""
    if not browsers.present():
        missing("Chromium", install=browsers.INSTALL)
    var = tmp_path_factory.mktemp("served")
    env = processes.python_env(var)
    processes.manage("migrate", env=env)
    filled = subprocess.run(
        [sys.executable, "-m", "tests.e2e.filled", "40"], env=env, cwd=ROOT, capture_output=True, text=True
    )
    assert filled.returncode == 0, filled.stderr
    port = processes.free_port()
    server = Process([sys.executable, "manage.py", "serve", "--port", str(port)], log=var / "log", env=env)
    try:
        processes.wait_until(lambda: processes.answers(port), what="the server")
        yield f"http://127.0.0.1:{port}"
    finally:
        server.end()


@pytest.fixture
def window(served: str) -> Iterator[Browser]:
    """An empty window on the server."""
    with browsers.browser(served) as opened:
        yield opened
