"""Pages stay live by a stream, and by asking where no stream can be held open."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import processes
from tests.conftest import Tables, missing
from tests.e2e import browser as browsers
from tests.e2e.browser import Browser
from tests.e2e.conftest import serving
from tests.e2e.filled import PASSWORD
from tests.execution.rows import KEY
from tests.forks import libraries

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory, make_tables: Tables) -> dict[str, str]:
    """The environment of an installation with a filled market, in which a job trains."""
    if not browsers.present():
        missing("Chromium", install=browsers.INSTALL)
    var = tmp_path_factory.mktemp("filled")
    env = processes.python_env(var) | {"SHADOWPRICE_EXECUTION": str(var / "execution")}
    make_tables(env)
    libraries().run([sys.executable, "-c", FILL], env=env, seconds=120)
    return env


@pytest.fixture(scope="module")
def opened() -> Iterator[Browser]:
    """A browser that visits one server after the other."""
    with browsers.browser("about:blank") as window:
        yield window


@pytest.fixture(scope="module")
def without_streams(env: dict[str, str]) -> Iterator[str]:
    """The address of a server under WSGI."""
    with serving(env, "runserver", "--noreload", "--insecure") as address:
        yield address


def visited(opened: Browser, address: str) -> Browser:
    """The operator's window on a server."""
    window = Browser(opened.driver, address)
    window.forget()
    window.log_in("operator", PASSWORD)
    return window


def test_a_progress_bar_in_a_log_replaces_its_line_by_a_stream(opened: Browser, env: dict[str, str]) -> None:
    with serving(env, "serve", "--port") as address:
        assert_a_progress_bar_replaces_its_line(visited(opened, address), env, says_end=True)


def test_a_progress_bar_in_a_log_replaces_its_line_by_asking(
    opened: Browser, env: dict[str, str], without_streams: str
) -> None:
    assert_a_progress_bar_replaces_its_line(visited(opened, without_streams), env, says_end=False)


def assert_a_progress_bar_replaces_its_line(window: Browser, env: dict[str, str], *, says_end: bool) -> None:
    """The page that follows a log shows it as a terminal does."""
    folder = Path(env["SHADOWPRICE_EXECUTION"]) / "demo" / "processes" / "live" / KEY
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)

    def write(text: str) -> None:
        with open(folder / f"log.{0:020}", "a", newline="") as file:
            file.write(text)

    def shows(text: str) -> None:
        window.wait(lambda: window.js("document.getElementById('log').textContent") == text)

    write("begin\n\r10% <b>")
    window.open(f"/markets/demo/bids/1/training/logs/{KEY}/")
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
    if says_end:
        window.wait(lambda: window.text("#following") == "the process has ended")
    shows("begin\n100% █\nend\n1%")
    assert window.complaints() == []


def test_a_page_polls_under_wsgi(opened: Browser, env: dict[str, str], without_streams: str) -> None:
    window = visited(opened, without_streams)
    window.open("/markets/demo/")
    window.wait_drawn()
    window.wait(lambda: window.text("#live") == "live, asking every 2 s")
    before = window.text("[data-tile=admitted] .muted")
    libraries().run([sys.executable, "-c", SUBMIT], env=env, seconds=120)
    window.wait(lambda: window.text("[data-tile=admitted] .muted") != before)


def test_an_open_overview_loads_itself_again_with_the_charts_of_another_policy(
    opened: Browser, env: dict[str, str], without_streams: str
) -> None:
    window = visited(opened, without_streams)
    window.open("/markets/demo/")
    prices = "!!document.querySelector('#h-prices')"
    # Its key figures are the same as those of the demo.
    for change, has_prices in [("'competition', {}", False), ("first.name, first.parameters", True)]:
        window.wait_drawn()
        assert window.js(prices) is not has_prices
        libraries().run([sys.executable, "-c", CHOOSE.replace("CHANGE", change)], env=env, seconds=120)
        window.wait(lambda expected=has_prices: window.js(prices) is expected)
    window.wait_drawn()
    window.wait(lambda: window.text("#live") == "live, asking every 2 s")


def _outdate(window: Browser) -> None:
    """Let the receipt of the page that is open be an earlier one, which the page finds out by a refresh."""
    window.driver.execute_script(
        "const part = document.getElementById('receipt'); part.querySelector('#state').textContent = 'earlier';"
        "tags.delete(part.dataset.part); refresh();"
    )


