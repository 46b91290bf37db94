"""Pages stay live where no stream can be held open."""

import sys
from pathlib import Path

import pytest

from tests import processes
from tests.conftest import Tables, missing
from tests.e2e import browser as browsers
from tests.e2e.filled import PASSWORD
from tests.forks import libraries
from tests.processes import ROOT, Process

pytestmark = pytest.mark.browser


def test_a_page_polls_under_wsgi(tmp_path: Path, make_tables: Tables) -> None:
    if not browsers.present():
        missing("Chromium", install=browsers.INSTALL)
    env = processes.python_env(tmp_path)
    make_tables(env)
    libraries().run([sys.executable, "-m", "tests.e2e.filled", "3", "markets"], env=env, seconds=120)
    port = processes.free_port()
    command = [sys.executable, "manage.py", "runserver", "--noreload", "--insecure", str(port)]
    server = Process(command, log=tmp_path / "log", env=env, cwd=ROOT)
    try:
        processes.wait_until(lambda: processes.answers(port), what="the server")
        with browsers.browser(f"http://127.0.0.1:{port}") as window:
            window.log_in("operator", PASSWORD)
            window.open("/markets/demo/")
            window.wait_drawn()
            window.wait(lambda: window.text("#live") == "live, asking every 2 s")
            before = window.text("[data-tile=admitted] .muted")
            libraries().run([sys.executable, "-c", SUBMIT], env=env, seconds=120)
            window.wait(lambda: window.text("[data-tile=admitted] .muted") != before)
    finally:
        server.end()


SUBMIT = """
import django
django.setup()
from auctions.models import Bid
from auctions.engine.submission import submit_bid
bid = Bid.objects.filter(market__cluster__name="demo").select_related("market__cluster", "owner").first()
submit_bid(cluster=bid.market.cluster, owner=bid.owner, body=bid.body)
"""
