"""A page that follows a log shows a progress bar as a terminal does, by a stream and by asking."""

import sys
from pathlib import Path

import pytest

from tests import processes
from tests.conftest import Tables, missing
from tests.e2e import browser as browsers
from tests.e2e.filled import PASSWORD
from tests.execution.rows import KEY
from tests.forks import libraries
from tests.processes import ROOT, Process

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("command", [("serve", "--port"), ("runserver", "--noreload", "--insecure")])
def test_a_progress_bar_replaces_its_line(tmp_path: Path, make_tables: Tables, command: tuple[str, ...]) -> None:
    if not browsers.present():
        missing("Chromium", install=browsers.INSTALL)
    env = processes.python_env(tmp_path) | {"SHADOWPRICE_EXECUTION": str(tmp_path / "execution")}
    make_tables(env)
    libraries().run([sys.executable, "-m", "tests.e2e.filled", "3", "markets"], env=env, seconds=120)
    libraries().run([sys.executable, "-c", TRAIN], env=env, seconds=120)
    folder = tmp_path / "execution" / "demo" / "processes" / "live" / KEY
    folder.mkdir(parents=True)

    def write(text: str) -> None:
        with open(folder / f"log.{0:020}", "a", newline="") as file:
            file.write(text)

    write("begin\n\r10% <b>")
    port = processes.free_port()
    server = Process([sys.executable, "manage.py", *command, str(port)], log=tmp_path / "log", env=env, cwd=ROOT)
    try:
        processes.wait_until(lambda: processes.answers(port), what="the server")
        with browsers.browser(f"http://127.0.0.1:{port}") as window:
            window.log_in("operator", PASSWORD)
            window.open(f"/markets/demo/bids/1/training/logs/{KEY}/")

            def shows(text: str) -> None:
                window.wait(lambda: window.js("document.getElementById('log').textContent") == text)

            shows("begin\n10% <b>")
            write("\r11% █")
            shows("begin\n11% █")
            for percent in range(12, 100):
                write(f"\r{percent}% █")
            shows("begin\n99% █")
            write("\r100% █\nend\n\r1")
            shows("begin\n100% █\nend\n1")
            write("%")
            shows("begin\n100% █\nend\n1%")
            (folder / "exit.json").write_text("{}")
            if command[0] == "serve":
                window.wait(lambda: window.text("#following") == "the process has ended")
            shows("begin\n100% █\nend\n1%")
            assert window.complaints() == []
    finally:
        server.end()


TRAIN = """
import django
django.setup()
from auctions.models import Bid
from tests.execution.rows import make_training
make_training(Bid.objects.get(market__cluster__name="demo", sequence=1))
"""