def test_what_could_not_be_fetched_is_asked_for_again_though_no_version_follows(
    opened: Browser, without_streams: str
) -> None:
    window = visited(opened, without_streams)
    added = window.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": NO_VERSION_FOLLOWS})
    try:
        window.open("/markets/demo/bids/2/")
        window.wait(lambda: window.js("document.documentElement.dataset.drawn") == "1")
        window.wait(lambda: window.text("#live") == "live, asking every 2 s")
        window.driver.execute_script("window.refused = document.getElementById('receipt').dataset.part")
        _outdate(window)
        window.wait(lambda: window.text("#live") == "out of reach, trying again")
        assert window.text("#state") == "earlier"
        window.driver.execute_script("window.refused = null")
        window.wait(lambda: window.text("#state") not in ("earlier", ""))
        window.wait(lambda: window.text("#live") == "live, asking every 2 s")
    finally:
        window.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)


def test_what_is_typed_stays_when_the_receipt_is_replaced(opened: Browser, without_streams: str) -> None:
    window = visited(opened, without_streams)
    window.open("/markets/demo/bids/1/")
    window.wait_drawn()
    window.js("document.querySelector('#receipt [name=refund]').value = 'full'")
    window.fill("reason", "its disk is broken")
    _outdate(window)
    window.wait(lambda: window.text("#state") not in ("earlier", ""))
    assert window.js("document.querySelector('#receipt [name=reason]').value") == "its disk is broken"
    assert window.js("document.querySelector('#receipt [name=refund]').value") == "full"
    assert window.js("document.activeElement.name") == "reason"


def test_the_cursor_stays_where_it_is_when_the_receipt_is_replaced(opened: Browser, without_streams: str) -> None:
    window = visited(opened, without_streams)
    window.open("/markets/demo/bids/1/")
    window.wait_drawn()
    window.fill("reason", "its disk is broken")
    reason = "document.querySelector('#receipt [name=reason]')"
    for selected in ([4, 4, "none"], [4, 8, "backward"]):
        window.js(f"{reason}.setSelectionRange(...{selected})")
        _outdate(window)
        window.wait(lambda: window.text("#state") not in ("earlier", ""))
        assert window.js(f"[{reason}.selectionStart, {reason}.selectionEnd]") == selected[:2]
    assert window.js(f"{reason}.selectionDirection") == "backward"


NO_VERSION_FOLLOWS = """
const real = window.fetch;
window.fetch = (url, ...rest) => {
  if (url.includes("version")) return new Promise(() => {});
  return url === window.refused ? Promise.resolve(new Response("", { status: 503 })) : real(url, ...rest);
};
"""
"""The page hears of no version. The address `refused` is answered 503."""


def test_a_dark_page_is_printed_in_the_light_theme(opened: Browser, without_streams: str) -> None:
    window = visited(opened, without_streams)
    window.theme("dark")
    window.open("/markets/demo/")
    window.wait_drawn()
    words = "document.querySelector('.main-svg .xtick text')"
    seen = f"[getComputedStyle(document.body).color, getComputedStyle({words}).fill]"
    assert window.js(seen) == ["rgb(232, 234, 237)"] * 2
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    window.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": dark})
    try:
        assert window.js(seen) == ["rgb(27, 31, 36)"] * 2
    finally:
        window.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})


def test_a_long_word_in_a_title_is_broken_on_a_phone(opened: Browser, without_streams: str) -> None:
    window = visited(opened, without_streams)
    window.size(375, 800)
    for path in ("/", "/markets/demo-weighted/servers/", "/markets/demo-weighted/bids/1/"):
        window.open(path)
        assert "W" * 120 in window.text("main"), path
        assert not window.scrolls_sideways(), path


FILL = """
import django
django.setup()
from auctions.models import Bid
from cluster.models import Cluster
from tests.e2e.filled import fill_markets
from tests.execution.rows import make_training
fill_markets(3)
make_training(Bid.objects.get(market__cluster__name="demo", sequence=1))
Cluster.objects.filter(name="demo-weighted").update(title="W" * 120)
"""
CHOOSE = """
import django
django.setup()
from auctions.engine.policies import change_policy
from auctions.models import Market
market = Market.objects.get(cluster__name="demo")
first = market.policies.get(number=1)
name, parameters = CHANGE
change_policy(market, name=name, parameters=parameters, by=None)
"""
SUBMIT = """
import django
django.setup()
from auctions.models import Bid
from auctions.engine.submission import submit_bid
bid = Bid.objects.filter(market__cluster__name="demo").select_related("market__cluster", "owner").first()
submit_bid(cluster=bid.market.cluster, owner=bid.owner, body=bid.body)
"""
