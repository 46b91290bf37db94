"""A served market in a process of its own, and a window on it."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import processes
from tests.conftest import Tables, missing
from tests.e2e import browser as browsers
from tests.e2e.browser import Browser
from tests.forks import libraries
from tests.processes import ROOT, Process


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, make_tables: Tables) -> Iterator[str]:
    """Address of a server with its own worker and a filled market."""
    if not browsers.present():
        missing("Chromium", install=browsers.INSTALL)
    env = processes.python_env(tmp_path_factory.mktemp("served"))
    make_tables(env)
    libraries().run([sys.executable, "-m", "tests.e2e.filled", "18"], env=env, seconds=300)
    with serving(env, "serve", "--port") as address:
        yield address


@contextmanager
def serving(env: Mapping[str, str], *command: str) -> Iterator[str]:
    """The address of a server that ends with the block; the command is without its last word, the port."""
    port, log = processes.free_port(), Path(env["SHADOWPRICE_VAR"]) / "log"
    server = Process([sys.executable, "manage.py", *command, str(port)], log=log, env=dict(env), cwd=ROOT)
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
