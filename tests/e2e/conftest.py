"""A served market in a process of its own, and a window on it."""

import sys
from collections.abc import Iterator

import pytest

from tests import processes
from tests.conftest import Tables, missing
from tests.e2e import browser as browsers
from tests.e2e.browser import Browser
from tests.forks import libraries
from tests.processes import Process


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, make_tables: Tables) -> Iterator[str]:
    """Address of a server with its own worker and a filled market."""
    if not browsers.present():
        missing("Chromium", install=browsers.INSTALL)
    var = tmp_path_factory.mktemp("served")
    env = processes.python_env(var)
    make_tables(env)
    libraries().run([sys.executable, "-m", "tests.e2e.filled", "18"], env=env, seconds=300)
    port = processes.free_port()
    server = Process([sys.executable, "manage.py", "serve", "--port", str(port)], log=var / "log", env=env)
    try:
        processes.wait_until(lambda: processes.answers(port), what="the server")
        yield f"http://127.0.0.1:{port}"
    finally:
        server.end()


@pytest.fixture(scope="module")
def opened(served: str) -> Iterator[Browser]:
    """The window of a whole file: opening one takes as long as most tests do in it."""
    with browsers.browser(served) as window:
        yield window


@pytest.fixture
def window(opened: Browser) -> Browser:
    """An empty window on the server."""
    opened.forget()
    return opened
