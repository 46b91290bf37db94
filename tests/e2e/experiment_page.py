"""Duration of the experiments page from a cold start: `python -m tests.e2e.experiment_page [--trace FILE]`.

Starts a server on an empty database, uploads the trace in a browser, asks for four policies with the bound
and three seeds on 160 GPUs, and waits for the last run. Says how long each took. Where no trace is named the rows of a
day are drawn, as for `python -m benchmarks.philly`. `--pictures FOLDER` takes pictures of the pages, too.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import numpy as np

from benchmarks.philly_rows import DAY, draw_jobs, text_of
from tests import processes
from tests.e2e.browser import Browser, browser
from tests.e2e.filled import PASSWORD
from tests.processes import Process

POLICIES = ("dps", "oasis", "fifo")
MORE = "dps price=paper"
LONGEST_S = 900.0
USER = f"from django.contrib.auth.models import User; User.objects.create_superuser('operator', password='{PASSWORD}')"


@contextmanager
def server(var: Path) -> Iterator[str]:
    """Address of a server on an empty database."""
    env = processes.python_env(var)
    processes.manage("migrate", "-v0", env=env)
    processes.manage("shell", "--no-imports", "-c", USER, env=env)
    port = processes.free_port()
    process = Process([sys.executable, "manage.py", "serve", "--port", str(port)], log=var / "log", env=env)
    try:
        processes.wait_until(lambda: processes.answers(port), what="the server")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.end()


def ask(window: Browser, trace: Path) -> None:
    """Upload the trace and ask for the experiment in the form."""
    window.log_in("operator", PASSWORD)
    window.open("/traces/")
    window.one("[name=file]").send_keys(str(trace.resolve()))
    window.one(".panel button").click()
    window.wait(lambda: window.js("/traces.\\d+/.test(location.pathname)"))
    window.one(".heading .button").click()
    window.wait(lambda: "/experiments/new/" in window.driver.current_url)
    for box in window.driver.find_elements("css selector", ".policies input[name^=use-]"):
        name = str(box.get_attribute("name")).removeprefix("use-")
        if box.is_selected() != (name in POLICIES):
            box.click()
    window.one("[name=apart]").click()
    window.fill("more", MORE)
    window.one(".panel > button").click()
    window.wait(lambda: window.js("/experiments.\\d+/.test(location.pathname)"))


def follow(window: Browser) -> None:
    """Until the page says, without a reload, that all runs are done."""
    until = monotonic() + LONGEST_S
    while window.text("#state") not in ("Completed", "Failed", "Cancelled"):
        assert monotonic() < until, window.text("#experiment")
        sleep(0.2)
    window.wait_drawn()


def take(window: Browser, folder: Path) -> None:
    """Pictures of the pages at two widths and in two themes, and their accessibility problems."""
    folder.mkdir(parents=True, exist_ok=True)
    shown = window.js("location.pathname")
    pages = {"experiment": shown, "experiments": "/experiments/", "new": "/experiments/new/", "trace": "/traces/1/"}
    for name, path in {**pages, "traces": "/traces/"}.items():
        for width in (1280, 390):
            for theme in ("light", "dark"):
                window.size(width, 900)
                window.theme(theme)
                window.open(path)
                if name == "experiment":
                    window.wait_drawn()
                wide = window.js("document.documentElement.scrollWidth > window.innerWidth")
                print(name, width, theme, "scrolls sideways" if wide else "fits", window.barriers() or "no barriers")
                window.picture(folder / f"{name}-{width}-{theme}.png")
    print("other hosts:", window.strangers() or "none", "console:", window.complaints() or "nothing")


def drawn_day(folder: Path) -> Path:
    """A file of synthetic rows in the format of Philly."""
    path = folder / "day.csv"
    path.write_text(text_of(draw_jobs(DAY, np.random.default_rng(DAY.seed))))
    return path


def main() -> None:
    """Measure, and say it."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.experiment_page", description=__doc__)
    parser.add_argument("--trace", type=Path, metavar="FILE", help="a trace of jobs")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    processes.end_on_sigterm()
    with tempfile.TemporaryDirectory(prefix="shadowprice-page-") as var:
        trace = options.trace or drawn_day(Path(var))
        began = monotonic()
        with server(Path(var)) as base, browser(base) as window:
            up = monotonic()
            ask(window, trace)
            asked = monotonic()
            follow(window)
            done = monotonic()
            print(f"up {up - began:.1f} s, uploaded and asked {asked - up:.1f} s, computed {done - asked:.1f} s,")
            print(f"from a cold start to the last figure {done - began:.1f} s")
            print(window.text("#experiment table"))
            if options.pictures:
                take(window, options.pictures)


if __name__ == "__main__":
    main()
